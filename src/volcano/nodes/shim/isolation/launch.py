"""Starts container processes: a forked child sets up namespaces and root filesystem, then executes the program."""

import contextlib
import errno
import fcntl
import gc
import json
import os
import platform
import select
import signal
import stat
import termios
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from volcano.nodes.shim import processes
from volcano.nodes.shim.isolation import (
    capabilities,
    cgroups,
    gpus,
    rootfs,
    seccomp,
    seccomp_default,
    syscalls,
)
from volcano.nodes.shim.isolation.base import Stdio, strerror
from volcano.nodes.shim.isolation.host_programs import STANDARD_PATH
from volcano.nodes.shim.isolation.rootfs_template import RootfsTemplate
from volcano.nodes.shim.isolation.unshare import IDMappings
from volcano.nodes.shim.specs import Failure, Identity, Mount, Security

_START_TIMEOUT = 60.0  # seconds until a child has executed its program: a volume's server may be slow
_TIMED_OUT = f"the container was not prepared within {_START_TIMEOUT:.0f} seconds"
_FIRST_FREE = 10  # descriptors above those that a program starts with
_SIGNALS = range(1, signal.NSIG)
_CANNOT_CHANGE = (signal.SIGKILL, signal.SIGSTOP)


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """Command, environment, identity and streams of a process."""

    command: Sequence[str]
    environment: Mapping[str, str]
    working_directory: str
    identity: Identity
    security: Security
    stdio: Stdio
    users: IDMappings
    cpus: Sequence[int] = ()  # CPUs that it is limited to; empty for all


@dataclass(frozen=True, slots=True)
class RootfsSpec:
    """Parts of a container's root filesystem."""

    directory: str
    base: RootfsTemplate
    layer: rootfs.RootfsLayer
    devices: rootfs.DeviceOptions
    volumes: Sequence[Mount]
    cgroups: Sequence[tuple[str, str]]  # name below /sys/fs/cgroup, directory
    host_pid: bool


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """Cgroups (directories) and namespaces (descriptors and their kinds) that a child joins before anything else."""

    cgroups: Sequence[str]
    namespaces: Sequence[tuple[int, int]]
    new_cgroup_namespace: bool = False

    def apply(self) -> None:
        cgroups.join(list(self.cgroups))
        if self.new_cgroup_namespace:
            syscalls.unshare(syscalls.CLONE_NEWCGROUP)
        for descriptor, kind in self.namespaces:
            syscalls.setns(descriptor, kind)


def start(
    join: JoinSpec,
    rootfs_spec: RootfsSpec | None,
    process: ProcessSpec,
    flags: int,
    *,
    for_parent: bool = False,
) -> int:
    """Forks into new namespaces; returns the child's pid once it has executed its program.

    `for_parent` makes it a child of this process's parent, which waits for it.
    """

    def work(report: int) -> NoReturn:
        join.apply()
        _run_program(rootfs_spec, process, report)

    return fork(flags, work, for_parent=for_parent)


def start_in_pid_namespace(
    join: JoinSpec,
    rootfs_spec: RootfsSpec | None,
    process: ProcessSpec,
    flags: int = 0,
    *,
    for_parent: bool = False,
) -> int:
    """Starts a process in an existing pid namespace: a child joins it and forks a second one as its sibling."""
    pid_read, pid_write = os.pipe()

    def join_and_fork(report: int) -> NoReturn:
        os.close(pid_read)
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)  # processes of the container must not trace this one
        join.apply()
        pid = syscalls.clone(flags | syscalls.CLONE_PARENT | signal.SIGCHLD)
        if pid == 0:
            os.close(pid_write)
            _run_child(lambda report: _run_program(rootfs_spec, process, report), report)
        os.write(pid_write, str(pid).encode())
        os._exit(0)

    try:
        _reap(fork(0, join_and_fork, for_parent=for_parent, closing=pid_write))
        return int(os.read(pid_read, 32))
    except Failure:
        started = os.read(pid_read, 32)
        if started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(started), signal.SIGKILL)
            _reap(int(started))
        raise
    finally:
        os.close(pid_read)


