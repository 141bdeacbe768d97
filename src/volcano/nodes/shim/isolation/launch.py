"""From a fork to the program: what a child does in its new namespaces before it executes the container's command."""

import contextlib
import errno
import fcntl
import gc
import json
import os
import select
import signal
import stat
import termios
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from volcano.nodes.shim.isolation import capabilities, cgroups, root, seccomp, syscalls
from volcano.nodes.shim.isolation.base import Stdio
from volcano.nodes.shim.isolation.entering import Users
from volcano.nodes.shim.isolation.programs import STANDARD_PATH
from volcano.nodes.shim.isolation.template import Template
from volcano.nodes.shim.specs import Failure, Identity, Mount, Security

_PATIENCE = 60.0  # seconds for a child to reach its program: a volume's server may be slow
_TOO_SLOW = f"the container was not prepared within {_PATIENCE:.0f} seconds"
_FREE = 10  # descriptors from here on are not those a program starts with
_SIGNALS = range(1, signal.NSIG)
_CANNOT_CHANGE = (signal.SIGKILL, signal.SIGSTOP)


@dataclass(frozen=True, slots=True)
class Program:
    """What is executed in the end, and as whom."""

    command: Sequence[str]
    environment: Mapping[str, str]
    working_directory: str
    identity: Identity
    security: Security
    stdio: Stdio
    users: Users


@dataclass(frozen=True, slots=True)
class Root:
    """What a container's file system is made of."""

    place: str
    base: Template
    layer: root.Layer
    devices: root.Devices
    volumes: Sequence[Mount]
    groups: Sequence[tuple[str, str]]
    host_pid: bool


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a child enters first: groups by their directories, namespaces by open descriptors and their kinds."""

    groups: Sequence[str]
    namespaces: Sequence[tuple[int, int]]
    new_control_namespace: bool = False

    def enter(self) -> None:
        cgroups.join(list(self.groups))
        if self.new_control_namespace:
            syscalls.unshare(syscalls.CLONE_NEWCGROUP)
        for descriptor, kind in self.namespaces:
            syscalls.setns(descriptor, kind)


def run(
    around: Surroundings, files: Root | None, program: Program, flags: int, *, for_parent: bool = False
) -> int:
    """Forks into new namespaces; returns the child's pid once it has executed its program, in a root of its own.

    `for_parent` makes it a child of our parent, who is to wait for it.
    """

    def work(report: int) -> NoReturn:
        around.enter()
        _become(files, program, report)

    return fork(flags, work, for_parent=for_parent)


def run_inside(
    around: Surroundings, files: Root | None, program: Program, flags: int = 0, *, for_parent: bool = False
) -> int:
    """The same for a pid namespace that exists: a first child enters it, and forks a second in its parent's name."""
    tell_read, tell_write = os.pipe()

    def enter(report: int) -> NoReturn:
        os.close(tell_read)
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)  # those who are inside already must not look into us
        around.enter()
        pid = syscalls.clone(flags | syscalls.CLONE_PARENT | signal.SIGCHLD)
        if pid == 0:
            os.close(tell_write)
            _do(lambda report: _become(files, program, report), report)
        os.write(tell_write, str(pid).encode())
        os._exit(0)

    try:
        _reap(fork(0, enter, for_parent=for_parent, closing=tell_write))
        return int(os.read(tell_read, 32))
    except Failure:
        told = os.read(tell_read, 32)
        if told:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(told), signal.SIGKILL)
            _reap(int(told))
        raise
    finally:
        os.close(tell_read)


def fork(
    flags: int, work: Callable[[int], NoReturn], *, for_parent: bool = False, closing: int | None = None
) -> int:
    """The pid of a child that does `work`, once it has executed a program or closed the pipe that it is given."""
    read, write = os.pipe()
    whose = syscalls.CLONE_PARENT if for_parent else 0
    try:
        pid = syscalls.clone(flags | whose | signal.SIGCHLD)
        if pid == 0:
            os.close(read)
            _do(work, write)
    except OSError as error:
        os.close(read)
        raise Failure("RunContainerError", f"cannot fork: {error.strerror}") from error
    finally:
        os.close(write)
        if closing is not None:
            os.close(closing)
    try:
        _await_program(read, pid)
    finally:
        os.close(read)
    return pid


def pause(report: int) -> NoReturn:
    """The first process of a pid namespace that several containers share: it waits, and its orphans are reaped."""
    syscalls.prctl(syscalls.PR_SET_NAME, b"pause")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    _die_with_parent(report)
    os.setsid()
    syscalls.close_from(0)
    while True:
        signal.pause()


def _become(files: Root | None, program: Program, report: int) -> NoReturn:
    """A root where there is none yet; descriptors, user, capabilities; then the program itself, or a Failure."""
    if files is not None:
        _build(files, program.security)
    _take_stdio(program.stdio)
    _make_working_directory(program.working_directory)
    _become_user(program)
    _die_with_parent(report)
    os.umask(0o022)
    directory = program.working_directory or "/"
    try:
        os.chdir(directory)
    except OSError as error:
        raise Failure("StartError", f"chdir to working directory {directory!r}: {_said(error)}") from error
    default_signals()
    syscalls.close_on_exec_from(3)
    _execute(program.command, program.environment)


