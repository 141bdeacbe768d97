"""The experiment of "Beware of Fragmentation" (USENIX ATC 2023).

Pods arrive in random order and stay; those that do not fit are dropped. The result is how much of the GPUs is allocated
once the arrivals ask for all of them, and for 1.3 times as much.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volcano.base.clock import Clock, SystemClock
from volcano.model.resources import Vector
from volcano.scheduler.plugins.fragmentation import WHOLE, Request
from volcano.simulate.packing.nodes import PackedNodes
from volcano.simulate.packing.policies import ABLATIONS, POLICIES
from volcano.simulate.workload import MIB, SimNode, TraceError, TraceJob

DEMAND = 1.3  # GPUs that arrivals ask for in all, relative to the capacity

Kinds = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Packed:
    """Result of one policy, over all seeds."""

    policy: str
    trace: str
    seeds: int
    at_100_percent: float  # mean of the allocated share of the GPUs, in percent
    at_end_percent: float
    placements_per_s: float
    slowest_s: float  # of one seed

    def as_json(self) -> dict[str, object]:
        return {
            "policy": self.policy,
            "trace": self.trace,
            "seeds": self.seeds,
            "at_100_percent": round(self.at_100_percent, 3),
            "at_end_percent": round(self.at_end_percent, 3),
            "placements_per_s": round(self.placements_per_s, 1),
            "slowest_seed_s": round(self.slowest_s, 3),
        }


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The pods of a trace as kinds of requests."""

    kinds: tuple[Request, ...]
    of_pod: Kinds  # kind of each pod
    demand: Vector  # cards of each kind

    @classmethod
    def of(cls, jobs: Sequence[TraceJob]) -> "Arrivals":
        known: dict[Request, int] = {}
        pods = []
        for job in jobs:
            for task in job.tasks:
                asked = task.requests
                share = math.ceil(round(asked.gpu_share * WHOLE, 6)) if asked.gpus else 0
                request = Request(
                    asked.cpu, asked.memory / MIB, asked.gpus, share, frozenset(asked.gpu_models)
                )
                pods += [known.setdefault(request, len(known))] * task.replicas
        kinds = tuple(known)
        return cls(kinds, np.array(pods, dtype=np.intp), np.array([kind.demand for kind in kinds]))

    def order(self, seed: int, capacity: float) -> Kinds:
        """All pods in random order, then further ones drawn from them, until they ask for enough."""
        random = np.random.default_rng(seed)
        pods = self.of_pod.copy()
        random.shuffle(pods)
        more: list[int] = []
        total = float(self.demand[pods].sum())
        if total <= 0:
            raise TraceError("--experiment packing", "no pod of the trace asks for a GPU")
        while total < DEMAND * capacity:
            kind = int(pods[random.integers(len(pods))])
            more.append(kind)
            total += float(self.demand[kind])
        return np.concatenate((pods, np.array(more, dtype=np.intp)))


def run_policies(
    names: Sequence[str], nodes: Sequence[SimNode], jobs: Sequence[TraceJob], trace: str, seeds: int
) -> Iterator[Packed]:
    """Results of some policies, each as soon as it is there."""
    with_cards = [node for node in nodes if node.gpus]
    if not with_cards:
        raise TraceError("--experiment packing", "no node has GPUs")
    arrivals = Arrivals.of(jobs)
    for name in names:
        results = [run_seed(name, with_cards, arrivals, seed) for seed in range(seeds)]
        means = np.mean(results, axis=0)
        slowest = max(count / rate for _, _, rate, count in results)
        rate = float(sum(r[3] for r in results) / sum(r[3] / r[2] for r in results))
        yield Packed(name, trace, seeds, float(means[0]), float(means[1]), rate, float(slowest))


def run_seed(
    name: str, nodes: Sequence[SimNode], arrivals: Arrivals, seed: int, clock: Clock | None = None
) -> tuple[float, float, float, int]:
    """Allocated percent at full demand and at the end, placements per second, and their number."""
    packed = PackedNodes(nodes, arrivals.kinds)
    policy = (POLICIES | ABLATIONS)[name](packed, np.random.default_rng(1000 + seed))
    order = arrivals.order(seed, packed.capacity).tolist()
    demand = arrivals.demand.tolist()
    arrived = allocated = 0.0
    placements = 0
    at_full: float | None = None
    clock = clock or SystemClock()
    began = clock.now().monotonic
    for kind in order:
        policy.observe(kind)
        feasible = np.flatnonzero(packed.feasible(kind))
        arrived += demand[kind]
        if len(feasible):
            row = policy.choose(kind, feasible)
            packed.place(kind, row)
            policy.placed(kind, row)
            allocated += demand[kind]
            placements += 1
        if at_full is None and arrived >= packed.capacity:
            at_full = 100 * allocated / packed.capacity
    seconds = clock.now().monotonic - began
    at_end = 100 * allocated / packed.capacity
    return at_end if at_full is None else at_full, at_end, placements / seconds, placements
