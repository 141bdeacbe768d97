"""Isolation by namespaces, as root or in a user namespace: root filesystem, pod network, cgroups."""

import contextlib
import dataclasses
import fcntl
import os
import signal
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from volcano.nodes.shim import processes
from volcano.nodes.shim.isolation import (
    cgroups,
    gpus,
    host_network,
    host_programs,
    launch,
    netlink,
    network,
    removal,
    rootfs,
    rootfs_template,
    syscalls,
    unshare,
    uplink,
)
from volcano.nodes.shim.isolation.base import ExecCommand, Sandbox, Stdio
from volcano.nodes.shim.isolation.unshare import IDMappings
from volcano.nodes.shim.network_rules import NetworkRules
from volcano.nodes.shim.specs import ContainerSpec, Failure, Identity, Mode, SandboxSpec, Usage

_NET, _IPC, _UTS = syscalls.CLONE_NEWNET, syscalls.CLONE_NEWIPC, syscalls.CLONE_NEWUTS
_NAMESPACE_FILES = {_NET: "net", _IPC: "ipc", _UTS: "uts"}
_TIOCGPTPEER, _TIOCSPTLCK = 0x5441, 0x40045431
_LONGEST_NAME = 63
# Signals that end a process which does not handle them.
_ENDING = frozenset(
    (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
)
# Next to the directories of containers, with names that no container can have.
_SHARED_MEMORY, _DEVPTS = ".shm", ".pts"
_STATE_DIRECTORY = "isolation"


@dataclass(slots=True, eq=False)
class NamespacedSandbox:
    """Namespaces of a pod, held by descriptors, with its mounts and processes."""

    spec: SandboxSpec
    address: str
    namespaces: dict[int, int]  # kind: descriptor
    directory: str
    mounted: list[str] = field(default_factory=list)
    pause_pid: int = 0  # holds a shared pid namespace
    pid_namespace: int = -1
    # By the first process of a container; None where the container has its own pid namespace.
    mount_namespaces: dict[int, int | None] = field(default_factory=dict)

    @property
    def has_own_pid_namespaces(self) -> bool:
        """Whether each container has its own pid namespace, and so ends with its first process."""
        return not (self.spec.host_pid or self.spec.share_pid)


class NamespaceIsolation:
    """Isolation of Mode.NETNS and Mode.USERNS; `directory` is the cluster's data directory."""

    def __init__(self, mode: Mode, directory: str, *, nat: bool = False) -> None:
        """With `nat`, pods reach other networks, where that is possible."""
        self.limitations: Sequence[str] = ()
        self.has_network_rules = False
        self._mode = mode
        self._nat = nat
        self._uplink: network.Uplink | None = None
        self._directory = os.path.realpath(directory)
        self._state_directory = os.path.join(self._directory, _STATE_DIRECTORY)
        self._gpu_majors = gpus.driver_majors()
        self._addresses = network.AddressPool()
        self._sandboxes: list[NamespacedSandbox] = []

    def open(self) -> None:
        hierarchies = cgroups.discover()
        cgroups.remove_orphaned(hierarchies, cgroups.cluster_id(self._directory))
        self._host_namespaces = {kind: _namespace(name) for kind, name in _NAMESPACE_FILES.items()}
        self._users = unshare.unshare_host_namespaces(self._mode)
        removal.remove_leftovers(self._directory, self._state_directory)
        # A process in a user namespace cannot rejoin the host's network, so a helper process stays in it.
        self._host_network = host_network.HostNetworkHelper() if self._users.user_namespace else None
        host_addresses = self._prepare_uplink()
        unshare.unshare_network()
        self._pod_network = network.PodNetwork()
        self._pod_network.build()
        no_rules = self._pod_network.start_firewall()
        self.has_network_rules = not no_rules
        no_uplink = self._connect_uplink(host_addresses)
        self._shim_namespaces = {kind: _namespace(name) for kind, name in _NAMESPACE_FILES.items()}
        self._cgroups = cgroups.Cgroups(cgroups.cluster_id(self._directory), hierarchies)
        self._cgroups.open()
        mounts = host_programs.host_mounts()
        self._default_path = host_programs.default_path()
        self._template = rootfs_template.build(
            os.path.join(self._state_directory, "template"), mounts, self._users, self._directory
        )
        user_namespace = self._users.user_namespace
        self._layer = rootfs.RootfsLayer.detect(
            self._state_directory, self._template, user_namespace=user_namespace
        )
        self.limitations = tuple(_limitations(self._users, self._cgroups.controllers, no_rules, no_uplink))

    def _prepare_uplink(self) -> list[str]:
        """Opens what the uplink needs in the host's network; returns the addresses there."""
        if not self._nat:
            return []
        self._uplink_error = ""
        try:
            if self._host_network is not None:
                self._uplink = uplink.UserUplink(self._host_network.spawn, self._state_directory)
            else:
                self._uplink = uplink.MasqueradedUplink(cgroups.cluster_id(self._directory), self._directory)
            with contextlib.closing(netlink.NetlinkSocket()) as routing:
                return routing.addresses()
        except OSError as error:
            self._uplink_error = error.strerror or str(error)
            return []

    def _connect_uplink(self, host_addresses: Sequence[str]) -> str:
        """Returns why pods reach no other network; empty when they do."""
        if not self._nat:
            return "--pod-network=none"
        if self._uplink is None:
            return self._uplink_error
        return self._pod_network.add_uplink(self._uplink, host_addresses)

    def create(self, spec: SandboxSpec) -> NamespacedSandbox:
        address = spec.host_address if spec.host_network else self._addresses.allocate(spec.wanted_address)
        sandbox = NamespacedSandbox(spec, address, {}, os.path.join(spec.directory, "sandbox"))
        self._sandboxes.append(sandbox)
        try:
            self._setup(sandbox)
        except OSError as error:
            self.remove(sandbox)
            message = f"cannot make the sandbox of pod {spec.namespace}/{spec.name}: {error}"
            raise Failure("FailedCreatePodSandBox", message) from error
        except Failure:
            self.remove(sandbox)
            raise
        return sandbox

    def start(self, sandbox: Sandbox, spec: ContainerSpec, stdio: Stdio) -> int:
        own = self._namespaced(sandbox)
        cgroup = f"{spec.pod}/{spec.name}"
        try:
            limits = cgroups.CgroupLimits(spec.cpu_request, spec.cpu_limit, spec.memory_limit, cpus=spec.cpus)
            directories = self._cgroups.create(cgroup, limits, leaf=True)
            # In a user namespace this is not permitted; there, and here too, /dev has no other GPU.
            self._cgroups.restrict_devices(cgroup, gpus.device_rules(self._gpu_majors, spec))
            rootfs_spec = self._prepare_rootfs(own, spec, stdio)
            join = launch.JoinSpec(
                directories, tuple(self._namespaces_to_join(own)), new_cgroup_namespace=True
            )
            process = self._process(spec, ExecCommand(spec.command, spec.environment), stdio)
            return self._run(own, join, rootfs_spec, process)
        except OSError as error:
            self._remove_container(own, spec)
            message = f"cannot create container {spec.name!r}: {error}"
            raise Failure("CreateContainerError", message) from error
        except Failure:
            self._remove_container(own, spec)
            raise

    def execute(
        self, sandbox: Sandbox, spec: ContainerSpec, pid: int, command: ExecCommand, stdio: Stdio
    ) -> int:
        own = self._namespaced(sandbox)
        process = self._process(spec, command, stdio)
        directories = self._cgroups.create(f"{spec.pod}/{spec.name}", cgroups.CgroupLimits(), leaf=True)
        with contextlib.ExitStack() as opened:
            kinds = [(syscalls.CLONE_NEWCGROUP, "cgroup"), (syscalls.CLONE_NEWNS, "mnt")]
            if not own.spec.host_pid:
                kinds.append((syscalls.CLONE_NEWPID, "pid"))
            namespaces = list(self._namespaces_to_join(own))
            try:
                for kind, name in kinds:
                    namespaces.append((_namespace(name, pid), kind))
                    opened.callback(os.close, namespaces[-1][0])
            except OSError as error:
                message = f"cannot exec in container {spec.name!r}: it is not running"
                raise Failure("ContainerNotRunning", message) from error
            return self._launch(
                own, launch.JoinSpec(directories, namespaces), None, process, 0, join_pid_namespace=True
            )

    def open_terminal(self, sandbox: Sandbox, pid: int) -> tuple[int, int]:
        """Before the first process runs (pid 0) the devpts is the pod's, and `start` mounts it in the container."""
        own = self._namespaced(sandbox)
        directory = f"/proc/{pid}/root/dev/pts" if pid else self._devpts(own)
        try:
            master = os.open(os.path.join(directory, "ptmx"), os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
            fcntl.ioctl(master, _TIOCSPTLCK, struct.pack("i", 0))
            slave = fcntl.ioctl(master, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError as error:
            raise Failure("RunContainerError", f"cannot open a terminal: {error.strerror}") from error
        return master, slave

    def signal(self, sandbox: Sandbox, pid: int, number: int) -> bool:
        own = self._namespaced(sandbox)
        if number == signal.SIGKILL:
            self._kill_tree(own, pid)
        elif own.has_own_pid_namespaces and number in _ENDING and processes.has_default_action(pid, number):
            # The kernel discards it for the first process of a pid namespace, which would run on until it is killed.
            _kill(pid, signal.SIGKILL)
            return True
        _kill(pid, number)
        return False

    def finish(self, sandbox: Sandbox, spec: ContainerSpec, pid: int) -> bool:
        own = self._namespaced(sandbox)
        cgroup = f"{spec.pod}/{spec.name}"
        if pid in own.mount_namespaces:
            self._kill_tree(own, pid)
            del own.mount_namespaces[pid]
        killed = self._cgroups.oom_killed(cgroup)
        self._remove_container(own, spec)
        return killed

    def remove(self, sandbox: Sandbox) -> None:
        own = self._namespaced(sandbox)
        if own not in self._sandboxes:
            return
        self._sandboxes.remove(own)
        if own.pause_pid:
            _kill(own.pause_pid, signal.SIGKILL)
            _reap(own.pause_pid)
        if own.pid_namespace >= 0:
            os.close(own.pid_namespace)
        for descriptor in own.namespaces.values():
            os.close(descriptor)
        for path in reversed(own.mounted):
            with contextlib.suppress(OSError):  # unmounted already
                syscalls.unmount(path)
        if not own.spec.host_network:
            self._addresses.release(own.address)
        self._cgroups.remove(own.spec.uid)
        removal.remove_in_background(own.directory, self._trash)

    def open_socket(self, sandbox: Sandbox | None, family: int, kind: int) -> socket.socket:
        if sandbox is None:
            return socket.socket(family, kind)
        own = self._namespaced(sandbox)
        if self._host_network is not None and own.spec.host_network:
            return self._host_network.open_socket(family, kind)
        network.join(own.namespaces.get(_NET, self._host_namespaces[_NET]))
        try:
            return socket.socket(family, kind)
        finally:
            network.join(self._shim_namespaces[_NET])

    def apply_network_rules(self, rules: NetworkRules) -> None:
        self._pod_network.apply(rules)

    def usage(self, sandbox: Sandbox, spec: ContainerSpec, pid: int) -> Usage | None:
        used = self._cgroups.usage(f"{spec.pod}/{spec.name}") or _tree_usage(pid)
        return None if used is None else Usage(spec.pod, spec.name, *used)

    def close(self) -> None:
        for sandbox in list(self._sandboxes):
            self.remove(sandbox)
        self._cgroups.close()
        if self._uplink is not None:
            self._uplink.close()
        if self._host_network is not None:
            self._host_network.close()
        self._pod_network.close()
        for descriptor in (*self._host_namespaces.values(), *self._shim_namespaces.values()):
            os.close(descriptor)
        with contextlib.suppress(OSError):
            syscalls.unmount(os.path.join(self._state_directory, "template"))
        removal.remove_tree(self._state_directory)

    @property
    def _trash(self) -> str:
        return os.path.join(self._state_directory, "trash")

    def _namespaced(self, sandbox: Sandbox) -> NamespacedSandbox:
        if not isinstance(sandbox, NamespacedSandbox):
            raise TypeError(f"{sandbox!r} is a sandbox of another isolation")
        return sandbox

    def _setup(self, sandbox: NamespacedSandbox) -> None:
        spec = sandbox.spec
        shared_memory = os.path.join(sandbox.directory, _SHARED_MEMORY)
        removal.remove_tree(sandbox.directory)
        os.makedirs(shared_memory)
        os.chmod(shared_memory, 0o1777)
        self._make_namespaces(sandbox)
        self._mount_tmpfs(sandbox, shared_memory, 0)
        limits = cgroups.CgroupLimits(spec.cpu_request, spec.cpu_limit, spec.memory_limit, spec.pids_limit)
        self._cgroups.create(spec.uid, limits, leaf=False)
        if spec.share_pid:
            sandbox.pause_pid = launch.fork(syscalls.CLONE_NEWPID, launch.pause)
            sandbox.pid_namespace = _namespace("pid", sandbox.pause_pid)

    def _make_namespaces(self, sandbox: NamespacedSandbox) -> None:
        """Creates the namespaces in the shim itself and switches back: faster than a child that must be kept alive."""
        spec = sandbox.spec
        kinds = [_UTS]
        kinds += [] if spec.host_ipc else [_IPC]
        kinds += [] if spec.host_network else [_NET]
        routing: netlink.NetlinkSocket | None = None
        try:
            syscalls.unshare(sum(kinds))
            syscalls.sethostname(spec.hostname[:_LONGEST_NAME])
            for kind in kinds:
                sandbox.namespaces[kind] = _namespace(_NAMESPACE_FILES[kind])
            if _NET in kinds:
                routing = netlink.NetlinkSocket()
                network.apply_sysctls()
        finally:
            for kind in kinds:
                syscalls.setns(self._shim_namespaces[kind], kind)
        if routing is not None:
            try:
                self._pod_network.connect(sandbox.namespaces[_NET], routing, sandbox.address)
            finally:
                routing.close()

    def _namespaces_to_join(self, sandbox: NamespacedSandbox) -> Iterator[tuple[int, int]]:
        """Yields the pod's namespaces, and the host's where the pod shares them and they can be joined."""
        yield from ((descriptor, kind) for kind, descriptor in sandbox.namespaces.items())
        if not self._users.user_namespace:
            yield from (
                (self._host_namespaces[kind], kind) for kind in (_NET, _IPC) if kind not in sandbox.namespaces
            )

    def _prepare_rootfs(
        self, sandbox: NamespacedSandbox, spec: ContainerSpec, stdio: Stdio
    ) -> launch.RootfsSpec:
        directory = os.path.join(sandbox.directory, spec.name)
        removal.remove_in_background(directory, self._trash)
        etc = os.path.join(self._layer.prepare(directory, self._template), "etc")
        pod = sandbox.spec
        for name, text in (
            ("hostname", f"{pod.hostname}\n"),
            ("hosts", pod.hosts.replace("{address}", sandbox.address)),
            ("resolv.conf", pod.resolv_conf),
        ):
            with open(os.path.join(etc, name), "w", encoding="utf-8") as file:
                file.write(text)
        for volume in spec.mounts:
            if volume.memory:
                self._mount_tmpfs(sandbox, volume.source, volume.size)
        devices = rootfs.DeviceOptions(
            shared_memory=os.path.join(sandbox.directory, _SHARED_MEMORY),
            terminals=self._devpts(sandbox) if stdio.tty else "",
            everything=spec.security.privileged,
            tty_group=self._users.has_group(rootfs.TTY_GROUP),
            gpus=spec.gpus,
        )
        cgroup_mounts = self._cgroups.visible_directories(f"{spec.pod}/{spec.name}")
        return launch.RootfsSpec(
            directory, self._template, self._layer, devices, spec.mounts, cgroup_mounts, pod.host_pid
        )

    def _mount_tmpfs(self, sandbox: NamespacedSandbox, path: str, size: int) -> None:
        """Mounts a tmpfs once per pod; a path below a mounted one becomes a directory in it."""
        if any(path == each or path.startswith(f"{each}/") for each in sandbox.mounted):
            os.makedirs(path, exist_ok=True)
            return
        os.makedirs(path, exist_ok=True)
        rootfs.mount_tmpfs(path, size)
        sandbox.mounted.append(path)

    def _devpts(self, sandbox: NamespacedSandbox) -> str:
        directory = os.path.join(sandbox.directory, _DEVPTS)
        if directory not in sandbox.mounted:
            os.makedirs(directory, exist_ok=True)
            rootfs.mount_devpts(directory, tty_group=self._users.has_group(rootfs.TTY_GROUP))
            sandbox.mounted.append(directory)
        return directory

    def _process(self, spec: ContainerSpec, command: ExecCommand, stdio: Stdio) -> launch.ProcessSpec:
        environment = dict(command.environment)
        environment.setdefault("PATH", self._default_path)
        return launch.ProcessSpec(
            command=command.command,
            environment=environment,
            working_directory=command.working_directory or spec.working_directory,
            identity=spec.identity if command.identity == Identity() else command.identity,
            security=spec.security,
            stdio=stdio,
            users=self._users,
            cpus=spec.cpus,
        )

    def _run(
        self,
        sandbox: NamespacedSandbox,
        join: launch.JoinSpec,
        rootfs_spec: launch.RootfsSpec,
        process: launch.ProcessSpec,
    ) -> int:
        flags = syscalls.CLONE_NEWNS
        if sandbox.spec.share_pid:
            shared = (*join.namespaces, (sandbox.pid_namespace, syscalls.CLONE_NEWPID))
            join = dataclasses.replace(join, namespaces=shared)
        elif not sandbox.spec.host_pid:
            flags |= syscalls.CLONE_NEWPID
        pid = self._launch(
            sandbox, join, rootfs_spec, process, flags, join_pid_namespace=sandbox.spec.share_pid
        )
        sandbox.mount_namespaces[pid] = (
            None if sandbox.has_own_pid_namespaces else processes.mount_namespace(pid)
        )
        return pid

    def _launch(
        self,
        sandbox: NamespacedSandbox,
        join: launch.JoinSpec,
        rootfs_spec: launch.RootfsSpec | None,
        process: launch.ProcessSpec,
        flags: int,
        *,
        join_pid_namespace: bool,
    ) -> int:
        if self._host_network is not None and sandbox.spec.host_network:
            return self._host_network.start(
                join, rootfs_spec, process, flags, join_pid_namespace=join_pid_namespace
            )
        return (launch.start_in_pid_namespace if join_pid_namespace else launch.start)(
            join, rootfs_spec, process, flags
        )

    def _kill_tree(self, sandbox: NamespacedSandbox, pid: int) -> None:
        """Kills processes that do not end with a first process: those of shared pid namespaces, and executed ones."""
        killed: set[int] = set()
        while (
            new := self._container_processes(sandbox, pid) - killed
        ):  # again, for processes forked meanwhile
            for process in new:
                _kill(process, signal.SIGKILL)
            killed |= new

    def _container_processes(self, sandbox: NamespacedSandbox, pid: int) -> set[int]:
        if pid in sandbox.mount_namespaces:
            return set(processes.in_mount_namespace(sandbox.mount_namespaces[pid]))
        return {pid, *processes.descendants(pid), *processes.in_session(pid)}

    def _remove_container(self, sandbox: NamespacedSandbox, spec: ContainerSpec) -> None:
        self._cgroups.remove(f"{spec.pod}/{spec.name}")
        removal.remove_in_background(os.path.join(sandbox.directory, spec.name), self._trash)


def _tree_usage(pid: int) -> tuple[float, int] | None:
    """CPU seconds and memory in bytes of a process and its descendants; None when it has exited."""
    if not processes.start_time(pid):
        return None
    tree = [pid, *processes.descendants(pid)]
    return sum(map(processes.cpu_seconds, tree)), sum(map(processes.resident_memory, tree))


def _limitations(
    users: IDMappings, controllers: frozenset[str], no_rules: str, no_uplink: str
) -> Iterator[str]:
    if no_uplink:
        yield f"Pods reach each other and the cluster's services, but no other network ({no_uplink})."
    if no_rules:
        yield f"Addresses of Services and NetworkPolicies have no effect: nftables is not available ({no_rules})."
    missing = [name for name in ("cpu", "memory", "pids") if name not in controllers]
    if missing:
        names = " and ".join(missing)
        yield f"Limits of {names} are not enforced: no control group for them can be written to."
    if users.only_root:
        yield "A pod has one user, called root in it: runAsUser, runAsGroup and fsGroup change nothing."
    if users.user_namespace:
        yield "hostIPC pods share memory with each other, not with this host."


def _namespace(name: str, pid: int | str = "self") -> int:
    return os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):  # reaped already
        os.waitpid(pid, 0)