def _do(work: Callable[[int], NoReturn], report: int) -> NoReturn:
    """Whatever goes wrong is told through `report`, which closes by itself when a program is executed."""
    try:
        gc.disable()
        signal.set_wakeup_fd(-1)
        work(report)
    except Failure as failure:
        told = {"reason": failure.reason, "message": failure.message}
    except OSError as error:
        told = {"reason": "RunContainerError", "message": f"cannot prepare the container: {error}"}
    except BaseException as error:
        told = {"reason": "RunContainerError", "message": f"cannot prepare the container: {error!r}"}
    try:
        os.write(report, json.dumps(told).encode())
    finally:
        os._exit(128)


def _await_program(report: int, pid: int) -> None:
    """Returns when the pipe closes with nothing said; what is said is raised, and its process reaped."""
    waiter = select.poll()
    waiter.register(report, select.POLLIN)
    said = b""
    while True:
        if not waiter.poll(_PATIENCE * 1000):
            os.kill(pid, signal.SIGKILL)
            said = json.dumps({"reason": "RunContainerError", "message": _TOO_SLOW}).encode()
            break
        part = os.read(report, 65536)
        if not part:
            break
        said += part
    if said:
        _reap(pid)
        told = json.loads(said)
        raise Failure(told["reason"], told["message"])


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):  # our parent's
        os.waitpid(pid, 0)


def _build(files: Root, security: Security) -> None:
    files.layer.mount(files.place, files.base)
    merged = os.path.join(files.place, "merged")
    os.chdir("/")
    for view, place in files.base.programs:
        syscalls.bind(view, f"{merged}/{place}")
    root.build_devices(f"{merged}/dev", files.devices)
    root.mount_proc(f"{merged}/proc", host_pid=files.host_pid)
    root.mount_sys(f"{merged}/sys", writable=security.privileged)
    root.show_groups(f"{merged}/sys/fs/cgroup", files.groups)
    root.mount_volumes(merged, files.volumes, devices=security.privileged)
    if security.read_only_root:
        kept = syscalls.MS_RDONLY | syscalls.MS_NODEV
        syscalls.mount("", merged, flags=syscalls.MS_REMOUNT | syscalls.MS_BIND | kept)
    os.chdir(merged)
    syscalls.pivot_root_here()
    if not security.privileged:
        root.protect_kernel()


def _take_stdio(stdio: Stdio) -> None:
    os.setsid()
    high = [
        fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, _FREE) for each in (stdio.stdin, stdio.stdout, stdio.stderr)
    ]
    for number, descriptor in enumerate(high):
        os.dup2(descriptor, number, inheritable=True)
        os.close(descriptor)
    if stdio.tty:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _make_working_directory(path: str) -> None:
    """As container engines do: one that is missing is made."""
    try:
        if path and not os.path.isdir(path):
            os.makedirs(path, 0o755)
    except OSError as error:
        raise Failure("StartError", f"cannot make the working directory {path!r}: {_said(error)}") from error


def _become_user(program: Program) -> None:
    users, identity = program.users, program.identity
    user = identity.user if identity.user is not None and users.has_user(identity.user) else 0
    group = identity.group if identity.group is not None and users.has_group(identity.group) else 0
    kept = capabilities.mask(capabilities.wanted(program.security)) & capabilities.held()
    if users.only_root:
        seccomp.pretend_setgroups()
    capabilities.bound(kept)
    if user and program.stdio.tty:
        os.fchown(0, user, -1)
    for descriptor in range(3):
        _let_reopen(descriptor, user)
    if not users.only_root:
        os.setgroups([each for each in identity.groups if users.has_group(each)])
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
    if user == 0:
        syscalls.set_capabilities(kept)
    if program.security.no_new_privileges:
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)


def _let_reopen(descriptor: int, user: int) -> None:
    """A program that opens /dev/stdout anew does so as its own user: a pipe must belong to that user."""
    if user and stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        os.fchown(descriptor, user, -1)


def _die_with_parent(report: int) -> None:
    """Changes of user forget this wish, so it comes after them. A parent already dead shows in the pipe it read."""
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    watcher = select.poll()
    watcher.register(report, 0)
    if watcher.poll(0):
        os._exit(128)


def default_signals() -> None:
    """Forgets the shim's handlers, and what it ignores."""
    for number in _SIGNALS:
        if number not in _CANNOT_CHANGE and number not in (32, 33):  # the C library's own
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _execute(command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    name = command[0]
    path = environment.get("PATH", STANDARD_PATH)
    candidates = [name] if "/" in name else [os.path.join(each or ".", name) for each in path.split(":")]
    refused: OSError | None = None
    for candidate in candidates:
        try:
            os.execve(candidate, list(command), dict(environment))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            refused = refused or error
            if error.errno != errno.EACCES:
                break
    if refused is not None:
        raise Failure("StartError", f'exec: "{name}": {_said(refused)}') from refused
    if "/" in name:
        raise Failure("StartError", f'exec: "{name}": stat {name}: no such file or directory')
    raise Failure("StartError", f'exec: "{name}": executable file not found in $PATH')


def _said(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
