"""Assigns CPUs to the containers of a pod under a topology manager policy, as the kubelet does."""

from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from volcano.kube.devices.numa import cpusets
from volcano.kube.devices.numa.layout import CpuLayout, take

NONE, BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE = "none", "best-effort", "restricted", "single-numa-node"
POLICIES = (NONE, BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE)  # from the least to the most strict
STATIC = "static"
CPU_MANAGER_POLICIES = (NONE, STATIC)


class Hint(NamedTuple):
    """NUMA nodes that have enough free CPUs; preferred when no smaller number of them could ever have."""

    cpus: int  # all CPUs of these NUMA nodes
    size: int  # number of NUMA nodes
    preferred: bool


class Assignment(NamedTuple):
    """CPUs of each container, or the number of the container that has none."""

    cpus: tuple[int, ...]
    refused: int = -1

    @property
    def admitted(self) -> bool:
        return self.refused < 0

    @property
    def all_cpus(self) -> int:
        return cpusets.union(self.cpus)


def strictness(policy: str) -> int:
    """Rank of a policy; -1 for an unknown one."""
    return POLICIES.index(policy) if policy in POLICIES else -1


@lru_cache(maxsize=65_536)
def best_hint(layout: CpuLayout, free: int, count: int) -> Hint | None:
    """The preferred, otherwise the narrowest hint for `count` CPUs; None when too few are free."""
    nodes = list(layout.numa_nodes.values())
    totals = sorted((node.bit_count() for node in nodes), reverse=True)
    available = [(node & free).bit_count() for node in nodes]
    most = sorted(available, reverse=True)
    smallest = next((size for size in range(1, len(nodes) + 1) if sum(totals[:size]) >= count), 0)
    if not smallest:
        return None
    for size in range(smallest, len(nodes) + 1):
        if sum(most[:size]) < count:
            continue
        # Of equally narrow hints the one with the lowest NUMA nodes wins: compared from the highest down.
        fitting = (
            chosen
            for chosen in combinations(range(len(nodes)), size)
            if sum(available[each] for each in chosen) >= count
        )
        chosen = min(fitting, key=lambda each: each[::-1])
        return Hint(cpusets.union(nodes[each] for each in chosen), size, preferred=size == smallest)
    return None


@lru_cache(maxsize=65_536)
def assign(layout: CpuLayout, policy: str, free: int, requests: tuple[int, ...]) -> Assignment:
    """Assigns whole CPUs to containers, one after the other; a container that requests 0 gets none of its own."""
    given = []
    for number, count in enumerate(requests):
        hint = best_hint(layout, free, count) if count else None
        if count and (hint is None or not admits(policy, hint)):
            return Assignment((), number)
        cpus = 0
        if hint is not None:
            near = free if policy == NONE else free & hint.cpus
            cpus = take(layout, near, min(count, near.bit_count()))
            cpus |= take(layout, free & ~cpus, count - cpus.bit_count())
        given.append(cpus)
        free &= ~cpus
    return Assignment(tuple(given))


def admits(policy: str, hint: Hint) -> bool:
    """Whether a policy admits a container with this best hint."""
    if policy == RESTRICTED:
        return hint.preferred
    if policy == SINGLE_NUMA_NODE:
        return hint.preferred and hint.size == 1
    return True
