"""Which processes belong to a container, and what they use, read from /proc where no control group says it."""

import os
from collections.abc import Iterator

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
# Places in /proc/<pid>/stat after the program's name, which may hold anything: the session, times, and pages in memory.
_SESSION, _TIMES, _PAGES = 3, slice(11, 15), 21


def mounts_of(pid: int) -> int | None:
    """The number of a process's mount namespace; every container has one."""
    try:
        return os.stat(f"/proc/{pid}/ns/mnt").st_ino
    except OSError:
        return None


def with_mounts(number: int | None) -> list[int]:
    """The processes in a mount namespace."""
    if number is None:
        return []
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return [pid for pid in pids if mounts_of(pid) == number]


def with_session(number: int) -> list[int]:
    """The processes of a session, also those whose parents are gone."""
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return [pid for pid in pids if (fields := _status(pid)) and int(fields[_SESSION]) == number]


def used_by_tree(pid: int) -> tuple[float, int] | None:
    """Seconds of cpu and bytes of memory of a process and its descendants; None when it is gone."""
    used = [each for each in map(_used, descendants(pid)) if each is not None]
    return (sum(seconds for seconds, _ in used), sum(memory for _, memory in used)) if used else None


def descendants(pid: int) -> Iterator[int]:
    """A process, and those below it."""
    yield pid
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as children:
                found = [int(child) for child in children.read().split()]
            for child in found:
                yield from descendants(child)
    except OSError:
        return  # gone meanwhile


def _used(pid: int) -> tuple[float, int] | None:
    fields = _status(pid)
    if not fields:
        return None
    return sum(int(ticks) for ticks in fields[_TIMES]) / _TICKS, int(fields[_PAGES]) * _PAGE


def _status(pid: int) -> list[str]:
    """The fields after the program's name; none when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []
