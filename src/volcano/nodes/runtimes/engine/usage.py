"""Usage of a container, read from the cgroup of its first process (version 1 or 2)."""

import os
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PROC = Path("/proc")


def cgroup_usage(pid: int, *, proc: Path = PROC, root: Path = ROOT) -> tuple[float, int] | None:
    """CPU seconds and bytes of memory in use; None when the process has exited or its cgroup is not visible."""
    groups = dict(_groups(proc / str(pid) / "cgroup"))
    if "" in groups and (found := _version_2(root / groups[""])) is not None:
        return found
    if "cpuacct" not in groups or "memory" not in groups:
        return None
    nanoseconds = _number(_under(root, "cpuacct", groups["cpuacct"]) / "cpuacct.usage")
    memory = _under(root, "memory", groups["memory"])
    total, idle = (
        _number(memory / "memory.usage_in_bytes"),
        _entry(memory / "memory.stat", "total_inactive_file"),
    )
    return None if nanoseconds is None or total is None else (nanoseconds / 1e9, max(total - (idle or 0), 0))


def oom_file(pid: int, *, proc: Path = PROC, root: Path = ROOT) -> Path | None:
    """The file that counts OOM kills of a cgroup; it is removed with the cgroup."""
    groups = dict(_groups(proc / str(pid) / "cgroup"))
    choices = [root / groups[""] / "memory.events"] if "" in groups else []
    if "memory" in groups:
        choices.insert(0, _under(root, "memory", groups["memory"]) / "memory.oom_control")
    return next((path for path in choices if path.exists()), None)


def oom_killed(path: Path | None) -> bool:
    """Whether an OOM kill was counted, as long as the file exists."""
    return path is not None and bool(_entry(path, "oom_kill"))


def _version_2(group: Path) -> tuple[float, int] | None:
    microseconds, total = _entry(group / "cpu.stat", "usage_usec"), _number(group / "memory.current")
    if microseconds is None or total is None:
        return None
    return microseconds / 1e6, max(total - (_entry(group / "memory.stat", "inactive_file") or 0), 0)


def _groups(path: Path) -> Iterator[tuple[str, str]]:
    """The cgroup of a process for each controller; version 2 has the name ""."""
    for line in _lines(path):
        _, controllers, group = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, group.lstrip("/")


def _under(root: Path, controller: str, group: str) -> Path:
    for name in (controller, "cpu,cpuacct"):
        if os.path.isdir(root / name / group):
            return root / name / group
    return root / controller / group


def _number(path: Path) -> int | None:
    lines = _lines(path)
    return int(lines[0]) if lines and lines[0].isdigit() else None


def _entry(path: Path, name: str) -> int | None:
    return next((int(line.split()[1]) for line in _lines(path) if line.split()[:1] == [name]), None)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