def fork(
    flags: int, work: Callable[[int], NoReturn], *, for_parent: bool = False, closing: int | None = None
) -> int:
    """Forks a child that runs `work`; returns its pid once it has executed a program or closed the report pipe."""
    read, write = os.pipe()
    whose = syscalls.CLONE_PARENT if for_parent else 0
    try:
        pid = syscalls.clone(flags | whose | signal.SIGCHLD)
        if pid == 0:
            os.close(read)
            _run_child(work, write)
    except OSError as error:
        os.close(read)
        raise Failure("RunContainerError", f"cannot fork: {error.strerror}") from error
    finally:
        os.close(write)
        if closing is not None:
            os.close(closing)
    try:
        _wait_for_exec(read, pid)
    finally:
        os.close(read)
    return pid


def pause(report: int) -> NoReturn:
    """First process of a pid namespace that the containers of a pod share: sleeps and reaps orphans."""
    syscalls.prctl(syscalls.PR_SET_NAME, b"pause")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    _set_parent_death_signal(report)
    os.setsid()
    syscalls.close_from(0)
    while True:
        signal.pause()


def _run_program(rootfs_spec: RootfsSpec | None, process: ProcessSpec, report: int) -> NoReturn:
    """Builds the root filesystem if given, sets streams, user and capabilities, and executes the program."""
    processes.limit_to_cpus(process.cpus)
    if rootfs_spec is not None:
        _build(rootfs_spec, process.security)
    _take_stdio(process.stdio)
    _make_working_directory(process.working_directory)
    _become_user(process)
    _set_parent_death_signal(report)
    os.umask(0o022)
    directory = process.working_directory or "/"
    try:
        os.chdir(directory)
    except OSError as error:
        raise Failure("StartError", f"chdir to working directory {directory!r}: {strerror(error)}") from error
    reset_signals()
    syscalls.close_on_exec_from(3)
    _execute(process.command, process.environment)


def _run_child(work: Callable[[int], NoReturn], report: int) -> NoReturn:
    """Runs `work`; an error is written to `report`, which is closed on exec."""
    try:
        gc.disable()
        signal.set_wakeup_fd(-1)
        work(report)
    except Failure as failure:
        error_report = {"reason": failure.reason, "message": failure.message}
    except OSError as error:
        error_report = {"reason": "RunContainerError", "message": f"cannot prepare the container: {error}"}
    except BaseException as error:
        error_report = {"reason": "RunContainerError", "message": f"cannot prepare the container: {error!r}"}
    try:
        os.write(report, json.dumps(error_report).encode())
    finally:
        os._exit(128)


def _wait_for_exec(report: int, pid: int) -> None:
    """Returns when the report pipe is closed; an error in it is raised, and its process reaped."""
    waiter = select.poll()
    waiter.register(report, select.POLLIN)
    content = b""
    while True:
        if not waiter.poll(_START_TIMEOUT * 1000):
            os.kill(pid, signal.SIGKILL)
            content = json.dumps({"reason": "RunContainerError", "message": _TIMED_OUT}).encode()
            break
        part = os.read(report, 65536)
        if not part:
            break
        content += part
    if content:
        _reap(pid)
        error_report = json.loads(content)
        raise Failure(error_report["reason"], error_report["message"])


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):  # it is a child of the parent
        os.waitpid(pid, 0)


