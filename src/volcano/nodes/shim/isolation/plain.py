"""Plain processes of this host, without namespaces; each pod has its own address and directories."""

import contextlib
import hashlib
import os
import re
import shutil
import signal
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from volcano.nodes.shim import listeners, processes
from volcano.nodes.shim.isolation import capabilities, cgroups, device_cgroups, gpus
from volcano.nodes.shim.isolation.base import ExecCommand, Sandbox, Stdio, strerror
from volcano.nodes.shim.specs import (
    ContainerSpec,
    Failure,
    Identity,
    Mount,
    SandboxSpec,
    SandboxState,
    Security,
    Usage,
)
from volcano.nodes.shim.supervisor import DEFAULT_PATH, SupervisedProcess, supervise

# Set in every process of a plain container, to find those that survived shim and supervisor.
ROOT_VARIABLE = "VOLCANO_ROOT"
# Below the pod's sandbox; no container can have such a name.
_HOME, _TEMPORARY = "_home", "_tmp"
_NETWORK = "127.88"
_ADDRESSES = 254 * 254
_LIMITATIONS = (
    "Pods run as plain processes of this host: they see its files, processes and network, and no image is used.",
    "Pods have no host names of their own; their addresses are loopback addresses, and a program that listens on all "
    "addresses takes its port from every pod.",
    "Volumes are found below $VOLCANO_ROOT (a mount at /data is $VOLCANO_ROOT/data, and $VOLCANO_MOUNT_DATA names it), "
    "not at their mount paths, which are put right in commands and in variables that begin with one; read-only ones "
    "can be written, and those in memory are on disk.",
    "Addresses of Services are not reached, and network policies are not enforced.",
    "CPU limits are not enforced; memory limits are by watching: a container found over its limit is killed.",
)
_UNPRIVILEGED = (
    "Containers run as the user who started volcano, whatever runAsUser says; ports below 1024 are refused."
)
_GPUS_VISIBLE = (
    "Pods can open every GPU of this host; variables name their own and hide the others from CUDA ({reason})."
)


@dataclass(slots=True)
class PlainSandbox:
    """A pod with an address of 127.88.0.0/16."""

    spec: SandboxSpec
    address: str


