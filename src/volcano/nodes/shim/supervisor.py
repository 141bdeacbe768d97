"""The first process of a plain container: it starts the program, passes signals on, and outlives all that is below it.

It is a fork of the shim that executes nothing. Being a subreaper, it stays the ancestor of whatever the program
starts, also of what turns itself into a daemon; when the program ends, or the shim does, it ends all of that and
exits with the program's code.
"""

import contextlib
import errno
import fcntl
import json
import os
import signal
import termios
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from volcano.nodes.shim import processes
from volcano.nodes.shim.isolation.base import Stdio
from volcano.nodes.shim.specs import Failure, Identity

_DESCRIPTORS = 1 << 20
_PAUSE = 0.02
_SIGNALS = tuple(map(int, signal.valid_signals()))
_LONGEST_MESSAGE = 4096  # a pipe takes it whole
# Python ignores these two, and a program would inherit that.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Launch:
    """A program with all it is started with."""

    command: Sequence[str]
    environment: Mapping[str, str]
    directory: str
    stdio: Stdio
    identity: Identity
    no_new_privileges: bool = False


def supervise(launch: Launch) -> int:
    """Starts a program below a supervisor; the supervisor's pid, once the program runs. Failure when it cannot."""
    reading, writing = os.pipe()
    shim = os.getpid()
    # Blocked before the fork, so that no signal is lost in between, and the child need not do it: what a fork touches,
    # it no longer shares with the shim.
    processes.block_signals()
    try:
        pid = os.fork()
    except OSError as error:
        os.close(reading)
        os.close(writing)
        processes.unblock_signals()
        raise Failure("RunContainerError", f"fork: {_words(error)}") from error
    if pid == 0:
        _in_child(lambda: _supervisor(launch, writing, shim), writing)
    processes.unblock_signals()
    os.close(writing)
    with open(reading, "rb") as report:
        text = report.read()
    if text:
        os.waitpid(pid, 0)
        raise Failure(**json.loads(text))
    return pid


def find_program(name: str, path: str, directory: str) -> str:
    """The file that `name` means, as a shell would find it. Failure when there is none."""
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


def _in_child(run: Callable[[], NoReturn], writing: int) -> NoReturn:
    """Nothing of the shim's own code may run in a fork of it: whatever happens, the child ends here."""
    try:
        run()
    except Failure as failure:
        _report(writing, failure)
    except BaseException as error:
        _report(
            writing,
            Failure("RunContainerError", _words(error) if isinstance(error, OSError) else repr(error)),
        )
    finally:
        os._exit(127)


def _supervisor(launch: Launch, writing: int, shim: int) -> NoReturn:
    processes.call_itself("supervisor")
    processes.become_subreaper()
    processes.die_with_parent(signal.SIGTERM)
    if os.getppid() != shim:
        os._exit(128 + signal.SIGKILL)
    try:
        program = os.fork()
    except OSError as error:
        raise Failure("RunContainerError", f"fork: {_words(error)}") from None
    if program == 0:
        _in_child(lambda: _program(launch, writing), writing)
    os.closerange(0, _DESCRIPTORS)
    _stand_over(program, shim)


def _stand_over(program: int, shim: int) -> NoReturn:
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
            processes.kill_all_below(os.getpid())
            signal.sigtimedwait([signal.SIGCHLD], _PAUSE)
            continue
        arrived = signal.sigwaitinfo(_SIGNALS)
        if arrived.si_signo != signal.SIGCHLD and os.getppid() == shim:
            processes.send([program], arrived.si_signo)


def _program(launch: Launch, writing: int) -> NoReturn:
    os.setsid()
    stdio = launch.stdio
    for number, descriptor in enumerate((stdio.stdin, stdio.stdout, stdio.stderr)):
        os.dup2(descriptor, number)
    os.closerange(3, writing)
    os.closerange(writing + 1, _DESCRIPTORS)
    if stdio.tty:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.umask(0o022)
    try:
        # As the shim's user: the data directory may be closed to others.
        os.chdir(launch.directory)
    except OSError as error:
        raise Failure("StartError", f'chdir: "{launch.directory}": {_words(error)}', exit_code=126) from None
    _take_identity(launch.identity)
    if launch.no_new_privileges:
        processes.give_up_new_privileges()
    _execute(launch)


def _execute(launch: Launch) -> NoReturn:
    name = launch.command[0]
    file = find_program(name, launch.environment.get("PATH", DEFAULT_PATH), launch.directory)
    for number in (*_IGNORED_BY_PYTHON, signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    # After the last change of identity, which forgets it.
    processes.die_with_parent(signal.SIGKILL)
    processes.unblock_signals()
    try:
        os.execve(file, list(launch.command), dict(launch.environment))
    except OSError as error:
        raise Failure("StartError", f'exec: "{name}": {_words(error)}', exit_code=126) from None


def _take_identity(identity: Identity) -> None:
    if os.geteuid() != 0:
        return
    if identity.user is not None or identity.group is not None or identity.groups:
        os.setgroups(list(identity.groups))
    if identity.group is not None:
        os.setresgid(*[identity.group] * 3)
    if identity.user is not None:
        os.setresuid(*[identity.user] * 3)


def _report(writing: int, failure: Failure) -> None:
    text = {
        "reason": failure.reason,
        "message": failure.message[:_LONGEST_MESSAGE],
        "exit_code": failure.exit_code,
    }
    with contextlib.suppress(OSError):
        os.write(writing, json.dumps(text).encode())


def _words(error: OSError) -> str:
    """An error in the words that container runtimes use: those of the C library, in small letters."""
    return os.strerror(error.errno or errno.EIO).lower()
