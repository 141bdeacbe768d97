"""Cgroups of containers, version 1, version 2 or both: limits and usage, found by name after a crash.

A container's cgroup is `volcano/<cluster>/<pod>/<container>` below the root of each hierarchy (as root),
or below the delegated part of the version 2 hierarchy. The shim holds a lock on `volcano/<cluster>`;
cgroups without a lock belong to no running shim.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import select
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from volcano.nodes.shim.isolation import device_cgroups

TOP_DIRECTORY = "volcano"
_LIMIT_ONLY = frozenset({"pids"})  # controllers whose accounting is not used
_CPU_PERIOD = 100_000  # microseconds
_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "pids")
_CPUSET = frozenset({"cpuset"})
_ATTEMPTS = 5
_KILL_TIMEOUT = 1000  # milliseconds until a killed process has exited
_MIN_CPU_SHARES, _MAX_CPU_SHARES = 2, 262_144


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A mounted cgroup hierarchy with the controllers used here."""

    base: str  # parent directory of the cgroups made here
    controllers: frozenset[str]
    version: int


@dataclass(frozen=True, slots=True)
class CgroupLimits:
    """Resource limits of a cgroup; 0 is no limit."""

    cpu_request: float = 0.0
    cpu_limit: float = 0.0
    memory_limit: int = 0
    pids_limit: int = 0
    cpus: Sequence[int] = ()  # empty for all


def cluster_id(directory: str) -> str:
    """Name of a cluster's cgroups, derived from its data directory."""
    return hashlib.sha256(os.fsencode(os.path.realpath(directory))).hexdigest()[:16]


