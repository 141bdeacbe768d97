"""NUMA nodes, sockets and cores of this host, and their division among its nodes."""

import os
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from volcano.kube.devices.numa import cpusets
from volcano.kube.devices.numa.layout import Cpu

SYSTEM = Path("/sys/devices/system")


def host_cpus(system: Path = SYSTEM, allowed: frozenset[int] | None = None) -> dict[int, Cpu]:
    """Location of each CPU that this process may use. What the kernel does not tell counts as 0."""
    usable = frozenset(os.sched_getaffinity(0)) if allowed is None else allowed
    numa_of = {
        cpu: int(directory.name.removeprefix("node"))
        for directory in sorted(system.glob("node/node[0-9]*"))
        for cpu in cpusets.members(_cpu_list(directory / "cpulist"))
    }
    return {
        cpu: Cpu(
            numa_of.get(cpu, 0),
            _number(system / f"cpu/cpu{cpu}/topology/physical_package_id", 0),
            _number(system / f"cpu/cpu{cpu}/topology/core_id", cpu),
        )
        for cpu in sorted(usable)
    }


def divided(cpus: Mapping[int, Cpu], parts: int) -> list[dict[int, Cpu]]:
    """Divides CPUs into equal parts that are close together; a part may be empty if there are fewer CPUs than parts."""
    ordered = sorted(cpus.items(), key=lambda each: (each[1], each[0]))
    bounds = [number * len(ordered) // parts for number in range(parts + 1)]
    return [dict(ordered[first:last]) for first, last in pairwise(bounds)]


def _cpu_list(path: Path) -> int:
    try:
        return cpusets.parse(path.read_text().strip())
    except (OSError, ValueError):
        return 0


def _number(path: Path, default: int) -> int:
    try:
        return max(int(path.read_text()), 0)  # some virtual machines have -1
    except (OSError, ValueError):
        return default
