"""One scheduling cycle (or several) from manifests: what was bound, evicted, admitted, and why the rest waits."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import yaml

from tests.builders import START, JobManifests, queue
from volcano.kube.api import kinds
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Event, EventType
from volcano.model.cluster import WATCHED, Cluster
from volcano.model.decisions import (
    Bind,
    Decision,
    Evict,
    Nominate,
    RecordEvent,
    SetPodCondition,
    SetPodGroup,
    SetQueue,
)
from volcano.model.snapshot import Snapshot
from volcano.scheduler.cycle import schedule as run_cycle
from volcano.scheduler.engine.config import Config, parse
from volcano.scheduler.engine.diagnosis import Diagnosis
from volcano.scheduler.engine.session import Outcome, Session

KINDS: Mapping[tuple[str, str], Kind] = kinds.by_gvk((*WATCHED, kinds.CONFIG_MAP))
PluginSpec = str | Mapping[str, Any]
DEFAULT_TIERS: Sequence[Sequence[PluginSpec]] = (
    ("priority", "gang", "conformance"),
    ("drf", "predicates", "proportion", "nodeorder", "binpack"),
)


@dataclass(frozen=True)
class Result:
    """Decisions of a cycle, with queries for tests."""

    outcome: Outcome
    snapshot: Snapshot

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return self.outcome.decisions

    def bound(self) -> dict[str, str]:
        """Pod name → node, of every binding."""
        return {d.name: d.node for d in self.decisions if isinstance(d, Bind)}

    def bound_in(self, queue_name: str) -> int:
        """How many pods of a queue were bound."""
        jobs = self.snapshot.jobs
        return sum(1 for d in self.decisions if isinstance(d, Bind) and jobs[d.job].queue == queue_name)

    def bound_per_node(self) -> dict[str, int]:
        return dict(Counter(self.bound().values()))

    def evicted(self) -> set[str]:
        """The names of the pods that were evicted."""
        return {d.name for d in self.decisions if isinstance(d, Evict)}

    def nominated(self) -> dict[str, str]:
        return {d.name: d.node for d in self.decisions if isinstance(d, Nominate)}

    def phase(self, job_name: str) -> str:
        """The phase a PodGroup ends the cycle with."""
        for d in self.decisions:
            if isinstance(d, SetPodGroup) and d.name == job_name and d.phase is not None:
                return d.phase
        return next(job.phase for job in self.snapshot.jobs.values() if job.name == job_name)

    def condition(self, job_name: str, kind: str = "Unschedulable") -> str:
        """The message of a condition that was set on a PodGroup; empty when it was not."""
        for d in self.decisions:
            if isinstance(d, SetPodGroup) and d.name == job_name:
                return next(
                    (c.message for c in d.conditions or () if c.type == kind and c.status == "True"), ""
                )
        return ""

    def said(self, pod_name: str) -> str:
        """The message of the PodScheduled=False condition set on a pod."""
        return next(
            (d.message for d in self.decisions if isinstance(d, SetPodCondition) and d.name == pod_name), ""
        )

    def events(self, job_name: str) -> list[str]:
        return [d.message for d in self.decisions if isinstance(d, RecordEvent) and d.name == job_name]

    def allocated(self, queue_name: str) -> Mapping[str, str]:
        found = [d.allocated for d in self.decisions if isinstance(d, SetQueue) and d.queue == queue_name]
        return found[0] if found else {}

    def diagnosis(self, job_name: str) -> Diagnosis | None:
        return next(
            (v for uid, v in self.outcome.diagnoses.items() if uid.rsplit("/", 1)[1] == job_name), None
        )


def config(
    plugins: Sequence[PluginSpec] | None = None,
    tiers: Sequence[Sequence[PluginSpec]] | None = None,
    actions: Sequence[str] = ("enqueue", "allocate", "backfill"),
    configurations: Mapping[str, Mapping[str, Any]] | None = None,
) -> Config:
    """A configuration as from a file: `plugins` are one tier; a plugin is a name, or a dict with switches."""
    wanted = tiers if tiers is not None else (DEFAULT_TIERS if plugins is None else (plugins,))
    document = {
        "actions": ", ".join(actions),
        "tiers": [
            {"plugins": [{"name": p} if isinstance(p, str) else dict(p) for p in tier]} for tier in wanted
        ],
        "configurations": [
            {"name": name, "arguments": dict(arguments)} for name, arguments in (configurations or {}).items()
        ],
    }
    return parse(yaml.safe_dump(document, sort_keys=False), "test.conf")


def event(manifest: Manifest, cluster: Cluster, kind: EventType = EventType.ADDED) -> Event:
    """A watch event as the cluster gets it: through JSON and its own decoders."""
    found = KINDS[manifest["apiVersion"], manifest["kind"]]
    return Event(kind, found, cluster.decoder(found)(orjson.dumps(manifest)))


def cluster_of(
    nodes: Iterable[Manifest] = (),
    jobs: Iterable[JobManifests] = (),
    queues: Iterable[Manifest] | None = None,
    pods: Iterable[Manifest] = (),
    podgroups: Iterable[Manifest] = (),
    others: Iterable[Manifest] = (),
    **options: Any,
) -> Cluster:
    """A cluster that has seen all of this. Queue `default` exists unless queues are given."""
    cluster = Cluster(**options)
    wanted = [queue("default")] if queues is None else list(queues)
    manifests = [*nodes, *wanted, *others, *podgroups, *pods]
    for group in jobs:
        manifests += [group.group, *group.pods]
    for manifest in manifests:
        cluster.apply(event(manifest, cluster))
    return cluster


def schedule(
    *,
    plugins: Sequence[PluginSpec] | None = None,
    tiers: Sequence[Sequence[PluginSpec]] | None = None,
    actions: Sequence[str] = ("enqueue", "allocate", "backfill"),
    configurations: Mapping[str, Mapping[str, Any]] | None = None,
    now: float = START,
    seed: int = 1,
    memory: Mapping[str, Any] | None = None,
    record_scores: bool = False,
    **cluster: Any,
) -> Result:
    """One cycle over `nodes=`, `jobs=`, `queues=`, `pods=`, `podgroups=`, `others=`."""
    snapshot = cluster_of(**cluster).snapshot(now, seed, memory)
    chosen = config(plugins, tiers, actions, configurations)
    return Result(run_cycle(snapshot, chosen, record_scores=record_scores), snapshot)


def session(
    *,
    plugins: Sequence[PluginSpec] = (),
    tiers: Sequence[Sequence[PluginSpec]] | None = None,
    now: float = START,
    seed: int = 1,
    memory: Mapping[str, Any] | None = None,
    **cluster: Any,
) -> Session:
    """A session before any action, to ask a plugin its questions: `session.policy`, `session.policy.plugins[0]`."""
    return Session(cluster_of(**cluster).snapshot(now, seed, memory), config(plugins, tiers))