@dataclass(slots=True)
class Cgroups:
    """Cgroups of one cluster."""

    name: str
    hierarchies: tuple[Hierarchy, ...]
    _locks: list[int] = field(default_factory=list)
    _pending_removals: list[str] = field(default_factory=list)  # cgroups whose processes had not exited yet

    def open(self) -> None:
        """Creates and locks the cgroups of the cluster; hierarchies that cannot be used are skipped."""
        usable: list[Hierarchy] = []
        for hierarchy in self.hierarchies:
            try:
                self._locks.append(self._create_locked(hierarchy))
                usable.append(hierarchy)
            except OSError:
                continue
        self.hierarchies = tuple(usable)

    def _create_locked(self, hierarchy: Hierarchy) -> int:
        """Creates and locks the cluster's cgroup; retries if another shim removes it before it is locked."""
        top = os.path.join(hierarchy.base, TOP_DIRECTORY, self.name)
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(FileNotFoundError):
                os.makedirs(top, exist_ok=True)
                lock = _lock_directory(top, fcntl.LOCK_SH)
                if hierarchy.version == 2:
                    for each in (hierarchy.base, os.path.dirname(top), top):
                        _enable(each, hierarchy.controllers)
                return lock
        raise FileNotFoundError(top)

    @property
    def controllers(self) -> frozenset[str]:
        return frozenset(name for each in self.hierarchies for name in each.controllers)

    def create(self, path: str, limits: CgroupLimits, *, leaf: bool) -> list[str]:
        """Creates `path` ("<pod>" or "<pod>/<container>") in every hierarchy; returns the directories to join."""
        self._retry_removals()
        made: list[str] = []
        for hierarchy in self.hierarchies:
            directory = self._directory(hierarchy, path)
            pod_has_it = leaf and os.path.isdir(os.path.dirname(directory))
            # Joining a cgroup takes milliseconds: one that only sets limits is created only for pods with
            # such a limit.
            if hierarchy.controllers == _LIMIT_ONLY and not (limits.pids_limit or pod_has_it):
                continue
            # In version 1, this hierarchy is used only by containers with CPUs of their own, and by what is executed
            # in them.
            if hierarchy.controllers == _CPUSET and not (limits.cpus or (leaf and os.path.isdir(directory))):
                continue
            os.makedirs(directory, exist_ok=True)
            if hierarchy.version == 1 and "cpuset" in hierarchy.controllers:
                _inherit_cpuset(hierarchy.base, directory)
            settings = SETTINGS[hierarchy.version](limits)
            for name, value in settings.items():
                if name.split(".", 1)[0] in hierarchy.controllers:
                    _set(os.path.join(directory, name), value)
            if hierarchy.version == 2 and not leaf:
                _enable(directory, hierarchy.controllers)
            made.append(directory)
        return made

    def restrict_devices(self, path: str, program: bytes) -> bool:
        """Applies device rules to a cgroup of version 2; returns whether they are enforced."""
        directories = [self._directory(each, path) for each in self.hierarchies if each.version == 2]
        if not program or not directories:
            return not program
        try:
            device_cgroups.attach(directories[0], program)
        except OSError:
            return False
        return True

    def visible_directories(self, path: str) -> list[tuple[str, str]]:
        """Returns the directories of a cgroup with their names below /sys/fs/cgroup; empty for version 2."""
        unified = [self._directory(each, path) for each in self.hierarchies if each.version == 2]
        if unified:
            return [("", unified[0])]
        directories = [
            (os.path.basename(each.base), self._directory(each, path)) for each in self.hierarchies
        ]
        return [(name, directory) for name, directory in directories if os.path.isdir(directory)]

    def oom_killed(self, path: str) -> bool:
        """Whether the kernel has killed a process of the cgroup for lack of memory."""
        names = {1: "memory.oom_control", 2: "memory.events"}
        for hierarchy in self._with("memory"):
            counts = _table(os.path.join(self._directory(hierarchy, path), names[hierarchy.version]))
            if counts.get("oom_kill", 0) > 0:
                return True
        return False

    def usage(self, path: str) -> tuple[float, int] | None:
        """CPU seconds, and bytes of memory without cached files; None where neither is accounted."""
        seconds, memory = None, None
        for hierarchy in self.hierarchies:
            directory = self._directory(hierarchy, path)
            if hierarchy.version == 2 and "cpu" in hierarchy.controllers:
                seconds = _table(os.path.join(directory, "cpu.stat")).get("usage_usec", 0) / 1e6
            if "cpuacct" in hierarchy.controllers:
                seconds = _number(os.path.join(directory, "cpuacct.usage")) / 1e9
            if "memory" in hierarchy.controllers:
                current, cached = _MEMORY[hierarchy.version]
                files = _table(os.path.join(directory, "memory.stat")).get(cached, 0)
                memory = max(0, _number(os.path.join(directory, current)) - files)
        return None if seconds is None or memory is None else (seconds, memory)

    def remove(self, path: str) -> None:
        """Removes a cgroup with its children; one whose processes have not exited yet is removed by a later call."""
        self._pending_removals.extend(self._directory(hierarchy, path) for hierarchy in self.hierarchies)
        self._retry_removals()

    def _retry_removals(self) -> None:
        self._pending_removals = [each for each in self._pending_removals if not _try_remove(each)]

    def close(self) -> None:
        for hierarchy in self.hierarchies:
            top = os.path.join(hierarchy.base, TOP_DIRECTORY, self.name)
            _try_remove(top)
            _try_rmdir(os.path.dirname(top))
        for each in self._locks:
            os.close(each)
        self._locks.clear()

    def _directory(self, hierarchy: Hierarchy, path: str) -> str:
        return os.path.join(hierarchy.base, TOP_DIRECTORY, self.name, path)

    def _with(self, controller: str) -> Iterator[Hierarchy]:
        return (each for each in self.hierarchies if controller in each.controllers)


