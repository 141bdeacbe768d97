"""Containers in namespaces of their own, on a private root and a network between pods; as root or as any user."""

import contextlib
import dataclasses
import fcntl
import os
import signal
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from volcano.nodes.shim.isolation import (
    cgroups,
    entering,
    launch,
    netlink,
    network,
    outpost,
    processes,
    programs,
    root,
    syscalls,
    template,
    trees,
)
from volcano.nodes.shim.isolation.base import Command, Stdio
from volcano.nodes.shim.isolation.base import Sandbox as AnySandbox
from volcano.nodes.shim.isolation.entering import Users
from volcano.nodes.shim.specs import ContainerSpec, Failure, Identity, Mode, SandboxSpec, Usage

_NET, _IPC, _UTS = syscalls.CLONE_NEWNET, syscalls.CLONE_NEWIPC, syscalls.CLONE_NEWUTS
_FILES = {_NET: "net", _IPC: "ipc", _UTS: "uts"}
_TIOCGPTPEER, _TIOCSPTLCK = 0x5441, 0x40045431
_LONGEST_NAME = 63
# Beside the containers' directories, and so with names that no container can have.
_SHARED_MEMORY, _TERMINALS = ".shm", ".pts"
_OWN_DIRECTORY = "isolation"


@dataclass(slots=True, eq=False)
class Sandbox:
    """A pod's namespaces, held by descriptors, and what was mounted and started for it."""

    spec: SandboxSpec
    address: str
    namespaces: dict[int, int]  # kind: descriptor
    directory: str
    mounted: list[str] = field(default_factory=list)
    first: int = 0  # the process that holds a shared pid namespace
    pid_namespace: int = -1
    trees: dict[int, int | None] = field(
        default_factory=dict
    )  # first process: its mounts, where pids are shared

    @property
    def own_pids(self) -> bool:
        """Whether each container is a pid namespace, and so ends as one."""
        return not (self.spec.host_pid or self.spec.share_pid)


