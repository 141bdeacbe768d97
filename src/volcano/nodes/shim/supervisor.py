"""First process of a plain container: starts the program, forwards signals and kills what the program leaves
behind.

It is a fork of the shim that executes nothing. As a subreaper it stays the ancestor of every process that
the program starts, daemons included; when the program or the shim exits, it kills them all and exits with
the program's exit code.
"""

import contextlib
import fcntl
import json
import os
import platform
import signal
import termios
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from volcano.nodes.shim import processes
from volcano.nodes.shim.isolation import cgroups, seccomp_default
from volcano.nodes.shim.isolation.base import Stdio, strerror
from volcano.nodes.shim.specs import Failure, Identity

_MAX_DESCRIPTORS = 1 << 20
_KILL_INTERVAL = 0.02
_SIGNALS = tuple(map(int, signal.valid_signals()))
_MAX_MESSAGE = 4096  # fits into a pipe buffer
# Python ignores these signals, and a program would inherit that.
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class SupervisedProcess:
    """A program with its arguments, environment, streams and identity."""

    command: Sequence[str]
    environment: Mapping[str, str]
    directory: str
    stdio: Stdio
    identity: Identity
    no_new_privileges: bool = False
    seccomp_capabilities: frozenset[str] | None = None  # applies the profile RuntimeDefault
    cgroups: Sequence[str] = ()  # directories of the cgroups to join
    cpus: Sequence[int] = ()  # CPUs that it is limited to; empty for all


def supervise(process: SupervisedProcess) -> int:
    """Starts a program below a supervisor; returns the supervisor's pid once the program runs, or a Failure."""
    reading, report = os.pipe()
    shim = os.getpid()
    # Blocked before the fork, so that no signal is lost in between and the child need not do it: memory that
    # a fork writes to is no longer shared with the shim.
    processes.block_signals()
    try:
        pid = os.fork()
    except OSError as error:
        os.close(reading)
        os.close(report)
        processes.unblock_signals()
        raise Failure("RunContainerError", f"fork: {strerror(error)}") from error
    if pid == 0:
        _in_child(lambda: _supervisor(process, report, shim), report)
    processes.unblock_signals()
    os.close(report)
    with open(reading, "rb") as pipe:
        text = pipe.read()
    if text:
        os.waitpid(pid, 0)
        raise Failure(**json.loads(text))
    return pid


def find_program(name: str, path: str, directory: str) -> str:
    """Resolves a program name as a shell does. Failure when there is none."""
    if "/" in name:
        file = os.path.join(directory, name)
        if not os.path.exists(file):
            raise Failure(
                "StartError", f'exec: "{name}": stat {name}: no such file or directory', exit_code=127
            )
        return file
    candidates = [os.path.join(directory, folder or ".", name) for folder in path.split(":")]
    for file in candidates:
        if os.path.isfile(file) and os.access(file, os.X_OK):
            return file
    raise Failure("StartError", f'exec: "{name}": executable file not found in $PATH', exit_code=127)


def exit_code(status: int) -> int:
    """A wait status as a container's exit code: 128 + the signal's number when a signal ended it."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _in_child(run: Callable[[], NoReturn], report: int) -> NoReturn:
    """Runs the child of a fork and always exits: no code of the shim may run in it."""
    try:
        run()
    except Failure as failure:
        _write_failure(report, failure)
    except BaseException as error:
        _write_failure(
            report,
            Failure("RunContainerError", strerror(error) if isinstance(error, OSError) else repr(error)),
        )
    finally:
        os._exit(127)


def _supervisor(process: SupervisedProcess, report: int, shim: int) -> NoReturn:
    processes.set_name("supervisor")
    processes.become_subreaper()
    processes.die_with_parent(signal.SIGTERM)
    if os.getppid() != shim:
        os._exit(128 + signal.SIGKILL)
    cgroups.join(list(process.cgroups))
    try:
        program = os.fork()
    except OSError as error:
        raise Failure("RunContainerError", f"fork: {strerror(error)}") from None
    if program == 0:
        _in_child(lambda: _program(process, report), report)
    os.closerange(0, _MAX_DESCRIPTORS)
    _supervise_program(program, shim)


def _supervise_program(program: int, shim: int) -> NoReturn:
    code: int | None = None
    while True:
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == program:
                    code = exit_code(ended[1])
        except ChildProcessError:
            os._exit(128 + signal.SIGKILL if code is None else code)
        orphaned = os.getppid() != shim
        if code is not None or orphaned:
            processes.kill_descendants(os.getpid())
            signal.sigtimedwait([signal.SIGCHLD], _KILL_INTERVAL)
            continue
        arrived = signal.sigwaitinfo(_SIGNALS)
        if arrived.si_signo != signal.SIGCHLD and os.getppid() == shim:
            processes.send([program], arrived.si_signo)


def _program(process: SupervisedProcess, report: int) -> NoReturn:
    os.setsid()
    processes.limit_to_cpus(process.cpus)
    stdio = process.stdio
    for number, descriptor in enumerate((stdio.stdin, stdio.stdout, stdio.stderr)):
        os.dup2(descriptor, number)
    os.closerange(3, report)
    os.closerange(report + 1, _MAX_DESCRIPTORS)
    if stdio.tty:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.umask(0o022)
    try:
        # As the shim's user: other users may not be able to enter the data directory.
        os.chdir(process.directory)
    except OSError as error:
        raise Failure(
            "StartError", f'chdir: "{process.directory}": {strerror(error)}', exit_code=126
        ) from None
    _set_identity(process.identity)
    if process.no_new_privileges:
        processes.set_no_new_privileges()
    if process.seccomp_capabilities is not None:
        _install_seccomp(process.seccomp_capabilities)
    _execute(process)


def _install_seccomp(capabilities: frozenset[str]) -> None:
    """Applies the profile RuntimeDefault. Processes without privileges may do so only if they can gain none."""
    try:
        if os.geteuid() != 0:
            processes.set_no_new_privileges()
        seccomp_default.install(platform.machine(), capabilities)
    except (OSError, KeyError) as error:
        message = f"cannot apply seccompProfile RuntimeDefault: {error}"
        raise Failure("CreateContainerError", message) from error


def _execute(process: SupervisedProcess) -> NoReturn:
    name = process.command[0]
    file = find_program(name, process.environment.get("PATH", DEFAULT_PATH), process.directory)
    for number in (
        *processes.IGNORED_BY_PYTHON,
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGCHLD,
    ):
        signal.signal(number, signal.SIG_DFL)
    # After the last change of identity, which resets it.
    processes.die_with_parent(signal.SIGKILL)
    processes.unblock_signals()
    try:
        os.execve(file, list(process.command), dict(process.environment))
    except OSError as error:
        raise Failure("StartError", f'exec: "{name}": {strerror(error)}', exit_code=126) from None


def _set_identity(identity: Identity) -> None:
    if os.geteuid() != 0:
        return
    if identity.user is not None or identity.group is not None or identity.groups:
        os.setgroups(list(identity.groups))
    if identity.group is not None:
        os.setresgid(*[identity.group] * 3)
    if identity.user is not None:
        os.setresuid(*[identity.user] * 3)


def _write_failure(report: int, failure: Failure) -> None:
    text = {
        "reason": failure.reason,
        "message": failure.message[:_MAX_MESSAGE],
        "exit_code": failure.exit_code,
    }
    with contextlib.suppress(OSError):
        os.write(report, json.dumps(text).encode())