def _build(rootfs_spec: RootfsSpec, security: Security) -> None:
    rootfs_spec.layer.mount(rootfs_spec.directory, rootfs_spec.base)
    merged = os.path.join(rootfs_spec.directory, "merged")
    os.chdir("/")
    for view, path in rootfs_spec.base.program_mounts:
        syscalls.bind(view, f"{merged}/{path}")
    rootfs.mount_dev(f"{merged}/dev", rootfs_spec.devices)
    rootfs.mount_proc(f"{merged}/proc", host_pid=rootfs_spec.host_pid)
    if not security.privileged:
        gpus.limit_driver_files(f"{merged}/proc", rootfs_spec.devices.gpus)
    rootfs.mount_sys(f"{merged}/sys", writable=security.privileged)
    rootfs.mount_cgroups(f"{merged}/sys/fs/cgroup", rootfs_spec.cgroups)
    rootfs.mount_volumes(merged, rootfs_spec.volumes, devices=security.privileged)
    if security.read_only_root:
        kept = syscalls.MS_RDONLY | syscalls.MS_NODEV
        syscalls.mount("", merged, flags=syscalls.MS_REMOUNT | syscalls.MS_BIND | kept)
    os.chdir(merged)
    syscalls.pivot_root_here()
    if not security.privileged:
        rootfs.mask_kernel_paths()


def _take_stdio(stdio: Stdio) -> None:
    os.setsid()
    high = [
        fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
        for each in (stdio.stdin, stdio.stdout, stdio.stderr)
    ]
    for number, descriptor in enumerate(high):
        os.dup2(descriptor, number, inheritable=True)
        os.close(descriptor)
    if stdio.tty:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _make_working_directory(path: str) -> None:
    """Creates a missing working directory, as container engines do."""
    try:
        if path and not os.path.isdir(path):
            os.makedirs(path, 0o755)
    except OSError as error:
        raise Failure(
            "StartError", f"cannot make the working directory {path!r}: {strerror(error)}"
        ) from error


def _become_user(process: ProcessSpec) -> None:
    users, identity = process.users, process.identity
    user = identity.user if identity.user is not None and users.has_user(identity.user) else 0
    group = identity.group if identity.group is not None and users.has_group(identity.group) else 0
    kept = capabilities.mask(capabilities.effective(process.security)) & capabilities.permitted()
    _install_seccomp(process.security)
    if users.only_root:
        seccomp.ignore_setgroups()
    capabilities.limit_bounding_set(kept)
    if user and process.stdio.tty:
        os.fchown(0, user, -1)
    for descriptor in range(3):
        _chown_pipe(descriptor, user)
    if not users.only_root:
        os.setgroups([each for each in identity.groups if users.has_group(each)])
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
    if user == 0:
        syscalls.set_capabilities(kept)
    if process.security.no_new_privileges:
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)


def _install_seccomp(security: Security) -> None:
    """Installs the profile RuntimeDefault while this process still may; no later call of it is denied."""
    if not security.default_seccomp or security.privileged:
        return
    try:
        seccomp_default.install(platform.machine(), capabilities.effective(security))
    except (OSError, KeyError) as error:
        message = f"cannot apply seccompProfile RuntimeDefault: {error}"
        raise Failure("CreateContainerError", message) from error


def _chown_pipe(descriptor: int, user: int) -> None:
    """Gives a pipe to the user, so that a program can open /dev/stdout again."""
    if user and stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        os.fchown(descriptor, user, -1)


def _set_parent_death_signal(report: int) -> None:
    """Must follow changes of user, which reset it. An exited parent is detected by the pipe that it reads."""
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    watcher = select.poll()
    watcher.register(report, 0)
    if watcher.poll(0):
        os._exit(128)


def reset_signals() -> None:
    """Restores default signal handlers and unblocks all signals."""
    for number in _SIGNALS:
        if number not in _CANNOT_CHANGE and number not in (32, 33):  # reserved by the C library
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _execute(command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    name = command[0]
    path = environment.get("PATH", STANDARD_PATH)
    candidates = [name] if "/" in name else [os.path.join(each or ".", name) for each in path.split(":")]
    failed: OSError | None = None
    for candidate in candidates:
        try:
            os.execve(candidate, list(command), dict(environment))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            failed = failed or error
            if error.errno != errno.EACCES:
                break
    if failed is not None:
        raise Failure("StartError", f'exec: "{name}": {strerror(failed)}') from failed
    if "/" in name:
        raise Failure("StartError", f'exec: "{name}": stat {name}: no such file or directory')
    raise Failure("StartError", f'exec: "{name}": executable file not found in $PATH')