class Namespaces:
    """The isolation of Mode.NETNS and Mode.USERNS; `directory` is the cluster's data directory."""

    def __init__(self, mode: Mode, directory: str) -> None:
        self.limitations: Sequence[str] = ()
        self._mode = mode
        self._directory = os.path.realpath(directory)
        self._place = os.path.join(self._directory, _OWN_DIRECTORY)
        self._addresses = network.Addresses()
        self._sandboxes: list[Sandbox] = []

    def open(self) -> None:
        hierarchies = cgroups.found()
        cgroups.sweep(hierarchies, cgroups.identity(self._directory))
        self._host = {kind: _namespace(name) for kind, name in _FILES.items()}
        self._users = entering.enter(self._mode)
        trees.sweep(self._directory, self._place)
        # Who has left the host's network for a user namespace's can only come back in a process that never left.
        self._outpost = outpost.Outpost() if self._users.user_namespace else None
        entering.enter_network()
        self._hub = network.Hub()
        self._hub.build()
        self._own = {kind: _namespace(name) for kind, name in _FILES.items()}
        self._groups = cgroups.Groups(cgroups.identity(self._directory), hierarchies)
        self._groups.open()
        shown = programs.exposed()
        self._path = programs.program_path()
        self._template = template.build(
            os.path.join(self._place, "template"), shown, self._users, self._directory
        )
        user_namespace = self._users.user_namespace
        self._layer = root.Layer.best(self._place, self._template, user_namespace=user_namespace)
        self.limitations = tuple(_limitations(self._users, self._groups.controllers))

    def create(self, spec: SandboxSpec) -> Sandbox:
        address = spec.host_address if spec.host_network else self._addresses.take(spec.wanted_address)
        sandbox = Sandbox(spec, address, {}, os.path.join(spec.directory, "sandbox"))
        self._sandboxes.append(sandbox)
        try:
            self._furnish(sandbox)
        except OSError as error:
            self.remove(sandbox)
            message = f"cannot make the sandbox of pod {spec.namespace}/{spec.name}: {error}"
            raise Failure("FailedCreatePodSandBox", message) from error
        except Failure:
            self.remove(sandbox)
            raise
        return sandbox

    def start(self, sandbox: AnySandbox, spec: ContainerSpec, stdio: Stdio) -> int:
        own = self._own_sandbox(sandbox)
        group = f"{spec.pod}/{spec.name}"
        try:
            limits = cgroups.Limits(spec.cpu_request, spec.cpu_limit, spec.memory_limit)
            joined = self._groups.create(group, limits, leaf=True)
            files = self._prepare_root(own, spec, stdio)
            surroundings = launch.Surroundings(joined, tuple(self._entered(own)), new_control_namespace=True)
            program = self._program(spec, Command(spec.command, spec.environment), stdio)
            return self._run(own, surroundings, files, program)
        except OSError as error:
            self._clean(own, spec)
            message = f"cannot create container {spec.name!r}: {error}"
            raise Failure("CreateContainerError", message) from error
        except Failure:
            self._clean(own, spec)
            raise

    def execute(
        self, sandbox: AnySandbox, spec: ContainerSpec, pid: int, command: Command, stdio: Stdio
    ) -> int:
        own = self._own_sandbox(sandbox)
        program = self._program(spec, command, stdio)
        joined = self._groups.create(f"{spec.pod}/{spec.name}", cgroups.Limits(), leaf=True)
        with contextlib.ExitStack() as opened:
            kinds = [(syscalls.CLONE_NEWCGROUP, "cgroup"), (syscalls.CLONE_NEWNS, "mnt")]
            if not own.spec.host_pid:
                kinds.append((syscalls.CLONE_NEWPID, "pid"))
            namespaces = list(self._entered(own))
            try:
                for kind, name in kinds:
                    namespaces.append((_namespace(name, pid), kind))
                    opened.callback(os.close, namespaces[-1][0])
            except OSError as error:
                message = f"cannot exec in container {spec.name!r}: it is not running"
                raise Failure("ContainerNotRunning", message) from error
            return self._launch(own, launch.Surroundings(joined, namespaces), None, program, 0, inside=True)

    def open_terminal(self, sandbox: AnySandbox, pid: int) -> tuple[int, int]:
        """Before its first process (pid 0) the terminals are the pod's, and `start` shows them to the container."""
        own = self._own_sandbox(sandbox)
        directory = f"/proc/{pid}/root/dev/pts" if pid else self._terminals(own)
        try:
            master = os.open(os.path.join(directory, "ptmx"), os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
            fcntl.ioctl(master, _TIOCSPTLCK, struct.pack("i", 0))
            slave = fcntl.ioctl(master, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError as error:
            raise Failure("RunContainerError", f"cannot open a terminal: {error.strerror}") from error
        return master, slave

    def signal(self, sandbox: AnySandbox, pid: int, number: int) -> None:
        own = self._own_sandbox(sandbox)
        if number == signal.SIGKILL:
            self._kill_tree(own, pid)
        _kill(pid, number)

    def finish(self, sandbox: AnySandbox, spec: ContainerSpec, pid: int) -> bool:
        own = self._own_sandbox(sandbox)
        group = f"{spec.pod}/{spec.name}"
        if pid in own.trees:
            self._kill_tree(own, pid)
            del own.trees[pid]
        killed = self._groups.killed_for_memory(group)
        self._clean(own, spec)
        return killed

    def remove(self, sandbox: AnySandbox) -> None:
        own = self._own_sandbox(sandbox)
        if own not in self._sandboxes:
            return
        self._sandboxes.remove(own)
        if own.first:
            _kill(own.first, signal.SIGKILL)
            _reap(own.first)
        if own.pid_namespace >= 0:
            os.close(own.pid_namespace)
        for descriptor in own.namespaces.values():
            os.close(descriptor)
        for path in reversed(own.mounted):
            with contextlib.suppress(OSError):  # whoever deletes a directory unmounts it
                syscalls.unmount(path)
        if not own.spec.host_network:
            self._addresses.give_back(own.address)
        self._groups.remove(own.spec.uid)
        trees.discard(own.directory, self._trash)

    def open_socket(self, sandbox: AnySandbox | None, family: int, kind: int) -> socket.socket:
        if sandbox is None:
            return socket.socket(family, kind)
        own = self._own_sandbox(sandbox)
        if self._outpost is not None and own.spec.host_network:
            return self._outpost.open_socket(family, kind)
        network.enter(own.namespaces.get(_NET, self._host[_NET]))
        try:
            return socket.socket(family, kind)
        finally:
            network.enter(self._own[_NET])

    def usage(self, sandbox: AnySandbox, spec: ContainerSpec, pid: int) -> Usage | None:
        used = self._groups.usage(f"{spec.pod}/{spec.name}") or processes.used_by_tree(pid)
        return None if used is None else Usage(spec.pod, spec.name, *used)

    def close(self) -> None:
        for sandbox in list(self._sandboxes):
            self.remove(sandbox)
        self._groups.close()
        if self._outpost is not None:
            self._outpost.close()
        self._hub.close()
        for descriptor in (*self._host.values(), *self._own.values()):
            os.close(descriptor)
        with contextlib.suppress(OSError):
            syscalls.unmount(os.path.join(self._place, "template"))
        trees.clear(self._place)

    @property
    def _trash(self) -> str:
        return os.path.join(self._place, "trash")

    def _own_sandbox(self, sandbox: AnySandbox) -> Sandbox:
        if not isinstance(sandbox, Sandbox):
            raise TypeError(f"{sandbox!r} is a sandbox of another isolation")
        return sandbox

    def _furnish(self, sandbox: Sandbox) -> None:
        spec = sandbox.spec
        shared_memory = os.path.join(sandbox.directory, _SHARED_MEMORY)
        trees.clear(sandbox.directory)
        os.makedirs(shared_memory)
        os.chmod(shared_memory, 0o1777)
        self._make_namespaces(sandbox)
        self._mount_memory(sandbox, shared_memory, 0)
        limits = cgroups.Limits(spec.cpu_request, spec.cpu_limit, spec.memory_limit, spec.pids_limit)
        self._groups.create(spec.uid, limits, leaf=False)
        if spec.share_pid:
            sandbox.first = launch.fork(syscalls.CLONE_NEWPID, launch.pause)
            sandbox.pid_namespace = _namespace("pid", sandbox.first)

    def _make_namespaces(self, sandbox: Sandbox) -> None:
        """In the shim itself, which goes there and comes back: quicker than a child that would have to be kept."""
        spec = sandbox.spec
        kinds = [_UTS]
        kinds += [] if spec.host_ipc else [_IPC]
        kinds += [] if spec.host_network else [_NET]
        routing: netlink.Netlink | None = None
        try:
            syscalls.unshare(sum(kinds))
            syscalls.sethostname(spec.hostname[:_LONGEST_NAME])
            for kind in kinds:
                sandbox.namespaces[kind] = _namespace(_FILES[kind])
            if _NET in kinds:
                routing = netlink.Netlink()
                network.settle()
        finally:
            for kind in kinds:
                syscalls.setns(self._own[kind], kind)
        if routing is not None:
            try:
                self._hub.connect(sandbox.namespaces[_NET], routing, sandbox.address)
            finally:
                routing.close()

    def _entered(self, sandbox: Sandbox) -> Iterator[tuple[int, int]]:
        """The pod's namespaces, and the host's where the pod is to share them and we can go back there."""
        yield from ((descriptor, kind) for kind, descriptor in sandbox.namespaces.items())
        if not self._users.user_namespace:
            yield from ((self._host[kind], kind) for kind in (_NET, _IPC) if kind not in sandbox.namespaces)

    def _prepare_root(self, sandbox: Sandbox, spec: ContainerSpec, stdio: Stdio) -> launch.Root:
        place = os.path.join(sandbox.directory, spec.name)
        trees.discard(place, self._trash)
        etc = os.path.join(self._layer.prepare(place, self._template), "etc")
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
                self._mount_memory(sandbox, volume.source, volume.size)
        devices = root.Devices(
            shared_memory=os.path.join(sandbox.directory, _SHARED_MEMORY),
            terminals=self._terminals(sandbox) if stdio.tty else "",
            everything=spec.security.privileged,
            tty_group=self._users.has_group(root.TTY_GROUP),
        )
        shown = self._groups.shown(f"{spec.pod}/{spec.name}")
        return launch.Root(place, self._template, self._layer, devices, spec.mounts, shown, pod.host_pid)

    def _mount_memory(self, sandbox: Sandbox, path: str, size: int) -> None:
        """Once for each pod; a path below a volume that is mounted already is a directory in it."""
        if any(path == each or path.startswith(f"{each}/") for each in sandbox.mounted):
            os.makedirs(path, exist_ok=True)
            return
        os.makedirs(path, exist_ok=True)
        root.mount_memory(path, size)
        sandbox.mounted.append(path)

    def _terminals(self, sandbox: Sandbox) -> str:
        directory = os.path.join(sandbox.directory, _TERMINALS)
        if directory not in sandbox.mounted:
            os.makedirs(directory, exist_ok=True)
            root.mount_terminals(directory, tty_group=self._users.has_group(root.TTY_GROUP))
            sandbox.mounted.append(directory)
        return directory

    def _program(self, spec: ContainerSpec, command: Command, stdio: Stdio) -> launch.Program:
        environment = dict(command.environment)
        environment.setdefault("PATH", self._path)
        return launch.Program(
            command=command.command,
            environment=environment,
            working_directory=command.working_directory or spec.working_directory,
            identity=spec.identity if command.identity == Identity() else command.identity,
            security=spec.security,
            stdio=stdio,
            users=self._users,
        )

    def _run(
        self, sandbox: Sandbox, around: launch.Surroundings, files: launch.Root, program: launch.Program
    ) -> int:
        flags = syscalls.CLONE_NEWNS
        if sandbox.spec.share_pid:
            shared = (*around.namespaces, (sandbox.pid_namespace, syscalls.CLONE_NEWPID))
            around = dataclasses.replace(around, namespaces=shared)
        elif not sandbox.spec.host_pid:
            flags |= syscalls.CLONE_NEWPID
        pid = self._launch(sandbox, around, files, program, flags, inside=sandbox.spec.share_pid)
        sandbox.trees[pid] = None if sandbox.own_pids else processes.mounts_of(pid)
        return pid

    def _launch(
        self,
        sandbox: Sandbox,
        around: launch.Surroundings,
        files: launch.Root | None,
        program: launch.Program,
        flags: int,
        *,
        inside: bool,
    ) -> int:
        if self._outpost is not None and sandbox.spec.host_network:
            return self._outpost.start(around, files, program, flags, inside=inside)
        return (launch.run_inside if inside else launch.run)(around, files, program, flags)

    def _kill_tree(self, sandbox: Sandbox, pid: int) -> None:
        """What the kernel does not end by itself with a first process: containers that share pids, and executions."""
        killed: set[int] = set()
        while (
            new := self._members(sandbox, pid) - killed
        ):  # what was forked while we looked is seen the next time
            for process in new:
                _kill(process, signal.SIGKILL)
            killed |= new

    def _members(self, sandbox: Sandbox, pid: int) -> set[int]:
        if pid in sandbox.trees:
            return set(processes.with_mounts(sandbox.trees[pid]))
        return {*processes.descendants(pid), *processes.with_session(pid)}

    def _clean(self, sandbox: Sandbox, spec: ContainerSpec) -> None:
        self._groups.remove(f"{spec.pod}/{spec.name}")
        trees.discard(os.path.join(sandbox.directory, spec.name), self._trash)


def sweep(directory: str) -> list[str]:
    """Removes what a shim that was killed left of the cluster in `directory`; `open` does so too."""
    real = os.path.realpath(directory)
    groups = cgroups.sweep(cgroups.found(), cgroups.identity(real))
    return [*groups, *trees.sweep(real, os.path.join(real, _OWN_DIRECTORY))]


def _limitations(users: Users, controllers: frozenset[str]) -> Iterator[str]:
    yield "Pods reach each other and the cluster's services, but no other network."
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
    with contextlib.suppress(ChildProcessError):  # whoever waits for everybody was first
        os.waitpid(pid, 0)
