"""Documented experiments: gangs against deadlock, and pairs of tasks placed together."""

from collections import Counter
from dataclasses import dataclass, field

from tests.builders import START, JobManifests, node, pod, podgroup
from tests.scenario import PluginSpec, cluster_of, config, event
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import EventType
from volcano.model.decisions import Bind
from volcano.scheduler.cycle import schedule

PS, WORKERS = 2, 4
MEMBERS = PS + WORKERS
WITH_GANG: tuple[PluginSpec, ...] = ("gang", "drf", "predicates")
WITHOUT_GANG: tuple[PluginSpec, ...] = ("drf", "predicates")


@dataclass
class Training:
    """Jobs that make headway only while all their pods run, and are done after so many cycles of it."""

    count: int
    plugins: tuple[PluginSpec, ...]
    duration: int = 3
    slots: int = MEMBERS + MEMBERS // 2  # room for one and a half
    finished: list[int] = field(default_factory=list)

    def run(self, longest: int = 100) -> int | None:
        """The cycle in which the last job is done; None when nothing moves any more before that."""
        jobs = {f"job-{i}": training_job(f"job-{i}", age=100 - i) for i in range(self.count)}
        cluster = cluster_of(nodes=[node(f"n{i}", cpu=1) for i in range(self.slots)], jobs=jobs.values())
        settings = config(plugins=self.plugins)
        running: Counter[str] = Counter()
        headway: Counter[str] = Counter()
        for cycle in range(1, longest + 1):
            outcome = schedule(cluster.snapshot(START + cycle, cycle), settings)
            bound = [d for d in outcome.decisions if isinstance(d, Bind)]
            for decision in bound:
                running[decision.job.split("/")[1]] += 1
                member = _member(jobs, decision.name)
                member["spec"]["nodeName"] = decision.node
                member["status"]["phase"] = "Running"
                cluster.apply(event(member, cluster, EventType.MODIFIED))
            whole = [name for name in jobs if running[name] == MEMBERS and headway[name] < self.duration]
            for name in whole:
                headway[name] += 1
                if headway[name] == self.duration:
                    self.finished.append(cycle)
                    for member in jobs[name].pods:
                        cluster.apply(event(member, cluster, EventType.DELETED))
            if len(self.finished) == self.count:
                return cycle
            if not bound and not whole:
                return None
        return None


TOGETHER = {"volcano.sh/task-topology-affinity": "ps,worker", "volcano.sh/task-topology-anti-affinity": "ps"}


def training_job(name: str, *, age: float = 0, annotations: dict[str, str] | None = None) -> JobManifests:
    """Two parameter servers and four workers; all of them or nothing."""
    members = [
        pod(f"{name}-{role}-{i}", cpu=1, group=name, role=role, age=age)
        for role, count in (("ps", PS), ("worker", WORKERS))
        for i in range(count)
    ]
    return JobManifests(podgroup(name, min_member=MEMBERS, age=age, annotations=annotations), tuple(members))


def pairs_together(*, topology: bool, seed: int = 1) -> float:
    """Three jobs of 2 ps + 4 workers on six nodes of three slots: the part of workers beside a ps of theirs."""
    annotations = TOGETHER if topology else None
    jobs = [training_job(f"job-{i}", annotations=annotations, age=10 - i) for i in range(3)]
    plugins: list[PluginSpec] = ["gang", "predicates", "binpack", *(["task-topology"] if topology else [])]
    nodes = [node(f"n{i}", cpu=3) for i in range(6)]
    snapshot = cluster_of(nodes=nodes, jobs=jobs).snapshot(START, seed)
    placed = {
        d.name: d.node for d in schedule(snapshot, config(plugins=plugins)).decisions if isinstance(d, Bind)
    }
    near = sum(
        placed[name] in {placed[f"{name.rsplit('-', 2)[0]}-ps-{i}"] for i in range(PS)}
        for name in placed
        if "-worker-" in name
    )
    return near / (3 * WORKERS)


def _member(jobs: dict[str, JobManifests], name: str) -> Manifest:
    return next(p for group in jobs.values() for p in group.pods if p["metadata"]["name"] == name)
