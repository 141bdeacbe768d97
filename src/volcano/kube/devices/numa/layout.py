"""CPU layout: the NUMA nodes, sockets and cores of a machine, and choosing CPUs that are close together."""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from volcano.kube.devices.numa import cpusets


class Cpu(NamedTuple):
    """Location of one CPU. Core numbers are unique within a socket only."""

    numa: int = 0
    socket: int = 0
    core: int = 0


class CpuLayout:
    """CPUs by NUMA node, socket and core, as CPU sets. Equal layouts are one object: see `layout_of`."""

    __slots__ = ("cores", "cpus", "numa_nodes", "socket_of", "sockets")

    def __init__(self, located: Mapping[int, Cpu]) -> None:
        numa_nodes: dict[int, int] = {}
        sockets: dict[int, int] = {}
        cores: dict[tuple[int, int], int] = {}
        for number, cpu in located.items():
            bit = 1 << number
            numa_nodes[cpu.numa] = numa_nodes.get(cpu.numa, 0) | bit
            sockets[cpu.socket] = sockets.get(cpu.socket, 0) | bit
            core = (cpu.socket, cpu.core)
            cores[core] = cores.get(core, 0) | bit
        self.cpus = cpusets.of(located)
        self.numa_nodes: Mapping[int, int] = dict(sorted(numa_nodes.items()))
        self.sockets: tuple[int, ...] = tuple(cpus for _, cpus in sorted(sockets.items()))
        # In the order of their first CPU.
        self.cores: tuple[int, ...] = tuple(sorted(cores.values(), key=lambda cpus: cpus & -cpus))
        self.socket_of: Mapping[int, int] = {cores[core]: sockets[core[0]] for core in cores}

    def numa_nodes_of(self, cpus: int) -> tuple[int, ...]:
        """Numbers of the NUMA nodes that some CPUs belong to."""
        return tuple(number for number, own in self.numa_nodes.items() if own & cpus)

    def counts(self, cpus: int) -> dict[int, int]:
        """Number of these CPUs in each NUMA node that has any."""
        found = {number: (own & cpus).bit_count() for number, own in self.numa_nodes.items()}
        return {number: count for number, count in found.items() if count}


def layout_of(located: Mapping[int, Cpu]) -> CpuLayout:
    """The layout of a machine; the same object for machines of the same layout, so that results are shared."""
    return _layout(tuple(sorted(located.items())))


@lru_cache(maxsize=1024)
def _layout(located: tuple[tuple[int, Cpu], ...]) -> CpuLayout:
    return CpuLayout(dict(located))


@lru_cache(maxsize=65_536)
def take(layout: CpuLayout, available: int, count: int) -> int:
    """Chooses `count` of the available CPUs: whole sockets, then whole cores, then single threads.

    Cores and threads next to CPUs that are already chosen come first, then those of sockets and cores with less left,
    so that whole ones stay free. The empty set when there are too few.
    """
    if available.bit_count() < count:
        return 0
    chosen = 0
    for socket in layout.sockets:
        size = socket.bit_count()
        if count >= size and not socket & ~available:
            chosen, available, count = chosen | socket, available & ~socket, count - size
    if count:
        for core in sorted(layout.cores, key=lambda core: _closeness(layout, core, chosen, available)):
            size = core.bit_count()
            if count >= size and not core & ~available:
                chosen, available, count = chosen | core, available & ~core, count - size
    if count:
        for thread in sorted(
            ((core, 1 << cpu) for core in layout.cores for cpu in cpusets.members(core & available)),
            key=lambda each: (
                *_closeness(layout, each[0], chosen, available),
                (each[0] & available).bit_count(),
                each[1],
            ),
        )[:count]:
            chosen |= thread[1]
    return chosen


def _closeness(layout: CpuLayout, core: int, chosen: int, available: int) -> tuple[int, int]:
    """Sort key of a core: sockets with more chosen CPUs first, then those with fewer available ones."""
    socket = layout.socket_of[core]
    return -(socket & chosen).bit_count(), (socket & available).bit_count()