def join(directories: list[str]) -> None:
    """Moves the calling process into cgroups."""
    for each in directories:
        with open(os.path.join(each, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write("0")


def remove_orphaned(hierarchies: tuple[Hierarchy, ...], name: str) -> list[str]:
    """Kills and removes the cgroups of clusters without a running shim, `name` first; returns them."""
    removed: list[str] = []
    for hierarchy in hierarchies:
        top = os.path.join(hierarchy.base, TOP_DIRECTORY)
        for cluster in sorted(_children(top), key=lambda each: os.path.basename(each) != name):
            try:
                lock = _lock_directory(cluster, fcntl.LOCK_EX)
            except OSError:
                continue  # its shim is running
            try:
                if _kill_and_remove(cluster):
                    removed.append(cluster)
            finally:
                os.close(lock)
        _try_rmdir(top)
    return removed


def _kill_and_remove(cluster: str) -> bool:
    """Kills the processes in a cluster's cgroups, waits until they have exited, and removes the cgroups."""
    for process in _processes_below(cluster):
        with contextlib.suppress(OSError):  # it has exited already
            _kill(process)
    return _try_remove(cluster)


def _kill(process: int) -> None:
    descriptor = os.pidfd_open(process)
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        waiter = select.poll()
        waiter.register(descriptor, select.POLLIN)
        waiter.poll(_KILL_TIMEOUT)
    finally:
        os.close(descriptor)


def discover(mounts: str = "/proc/self/mounts", own: str = "/proc/self/cgroup") -> tuple[Hierarchy, ...]:
    """Returns the cgroup hierarchies that this process may write to."""
    hierarchies: list[Hierarchy] = []
    own_cgroup = _own_cgroup(own)
    with open(mounts, encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            _, point, kind, options = line.split(" ")[:4]
            if kind == "cgroup":
                controllers = frozenset(options.split(",")) & set(_CONTROLLERS)
                if controllers and os.access(point, os.W_OK):
                    hierarchies.append(Hierarchy(point, controllers, 1))
            elif kind == "cgroup2":
                hierarchies.extend(_delegated(point, own_cgroup))
    return tuple({each.base: each for each in hierarchies}.values())


def own_unified(mounts: str = "/proc/self/mounts", own: str = "/proc/self/cgroup") -> tuple[Hierarchy, ...]:
    """The cgroup of this process in the version 2 hierarchy, if it may create others in it.

    They have no controllers: limits of this process stay in effect for what runs in them.
    """
    with open(mounts, encoding="utf-8", errors="surrogateescape") as lines:
        points = [line.split(" ")[1] for line in lines if line.split(" ")[2] == "cgroup2"]
    bases = [os.path.join(point, _own_cgroup(own).lstrip("/")).rstrip("/") for point in points[:1]]
    return tuple(Hierarchy(base, frozenset(), 2) for base in bases if os.access(base, os.W_OK))


def _delegated(point: str, own: str) -> Iterator[Hierarchy]:
    """The root of the hierarchy, or the highest ancestor of the own cgroup that is delegated and has no process."""
    parts = [part for part in own.split("/") if part]
    for depth in range(len(parts) + 1):
        base = os.path.join(point, *parts[:depth])
        controllers = frozenset(_read(os.path.join(base, "cgroup.controllers")).split()) & set(_CONTROLLERS)
        writable = os.access(base, os.W_OK) and os.access(
            os.path.join(base, "cgroup.subtree_control"), os.W_OK
        )
        is_root = not os.path.exists(os.path.join(base, "cgroup.type"))
        if controllers and writable and (is_root or not _processes(base)):
            yield Hierarchy(base, controllers, 2)
            return


def version_1(limits: CgroupLimits) -> dict[str, str]:
    settings: dict[str, str] = {}
    if limits.cpu_request:
        settings["cpu.shares"] = str(shares(limits.cpu_request))
    if limits.cpu_limit:
        settings["cpu.cfs_period_us"] = str(_CPU_PERIOD)
        settings["cpu.cfs_quota_us"] = str(_quota(limits.cpu_limit))
    if limits.memory_limit:
        settings["memory.limit_in_bytes"] = str(limits.memory_limit)
        settings["memory.memsw.limit_in_bytes"] = str(limits.memory_limit)
    if limits.pids_limit:
        settings["pids.max"] = str(limits.pids_limit)
    if limits.cpus:
        settings["cpuset.cpus"] = ",".join(map(str, limits.cpus))
    return settings


def version_2(limits: CgroupLimits) -> dict[str, str]:
    settings: dict[str, str] = {}
    if limits.cpu_request:
        settings["cpu.weight"] = str(1 + (shares(limits.cpu_request) - 2) * 9999 // 262_142)
    if limits.cpu_limit:
        settings["cpu.max"] = f"{_quota(limits.cpu_limit)} {_CPU_PERIOD}"
    if limits.memory_limit:
        settings["memory.max"] = str(limits.memory_limit)
        settings["memory.swap.max"] = "0"
        settings["memory.oom.group"] = "1"
    if limits.pids_limit:
        settings["pids.max"] = str(limits.pids_limit)
    if limits.cpus:
        settings["cpuset.cpus"] = ",".join(map(str, limits.cpus))
    return settings


SETTINGS = {1: version_1, 2: version_2}
_MEMORY = {1: ("memory.usage_in_bytes", "total_inactive_file"), 2: ("memory.current", "inactive_file")}


def shares(cores: float) -> int:
    return min(max(int(cores * 1024), _MIN_CPU_SHARES), _MAX_CPU_SHARES)


def _quota(cores: float) -> int:
    return max(1000, round(cores * _CPU_PERIOD))


def _own_cgroup(path: str) -> str:
    return next((line.split("::", 1)[1] for line in _read(path).splitlines() if line.startswith("0::")), "/")


def _enable(directory: str, controllers: frozenset[str]) -> None:
    there = set(_read(os.path.join(directory, "cgroup.subtree_control")).split())
    missing = sorted(controllers - there)
    if missing:
        with open(os.path.join(directory, "cgroup.subtree_control"), "w", encoding="ascii") as file:
            file.write(" ".join(f"+{name}" for name in missing))


def _inherit_cpuset(base: str, directory: str) -> None:
    """Sets the CPUs and memory nodes of new cgroups to those of their parents: without, no process can join them."""
    parent = base
    for part in os.path.relpath(directory, base).split(os.sep):
        child = os.path.join(parent, part)
        for name in ("cpuset.cpus", "cpuset.mems"):
            if not _read(os.path.join(child, name)).strip():
                _set(os.path.join(child, name), _read(os.path.join(parent, name)).strip())
        parent = child


def _lock_directory(directory: str, kind: int) -> int:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _set(path: str, value: str) -> None:
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(value)
    except OSError as error:
        # Swap accounting, CPU bandwidth control or group kill may be missing in the kernel; the other limits
        # apply. CPUs are also limited by the affinity of the processes.
        ignored = "memsw" in path or "cpuset" in path
        if error.errno not in (errno.ENOENT, errno.EACCES, errno.EOPNOTSUPP) and not ignored:
            raise


def _try_remove(directory: str) -> bool:
    for child in _children(directory):
        _try_remove(child)
    return _try_rmdir(directory)


def _try_rmdir(directory: str) -> bool:
    try:
        os.rmdir(directory)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _children(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _processes_below(directory: str) -> Iterator[int]:
    yield from _processes(directory)
    for child in _children(directory):
        yield from _processes_below(child)


def _processes(directory: str) -> list[int]:
    """Pids in a cgroup; processes of other pid namespaces, listed as 0, are left out."""
    return [int(line) for line in _read(os.path.join(directory, "cgroup.procs")).split() if line != "0"]


def _table(path: str) -> Mapping[str, int]:
    rows = (line.split() for line in _read(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


def _number(path: str) -> int:
    return int(_read(path).strip() or 0)


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