class PlainIsolation:
    """Implements `Isolation`; the pid of a container is that of its supervisor."""

    def __init__(self, directory: str, *, gpu_majors: Collection[int] | None = None) -> None:
        """`gpu_majors` are the major numbers of GPUs, by default those of NVIDIA's driver on this host."""
        self.limitations: Sequence[str] = (
            _LIMITATIONS if os.geteuid() == 0 else (*_LIMITATIONS, _UNPRIVILEGED)
        )
        self._sandboxes: dict[str, PlainSandbox] = {}
        self._containers: dict[int, ContainerSpec] = {}
        self._executions: dict[int, set[int]] = {}  # by the container's pid
        self._over_limit: set[int] = set()
        self._gpu_majors = gpus.driver_majors() if gpu_majors is None else frozenset(gpu_majors)
        self._cgroups = cgroups.Cgroups(cgroups.cluster_id(directory), ())
        # Clusters of one machine share 127.88.0.0/16: each starts at another address.
        self._next = int.from_bytes(hashlib.blake2b(os.fsencode(directory), digest_size=4).digest(), "big")

    def open(self) -> None:
        processes.become_subreaper()
        if self._gpu_majors:
            self._open_cgroups()

    def _open_cgroups(self) -> None:
        """Prepares cgroups with device rules, where this process may use them: nothing else hides a device here."""
        hierarchies = cgroups.own_unified()
        reason = device_cgroups.unavailable_reason()
        if hierarchies and not reason:
            cgroups.remove_orphaned(hierarchies, self._cgroups.name)
            self._cgroups.hierarchies = hierarchies
            self._cgroups.open()
        if not self._cgroups.hierarchies:
            reason = reason or "no control group of version 2 can be written to"
            self.limitations = (*self.limitations, _GPUS_VISIBLE.format(reason=reason))

    def create(self, spec: SandboxSpec) -> PlainSandbox:
        for name in (_HOME, _TEMPORARY):
            try:
                os.makedirs(os.path.join(_sandbox_directory(spec), name), exist_ok=True)
            except OSError as error:
                raise Failure("FailedCreatePodSandBox", f"{error.filename}: {strerror(error)}") from error
        sandbox = PlainSandbox(spec, self._address(spec.wanted_address))
        self._sandboxes[spec.uid] = sandbox
        return sandbox

    def start(self, sandbox: Sandbox, spec: ContainerSpec, stdio: Stdio) -> int:
        root = _root(sandbox, spec)
        try:
            shutil.rmtree(root, ignore_errors=True)  # each attempt starts with an empty root
            os.makedirs(root)
            for mount in sorted(spec.mounts, key=lambda mount: mount.target):
                _link_mount(mount, root)
            _chown_directories(sandbox, root, spec.identity)
        except OSError as error:
            raise Failure("CreateContainerError", f"{error.filename}: {strerror(error)}") from error
        program = _supervised(sandbox, spec, spec.command, spec.environment, spec.working_directory, stdio)
        pid = supervise(replace(program, cgroups=self._restricted_cgroups(spec)))
        self._containers[pid] = spec
        self._executions[pid] = set()
        return pid

    def execute(
        self, sandbox: Sandbox, spec: ContainerSpec, pid: int, command: ExecCommand, stdio: Stdio
    ) -> int:
        process = _supervised(
            sandbox, spec, command.command, command.environment, command.working_directory, stdio
        )
        execution = supervise(replace(process, cgroups=self._cgroups_of(spec)))
        self._executions[pid].add(execution)
        return execution

    def _restricted_cgroups(self, spec: ContainerSpec) -> list[str]:
        """Cgroups in which only the container's own GPUs can be opened; none where that cannot be enforced."""
        directories = self._cgroups_of(spec)
        rules = gpus.device_rules(self._gpu_majors, spec) if directories else b""
        if not self._cgroups.restrict_devices(_cgroup(spec), rules):
            raise Failure("CreateContainerError", f"cannot restrict the GPUs of container {spec.name!r}")
        return directories

    def _cgroups_of(self, spec: ContainerSpec) -> list[str]:
        try:
            return self._cgroups.create(_cgroup(spec), cgroups.CgroupLimits(), leaf=True)
        except OSError as error:
            raise Failure("CreateContainerError", f"{error.filename}: {strerror(error)}") from error

    def open_terminal(self, sandbox: Sandbox, pid: int) -> tuple[int, int]:
        return os.openpty()

    def signal(self, sandbox: Sandbox, pid: int, number: int) -> bool:
        """The supervisor forwards signals that it can catch; SIGKILL and SIGSTOP are sent to the program directly."""
        if number == signal.SIGKILL:
            processes.kill_descendants(pid)
        elif number == signal.SIGSTOP:
            processes.send(processes.children(pid)[:1], number)
        else:
            processes.send([pid], number)
        return False

    def finish(self, sandbox: Sandbox, spec: ContainerSpec, pid: int) -> bool:
        for execution in self._executions.pop(pid, set()):
            processes.kill_descendants(execution)
        self._containers.pop(pid, None)
        self._kill_orphans()
        self._cgroups.remove(_cgroup(spec))
        over_limit = pid in self._over_limit
        self._over_limit.discard(pid)
        return over_limit

    def remove(self, sandbox: Sandbox) -> None:
        self._sandboxes.pop(sandbox.spec.uid, None)
        self._cgroups.remove(sandbox.spec.uid)
        shutil.rmtree(_sandbox_directory(sandbox.spec), ignore_errors=True)

    def open_socket(self, sandbox: Sandbox | None, family: int, kind: int) -> socket.socket:
        return socket.socket(family, kind)

    def usage(self, sandbox: Sandbox, spec: ContainerSpec, pid: int) -> Usage | None:
        # The CPU time of exited processes is included: the supervisor reaped them.
        tree = self._tree(pid)
        used = sum(map(processes.cpu_seconds, tree))
        return Usage(spec.pod, spec.name, used, sum(map(processes.private_memory, tree[1:])))

    def close(self) -> None:
        for sandbox in list(self._sandboxes.values()):
            self.remove(sandbox)
        self._cgroups.close()

    def remove_leftovers(self, lost: Sequence[SandboxState]) -> None:
        """Kills the processes of containers whose supervisors were killed, too, and removes their sandboxes."""
        kill_leftover_processes(lost)
        for sandbox in lost:
            shutil.rmtree(os.path.join(sandbox.directory, "sandbox"), ignore_errors=True)

    def listening_addresses(self, sandbox: Sandbox, port: int) -> list[str]:
        """Returns the addresses at which the pod's own processes listen on a port; the network is the host's."""
        pids = [
            below
            for pid, spec in self._containers.items()
            if spec.pod == sandbox.spec.uid
            for below in self._tree(pid)
        ]
        return listeners.addresses(pids, port, sandbox.address)

    def enforce_memory_limits(self) -> None:
        """Kills containers that exceed their memory limit; called about once a second."""
        for pid, spec in self._containers.items():
            if not spec.memory_limit or pid in self._over_limit:
                continue
            tree = self._tree(pid)[1:]
            if (
                sum(map(processes.private_memory, tree)) > spec.memory_limit
                and sum(map(processes.proportional_memory, tree)) > spec.memory_limit
            ):
                self._over_limit.add(pid)
                processes.kill_descendants(pid)

    def _tree(self, pid: int) -> list[int]:
        below = processes.descendants(pid)
        for execution in self._executions.get(pid, ()):
            below += processes.descendants(execution)
        return [pid, *below]

    def _kill_orphans(self) -> None:
        """Kills processes whose supervisor was killed: they become children of the shim."""
        known = self._containers.keys() | {pid for pids in self._executions.values() for pid in pids}
        orphans = set(processes.children(os.getpid())) - known
        for pid in orphans:
            processes.kill_descendants(pid)
        processes.send(orphans, signal.SIGKILL)

    def _address(self, wanted: str) -> str:
        taken = {sandbox.address for sandbox in self._sandboxes.values()}
        if wanted.startswith(f"{_NETWORK}.") and wanted not in taken:
            return wanted
        for _ in range(_ADDRESSES):
            high, low = divmod(self._next % _ADDRESSES, 254)
            self._next += 1
            address = f"{_NETWORK}.{high + 1}.{low + 1}"
            if address not in taken:
                return address
        raise Failure("FailedCreatePodSandBox", f"all {_ADDRESSES} addresses of {_NETWORK}.0.0/16 are taken")


