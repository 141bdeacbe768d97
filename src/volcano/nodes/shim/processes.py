"""Processes of this host: /proc, and system calls on processes that Python does not wrap."""

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterable, Iterator, Sequence

from volcano.nodes.shim.specs import Failure

_SET_DEATH_SIGNAL = 1
_SET_NO_NEW_PRIVILEGES = 38
_SET_SUBREAPER = 36
_SET_NAME = 15
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
# Loaded once, before any fork, so that forks share it.
_libc = ctypes.CDLL(None, use_errno=True)
_prctl_call, _sigprocmask = _libc.prctl, _libc.sigprocmask
_NO_SIGNALS, _ALL_SIGNALS = bytes(128), b"\xff" * 128  # size of a sigset_t


def die_with_parent(number: int) -> None:
    """Asks the kernel to send signal `number` to this process when its parent exits."""
    _prctl(_SET_DEATH_SIGNAL, number)


def become_subreaper() -> None:
    """Descendants whose parent exits become children of this process."""
    _prctl(_SET_SUBREAPER, 1)


def block_signals() -> None:
    """Blocks all signals. Python's own function creates an object per signal, which takes longer than a fork."""
    _sigprocmask(signal.SIG_SETMASK, _ALL_SIGNALS, None)


def unblock_signals() -> None:
    _sigprocmask(signal.SIG_SETMASK, _NO_SIGNALS, None)


def restore_ignored_signals() -> None:
    """Restores the default of signals that the parent ignores, as a shell does for programs in the background.

    Programs of containers would ignore them too."""
    for number in signal.valid_signals():
        if signal.getsignal(number) is signal.SIG_IGN and number not in IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)


def set_no_new_privileges() -> None:
    """Programs executed from here on ignore set-user-id bits."""
    _prctl(_SET_NO_NEW_PRIVILEGES, 1)


def limit_to_cpus(cpus: Sequence[int]) -> None:
    """Limits the calling process and its future children to some CPUs; without any, nothing changes."""
    if cpus:
        try:
            os.sched_setaffinity(0, cpus)
        except OSError as error:
            numbers = ",".join(map(str, cpus))
            raise Failure(
                "RunContainerError", f"cannot run on CPUs {numbers}: {error.strerror}; are they online?"
            ) from error


def set_name(name: str) -> None:
    """Sets the name that `ps` shows."""
    _prctl_call(_SET_NAME, name.encode(), 0, 0, 0)


def children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as listing:
                found += map(int, listing.read().split())
    except FileNotFoundError:
        if os.path.exists(f"/proc/{pid}"):  # a kernel without CONFIG_PROC_CHILDREN
            found = [child for child in every_pid() if parent(child) == pid]
    except OSError:
        pass
    return found


def descendants(pid: int) -> list[int]:
    """Returns all descendants of a process, parents before their children."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children(waiting.pop())
        found += below
        waiting += below
    return found


def kill_descendants(pid: int) -> int:
    """Kills every descendant, stopping all of them first so that none can fork; returns their number."""
    stopped: set[int] = set()
    while fresh := set(descendants(pid)) - stopped:
        send(fresh, signal.SIGSTOP)
        stopped |= fresh
    send(stopped, signal.SIGKILL)
    return len(stopped)


def send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def every_pid() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def parent(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def start_time(pid: int) -> int:
    """Start time in clock ticks since boot; with the pid it identifies a process. 0 when it has exited."""
    fields = _stat(pid)
    return int(fields[19]) if fields and fields[0] != b"Z" else 0


def has_default_action(pid: int, number: int) -> bool:
    """Whether a process neither handles, ignores, blocks nor waits for a signal."""
    masks = [
        int(line.split()[1], 16)
        for line in _read(f"/proc/{pid}/status").decode(errors="replace").splitlines()
        if line.startswith(("SigCgt:", "SigIgn:", "SigBlk:"))
    ]
    return (
        len(masks) == 3
        and not any(mask >> (number - 1) & 1 for mask in masks)
        and not _waits_for_signals(pid)
    )


def _waits_for_signals(pid: int) -> bool:
    """Whether a thread is in sigwait, in which the signals that it waits for do not show as blocked."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return False
    return any(b"sigtimedwait" in _read(f"/proc/{pid}/task/{thread}/wchan") for thread in threads)


def command_line(pid: int) -> list[str]:
    return [os.fsdecode(word) for word in _read(f"/proc/{pid}/cmdline").split(b"\0")[:-1]]


def environment(pid: int) -> dict[str, str]:
    """Environment at the start of a process; empty when it may not be read."""
    pairs = (entry.partition(b"=") for entry in _read(f"/proc/{pid}/environ").split(b"\0"))
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs if name}


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and of its reaped children."""
    fields = _stat(pid)
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def private_memory(pid: int) -> int:
    """Memory of a process that is not backed by files, in bytes."""
    counts = _read(f"/proc/{pid}/statm").split()
    return max(int(counts[1]) - int(counts[2]), 0) * os.sysconf("SC_PAGE_SIZE") if counts else 0


def resident_memory(pid: int) -> int:
    """Resident memory of a process in bytes."""
    counts = _read(f"/proc/{pid}/statm").split()
    return int(counts[1]) * os.sysconf("SC_PAGE_SIZE") if counts else 0


def mount_namespace(pid: int) -> int | None:
    """The inode number of the mount namespace of a process."""
    try:
        return os.stat(f"/proc/{pid}/ns/mnt").st_ino
    except OSError:
        return None


def in_mount_namespace(number: int | None) -> list[int]:
    """The processes in a mount namespace."""
    return [] if number is None else [pid for pid in every_pid() if mount_namespace(pid) == number]


def in_session(number: int) -> list[int]:
    """The processes of a session, including those whose parents have exited."""
    return [pid for pid in every_pid() if (fields := _stat(pid)) and int(fields[3]) == number]


def proportional_memory(pid: int) -> int:
    """Memory not backed by files, shared pages counted proportionally; slower to read than `private_memory`."""
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss_Anon:"):
            return int(line.split()[1]) << 10
    return private_memory(pid)


def _stat(pid: int) -> list[bytes]:
    """Fields of /proc/<pid>/stat after the name, which may contain any character: state, parent pid, ..."""
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _prctl(option: int, value: int) -> None:
    if _prctl_call(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
