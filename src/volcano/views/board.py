"""Rows of a whole cluster: queues, jobs, pods and nodes, computed from manifests only."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from volcano.kube.api.fields import at
from volcano.kube.api.manifest import (
    Key,
    Manifest,
    key_of,
)
from volcano.views.amounts import Amounts
from volcano.views.devices import GpuFigures
from volcano.views.jobs import WAITING, JobRow, group_rows, job_rows
from volcano.views.nodes import NodeRow, cluster_total, is_usable, node_row, serves
from volcano.views.pods import (
    Home,
    PodRow,
    add,
    held_by,
    is_requesting,
    occupies,
    pod_requests,
    pod_row,
    pods_by_owner,
    summed,
)
from volcano.views.queues import QueueShare, queue_shares


@dataclass(frozen=True, slots=True)
class Picture:
    """Cluster state at one moment."""

    queues: Sequence[Manifest]
    jobs: Sequence[Manifest]
    groups: Sequence[Manifest]
    pods: Sequence[Manifest]
    nodes: Sequence[Manifest]
    now: float  # wall time
    gpus: Sequence[GpuFigures] = ()
    complete: bool = True  # jobs, PodGroups and pods of all namespaces


@dataclass(frozen=True, slots=True)
class Board:
    """Rows of all screens, computed from one cluster state."""

    now: float
    nodes: int
    total: Amounts
    used: Amounts
    queues: Sequence[QueueShare]
    jobs: Sequence[JobRow]
    members: Mapping[Home, Sequence[Manifest]]  # pods by owner
    counts: Mapping[str, Counter[str]]  # jobs by phase, per queue including its descendants
    node_list: Sequence[Manifest] = ()
    gpus: Sequence[GpuFigures] = ()  # load of those of local nodes

    def jobs_in(self, queue: str) -> list[JobRow]:
        """Jobs of a queue and its descendants; all jobs without a queue."""
        if not queue:
            return list(self.jobs)
        inside = {share.name for share in self.queues if queue in share.path} | {queue}
        return [job for job in self.jobs if job.queue in inside]

    def running(self, queue: str) -> int:
        """Running jobs of a queue and its descendants."""
        return self.counts.get(queue, Counter())["Running"]

    def waiting(self, queue: str) -> int:
        """Waiting jobs of a queue and its descendants."""
        counts = self.counts.get(queue, Counter())
        return sum(counts[phase] for phase in WAITING)

    def pods_of(self, job: Key) -> list[PodRow]:
        """Pods of a job; computed on demand, since a screen shows one job at most."""
        found = next((row for row in self.jobs if row.key == job), None)
        return [pod_row(pod) for pod in self.members.get(found.home, ())] if found is not None else []

    def node_rows(self) -> list[NodeRow]:
        """Nodes with what their pods request; computed on demand, as few screens show them."""
        on_node: dict[str, list[Manifest]] = defaultdict(list)
        for pods in self.members.values():
            for pod in pods:
                if occupies(pod):
                    on_node[str(at(pod, "spec", "nodeName"))].append(pod)
        return [node_row(node, on_node.get(key_of(node).name, ()), self.gpus) for node in self.node_list]


def board(picture: Picture) -> Board:
    """Computes the rows of a cluster state."""
    total = cluster_total(picture.nodes)
    members = pods_by_owner(picture.pods)
    held = {home: held_by(pods) for home, pods in members.items()}
    jobs = [*job_rows(picture.jobs, picture.groups, held), *group_rows(picture.groups, members, held)]
    shares = _shares(picture, members, jobs)
    return Board(
        now=picture.now,
        nodes=sum(serves(node) for node in picture.nodes),
        total=total,
        used=summed(held.values()),
        queues=shares,
        jobs=sorted(jobs, key=lambda job: job.key),
        members=members,
        counts=_counts(shares, jobs),
        node_list=picture.nodes,
        gpus=picture.gpus,
    )


def _shares(
    picture: Picture, members: Mapping[Home, Sequence[Manifest]], jobs: Iterable[JobRow]
) -> list[QueueShare]:
    """Shares of the queues in what the scheduler divides among them, at most what their pods request."""
    queues = {job.home: job.queue for job in jobs}
    usable = [node for node in picture.nodes if is_usable(node)]
    names = {key_of(node).name for node in usable}
    divided = cluster_total(usable)
    requested: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for home, pods in members.items():
        queue = queues.get(home)
        for pod in pods:
            if queue is not None and is_requesting(pod):
                add(requested[queue], pod_requests(pod))
            # Pods of others take from the usable nodes, and jobs keep what they hold on other nodes.
            if occupies(pod) and (queue is None) == (pod["spec"]["nodeName"] in names):
                add(divided, pod_requests(pod), -1.0 if queue is None else 1.0)
    total = {name: max(divided.get(name, 0.0), 0.0) for name in cluster_total(picture.nodes)}
    return queue_shares(picture.queues, total, requested if picture.complete else None)


def _counts(shares: Sequence[QueueShare], jobs: Iterable[JobRow]) -> dict[str, Counter[str]]:
    paths = {share.name: share.path for share in shares}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for job in jobs:
        for queue in paths.get(job.queue, (job.queue,)):
            counts[queue][job.phase] += 1
    return counts


KEPT_METADATA = (
    "name", "namespace", "uid", "resourceVersion", "labels", "annotations", "creationTimestamp", "deletionTimestamp",
    "ownerReferences",
)  # fmt: skip

KEPT_OF_CONTAINERS = ("name", "resources", "restartPolicy")


def slim(data: bytes) -> Manifest:
    """Object without fields that no screen shows, to save memory."""
    manifest: Manifest = orjson.loads(data)
    metadata = manifest.get("metadata") or {}
    manifest["metadata"] = {name: metadata[name] for name in KEPT_METADATA if name in metadata}
    spec = manifest.get("spec")
    if isinstance(spec, dict) and "containers" in spec:
        manifest["spec"] = {
            "nodeName": spec.get("nodeName", ""),
            **{part: _slim_containers(spec.get(part)) for part in ("containers", "initContainers")},
            **{part: spec[part] for part in ("resources", "overhead", "resourceClaims") if spec.get(part)},
        }
    return manifest


def _slim_containers(containers: Any) -> list[Manifest]:
    return [{n: c[n] for n in KEPT_OF_CONTAINERS if n in c} for c in containers or () if isinstance(c, dict)]