def kill_leftover_processes(lost: Sequence[SandboxState]) -> list[int]:
    """Kills processes of plain containers that survived shim and supervisor; returns their pids."""
    directories = tuple(f"{sandbox.directory.rstrip('/')}/" for sandbox in lost)
    found = [
        pid
        for pid in processes.every_pid()
        if directories and processes.environment(pid).get(ROOT_VARIABLE, "").startswith(directories)
    ]
    processes.send(found, signal.SIGKILL)
    return found


def _supervised(
    sandbox: Sandbox,
    spec: ContainerSpec,
    command: Sequence[str],
    environment: Mapping[str, str],
    directory: str,
    stdio: Stdio,
) -> SupervisedProcess:
    root = _root(sandbox, spec)
    own = _sandbox_directory(sandbox.spec)
    defaults = {
        "PATH": os.environ.get("PATH", DEFAULT_PATH),
        "HOME": os.path.join(own, _HOME),
        "TMPDIR": os.path.join(own, _TEMPORARY),
        "HOSTNAME": sandbox.spec.hostname,
        **({"TERM": "xterm"} if stdio.tty else {}),
        **{_mount_variable(mount): mount.source for mount in spec.mounts},
    }
    return SupervisedProcess(
        command=[substitute_mount_paths(argument, spec.mounts) for argument in command],
        environment={
            **defaults,
            **{name: host_path(value, spec.mounts) or value for name, value in environment.items()},
            ROOT_VARIABLE: root,
        },
        directory=_working_directory(directory, spec, root),
        stdio=stdio,
        identity=spec.identity,
        no_new_privileges=spec.security.no_new_privileges,
        seccomp_capabilities=_seccomp_capabilities(spec.security),
        cpus=spec.cpus,
    )


def _seccomp_capabilities(security: Security) -> frozenset[str] | None:
    """The capabilities that the profile RuntimeDefault depends on; None when it is not to be applied."""
    if not security.default_seccomp or security.privileged:
        return None
    return capabilities.effective(security)


def _working_directory(wanted: str, spec: ContainerSpec, root: str) -> str:
    """Returns the source of a volume if the working directory is in one, else the host's directory of that name."""
    if not wanted:
        return root
    return host_path(wanted, spec.mounts) or wanted


def host_path(path: str, mounts: Sequence[Mount]) -> str:
    """The path on this host of a path in a volume; empty for other paths."""
    for mount in sorted(mounts, key=lambda mount: len(mount.target), reverse=True):
        target = mount.target.rstrip("/")
        if target and (path == target or path.startswith(f"{target}/")):
            return mount.source + path[len(target) :]
    return ""


def substitute_mount_paths(argument: str, mounts: Sequence[Mount]) -> str:
    """Replaces the mount paths in an argument by the sources of the mounts, as nothing is mounted here."""
    for mount in sorted(mounts, key=lambda mount: len(mount.target), reverse=True):
        target = mount.target.rstrip("/")
        if target and target in argument:
            path = rf"(?<![\w./-]){re.escape(target)}(?![\w.-])"
            argument = mount.source.join(re.split(path, argument))
    return argument


def _link_mount(mount: Mount, root: str) -> None:
    """Links a mount below the container's root, unless its target is inside another mount."""
    if mount.memory:
        os.makedirs(mount.source, exist_ok=True)
    link = os.path.normpath(os.path.join(root, mount.target.strip("/")))
    above = os.path.dirname(link)
    if link == root or not f"{os.path.realpath(above)}/".startswith(f"{os.path.realpath(root)}/"):
        return
    os.makedirs(above, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.symlink(mount.source, link)


def _chown_directories(sandbox: Sandbox, root: str, identity: Identity) -> None:
    """Gives the container's own directories to its user."""
    if os.geteuid() != 0 or identity.user is None:
        return
    own = _sandbox_directory(sandbox.spec)
    for path in (root, os.path.join(own, _HOME), os.path.join(own, _TEMPORARY)):
        os.chown(path, identity.user, -1 if identity.group is None else identity.group)


def _mount_variable(mount: Mount) -> str:
    return "VOLCANO_MOUNT_" + re.sub(r"[^A-Z0-9]+", "_", mount.target.strip("/").upper())


def _cgroup(spec: ContainerSpec) -> str:
    return f"{spec.pod}/{spec.name}"


def _sandbox_directory(spec: SandboxSpec) -> str:
    return os.path.join(spec.directory, "sandbox")


def _root(sandbox: Sandbox, spec: ContainerSpec) -> str:
    return os.path.join(_sandbox_directory(sandbox.spec), spec.name, "root")
