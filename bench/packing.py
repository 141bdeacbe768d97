"""Packing: a stream of gangs on simulated racks, with our choice of domains, Volcano's formulas, and binpack alone.

1,024 nodes of 8 GPUs in racks of 16 and spines of 8 racks. Gangs of 1 to 128 GPUs, half of them soft and half hard (one
rack), arrive at random so that 90 % of the GPUs are requested. `binpack` ignores topology for soft gangs and takes the
first rack with room for hard ones. Each figure is the mean over all seeds; `spread` is the standard deviation.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import mean, pstdev
from typing import Any

from bench._hyper_nodes import hyper_node
from bench.case import Case
from tests.builders import START, JobManifests, job, node
from tests.scenario import cluster_of, config, event
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import EventType
from volcano.model.cluster import Cluster
from volcano.model.decisions import Bind
from volcano.scheduler.cycle import schedule
from volcano.scheduler.engine.config import Config

BENCH = "packing"
NODES, GPUS, RACK, SPINE = 1_024, 8, 16, 8
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)  # GPUs of a gang
LOAD = 0.9
DURATION = 60.0  # mean, in cycles
WARM_UP, MEASURED = 240, 240  # cycles
SEEDS = (1, 2, 3, 4, 5)
ROOT_TIER = 3
BINPACK = {
    "name": "binpack",
    "arguments": {
        "binpack.weight": 1,
        "binpack.resources": "nvidia.com/gpu",
        "binpack.resources.nvidia.com/gpu": 5,
    },
}
FORMULAS = {
    "name": "network-topology-aware",
    "arguments": {
        "weight": 10,
        "hypernode.binpack.resources": "nvidia.com/gpu",
        "hypernode.binpack.resources.nvidia.com/gpu": 5,
    },
}
BASE: tuple[Any, ...] = ("priority", "gang", "predicates", BINPACK)
OURS, VOLCANO, BINPACK_ONLY = "ours", "Volcano's formulas", "binpack"
CONFIGS: Mapping[str, Config] = {
    OURS: config(plugins=BASE),
    VOLCANO: config(plugins=(*BASE, FORMULAS)),
    BINPACK_ONLY: config(plugins=(*BASE, "bench._packing_plugins:FirstDomain")),
}
# Metric and whether more is better.
METRICS = {"soft in one rack": True, "mean tier of soft": False, "hard waits": False}


def cases(scale: float = 1.0) -> Iterator[Case]:
    """One row per choice, and how ours compares; fewer cycles and seeds with a small `scale`."""
    cycles = max(int(MEASURED * min(scale, 1.0)), 20)
    seeds = SEEDS[: max(int(len(SEEDS) * min(scale, 1.0)), 1)]
    results = {name: [Stream(name, seed, cycles).run() for seed in seeds] for name in CONFIGS}
    for name, runs in results.items():
        yield Case(BENCH, f"{name}, {len(seeds)} seeds", _summary(runs))
    for other in (VOLCANO, BINPACK_ONLY):
        yield _comparison(results[OURS], results[other], other, is_whole=scale >= 1)


def _summary(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for metric in runs[0]:
        values = [run[metric] for run in runs]
        found[metric] = mean(values)
        if metric in METRICS:
            found[f"{metric} spread"] = pstdev(values)
    return found


def _comparison(
    ours: Sequence[Mapping[str, float]], others: Sequence[Mapping[str, float]], name: str, *, is_whole: bool
) -> Case:
    """Metrics in which ours is better or worse than the other by more than the spread of the paired differences allows:
    the mean difference over all seeds, compared with its standard error."""
    better = worse = 0
    metrics: dict[str, float] = {}
    for metric, more_is_better in METRICS.items():
        sign = 1.0 if more_is_better else -1.0
        gains = [sign * (own[metric] - other[metric]) for own, other in zip(ours, others, strict=True)]
        error = pstdev(gains) / max(len(gains) - 1, 1) ** 0.5
        metrics[f"gain in {metric}"] = mean(gains)
        better += mean(gains) > error
        worse += mean(gains) < -error
    metrics |= {"better in": float(better), "worse in": float(worse)}
    return Case(
        BENCH,
        f"ours against {name}",
        metrics,
        {"min:better in": 2.0, "max:worse in": 0.0} if is_whole else {},
    )


@dataclass
class _Gang:
    manifests: JobManifests
    is_hard: bool
    arrived: int
    duration: int
    started: int | None = None
    nodes: list[str] = field(default_factory=list)

    @property
    def tier(self) -> int:
        """The lowest tier that contains its nodes; a gang on one node or in one rack is in tier 1."""
        numbers = {int(name.removeprefix("n")) for name in self.nodes}
        if len({number // RACK for number in numbers}) == 1:
            return 1
        return 2 if len({number // (RACK * SPINE) for number in numbers}) == 1 else ROOT_TIER


class Stream:
    """One run: gangs arrive, are scheduled by real cycles, and end after their time."""

    def __init__(self, name: str, seed: int, cycles: int) -> None:
        self._name = name
        self._random = Random(seed)
        self._cycles = cycles
        self._cluster = _empty_cluster()
        self._gangs: dict[str, _Gang] = {}
        self._waiting: dict[str, _Gang] = {}
        self._ending: dict[int, list[_Gang]] = {}
        self._memory: Any = None

    def run(self) -> dict[str, float]:
        used = []
        for now in range(WARM_UP + self._cycles):
            for gang in self._ending.pop(now, ()):
                self._end(gang)
            for _ in range(self._arrivals()):
                self._arrive(now)
            self._schedule(now)
            if now >= WARM_UP:
                busy = [gang for gang in self._gangs.values() if gang.started is not None]
                running = [gang for gang in busy if (gang.started or 0) + gang.duration > now]
                used.append(sum(_gpus(gang) for gang in running))
        return self._figures(WARM_UP + self._cycles) | {"used": mean(used) / (NODES * GPUS)}

    def _arrivals(self) -> int:
        """Poisson with the rate of the load."""
        rate = LOAD * NODES * GPUS / mean(SIZES) / DURATION
        count, product, limit = 0, self._random.random(), 2.718281828459045**-rate
        while product > limit:
            count += 1
            product *= self._random.random()
        return count

    def _arrive(self, now: int) -> None:
        size = self._random.choice(SIZES)
        is_hard = self._random.random() < 0.5
        duration = max(round(self._random.expovariate(1 / DURATION)), 1)
        pods, gpus = max(size // GPUS, 1), min(size, GPUS)
        wanted: Manifest = {"mode": "hard", "highestTierAllowed": 1} if is_hard else {"mode": "soft"}
        without = not is_hard and self._name == BINPACK_ONLY
        name = f"g{len(self._gangs)}"
        made = job(
            name,
            pods,
            cpu=gpus,
            gpu=gpus,
            age=-float(now),
            group={} if without else {"networkTopology": wanted},
        )
        self._gangs[name] = self._waiting[name] = _Gang(made, is_hard, now, duration)
        for manifest in (made.group, *made.pods):
            self._cluster.apply(event(manifest, self._cluster))

    def _schedule(self, now: int) -> None:
        outcome = schedule(self._cluster.snapshot(START + now, 1, self._memory), CONFIGS[self._name])
        self._memory = outcome.memory
        placed: dict[str, dict[str, str]] = {}
        for decision in outcome.decisions:
            if isinstance(decision, Bind):
                placed.setdefault(decision.job.rsplit("/", 1)[1], {})[decision.name] = decision.node
        self._cluster.assume(outcome.decisions)
        for name, nodes in placed.items():
            gang = self._waiting.pop(name)
            gang.started, gang.nodes = now, list(nodes.values())
            self._ending.setdefault(now + gang.duration, []).append(gang)
            for member in gang.manifests.pods:
                member["spec"]["nodeName"] = nodes[member["metadata"]["name"]]
                member["status"]["phase"] = "Running"
                self._cluster.apply(event(member, self._cluster, EventType.MODIFIED))

    def _end(self, gang: _Gang) -> None:
        for manifest in (*gang.manifests.pods, gang.manifests.group):
            self._cluster.apply(event(manifest, self._cluster, EventType.DELETED))

    def _figures(self, end: int) -> dict[str, float]:
        """Figures of the gangs that arrived after the warm-up; one that still waits has waited until now."""
        late = [gang for gang in self._gangs.values() if gang.arrived >= WARM_UP]
        soft = [gang for gang in late if not gang.is_hard and gang.started is not None]
        several = [gang for gang in soft if len(gang.manifests.pods) > 1]
        waits = [
            (end if gang.started is None else gang.started) - gang.arrived for gang in late if gang.is_hard
        ]
        return {
            "soft in one rack": sum(gang.tier == 1 for gang in several) / len(several),
            "mean tier of soft": mean(gang.tier for gang in several),
            "hard waits": mean(waits),
            "gangs": float(len(late)),
        }


def _gpus(gang: _Gang) -> int:
    (container,) = gang.manifests.pods[0]["spec"]["containers"]
    return int(container["resources"]["requests"]["nvidia.com/gpu"]) * len(gang.manifests.pods)


def _empty_cluster() -> Cluster:
    racks, spines = NODES // RACK, NODES // RACK // SPINE
    tree = [
        hyper_node(f"rack-{i:02d}", 1, "Node", [f"n{i * RACK + k}" for k in range(RACK)])
        for i in range(racks)
    ]
    tree += [
        hyper_node(f"spine-{i}", 2, "HyperNode", [f"rack-{i * SPINE + k:02d}" for k in range(SPINE)])
        for i in range(spines)
    ]
    machines = [node(f"n{i}", cpu=GPUS, memory="64Gi", gpu=GPUS) for i in range(NODES)]
    return cluster_of(nodes=machines, others=tree)
