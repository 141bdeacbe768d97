"""Rows of `vcctl top`: queues, jobs and pods, computed from manifests only."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import orjson

from volcano.apiserver.endpoints.tables.cells import at, is_true, items, number, wall_time
from volcano.apiserver.endpoints.tables.pods import pod_status
from volcano.cli.shares import Amounts, QueueShare, amounts, cluster_total, queue_of, queue_shares, serves
from volcano.cli.top.gpu_load import GpuFigures
from volcano.cli.waiting import WAITING, why_waiting
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import (
    Key,
    Manifest,
    annotations_of,
    controller_of,
    key_of,
    labels_of,
)
from volcano.kube.api.names import GROUP_NAME, JOB_NAME, TASK_INDEX, TASK_SPEC

ENDED = ("Succeeded", "Failed")
READY = ("Running", "Succeeded")
# Owner of a pod: a job, a PodGroup or none, with the owner's key.
Home = tuple[str, Key]
OF_JOB, OF_GROUP, OF_NOBODY = "job", "group", ""


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


@dataclass(frozen=True, slots=True)
class PodRow:
    """One pod of a job."""

    key: Key
    task: str
    index: int
    status: str
    node: str
    restarts: int
    created: float
    requests: Amounts


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node, with the number and the requests of its pods."""

    key: Key
    status: str
    pods: int
    created: float
    used: Amounts
    allocatable: Amounts
    gpus: Sequence[GpuFigures] = ()

    def dominant(self) -> float:
        """Largest used share of a resource."""
        parts = (self.used.get(name, 0.0) / most for name, most in self.allocatable.items() if most > 0)
        return max(parts, default=0.0)


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job, or a PodGroup that no Volcano job owns."""

    key: Key
    queue: str
    phase: str
    minimum: int
    ready: int
    wanted: int
    created: float
    holds: Amounts
    waits_for: str = ""
    grouped_only: bool = False

    def dominant(self, total: Amounts) -> float:
        """Dominant share of the job."""
        return max(
            (self.holds.get(name, 0.0) / most for name, most in total.items() if most > 0), default=0.0
        )


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

    def pods_of(self, job: Key) -> list[PodRow]:
        """Pods of a job; computed on demand, since a screen shows one job at most."""
        found = next((row for row in self.jobs if row.key == job), None)
        return [pod_row(pod) for pod in self.members.get(_pod_home(found), ())] if found is not None else []

    def node_rows(self) -> list[NodeRow]:
        """Nodes with what their pods request; computed on demand, as few screens show them."""
        on_node: dict[str, list[Manifest]] = defaultdict(list)
        for pods in self.members.values():
            for pod in pods:
                if _holds(pod):
                    on_node[str(at(pod, "spec", "nodeName"))].append(pod)
        return [_node_row(node, on_node.get(key_of(node).name, ()), self.gpus) for node in self.node_list]


def board(picture: Picture) -> Board:
    """Computes the rows of a cluster state."""
    total = cluster_total(picture.nodes)
    shares = queue_shares(picture.queues, total)
    members = _pods_by_job(picture.pods)
    held = {home: _held(pods) for home, pods in members.items()}
    jobs = [*_job_rows(picture, held), *_bare_groups(picture, members, held)]
    return Board(
        now=picture.now,
        nodes=sum(serves(node) for node in picture.nodes),
        total=total,
        used=_summed(held.values()),
        queues=shares,
        jobs=sorted(jobs, key=lambda job: job.key),
        members=members,
        counts=_counts(shares, jobs),
        node_list=picture.nodes,
        gpus=picture.gpus,
    )


def _node_row(node: Manifest, pods: Sequence[Manifest], gpus: Sequence[GpuFigures]) -> NodeRow:
    closed = bool(at(node, "spec", "unschedulable"))
    status = "Ready" if is_true(node, "Ready") else "NotReady"
    return NodeRow(
        key=key_of(node),
        status=f"{status},SchedulingDisabled" if closed else status,
        pods=len(pods),
        created=wall_time(at(node, "metadata", "creationTimestamp")) or 0.0,
        used=_held(pods),
        allocatable=amounts(at(node, "status", "allocatable")),
        gpus=[each for each in gpus if each.node == key_of(node).name],
    )


def _job_rows(picture: Picture, held: Mapping[Home, Amounts]) -> Iterable[JobRow]:
    groups = {owner["uid"]: group for group in picture.groups if (owner := controller_of(group)) is not None}
    for job in picture.jobs:
        key = key_of(job)
        group = groups.get(job["metadata"].get("uid", ""))
        phase = str(at(job, "status", "state", "phase", default="Pending"))
        yield JobRow(
            key=key,
            queue=queue_of(job),
            phase=phase,
            minimum=number(job, "spec", "minAvailable"),
            ready=number(job, "status", "running") + number(job, "status", "succeeded"),
            wanted=sum(number(task, "replicas") for task in items(job, "spec", "tasks")),
            created=wall_time(at(job, "metadata", "creationTimestamp")) or 0.0,
            holds=held.get((OF_JOB, key), {}),
            waits_for=why_waiting(group) if group is not None and phase in WAITING else "",
        )


def _bare_groups(
    picture: Picture, members: Mapping[Home, Sequence[Manifest]], held: Mapping[Home, Amounts]
) -> Iterable[JobRow]:
    """PodGroups of Deployments, plain pods and other operators' jobs, which share the queues."""
    for group in picture.groups:
        owner = controller_of(group)
        if owner is not None and owner.get("apiVersion") == JOB.api_version and owner.get("kind") == JOB.kind:
            continue
        home = (OF_GROUP, key_of(group))
        yield JobRow(
            key=key_of(group),
            queue=queue_of(group),
            phase=str(at(group, "status", "phase", default="Pending")),
            minimum=number(group, "spec", "minMember"),
            ready=_ready(group, members.get(home, ())),
            wanted=len(members.get(home, ())),
            created=wall_time(at(group, "metadata", "creationTimestamp")) or 0.0,
            holds=held.get(home, {}),
            waits_for=why_waiting(group) if at(group, "status", "phase") in (None, *WAITING) else "",
            grouped_only=True,
        )


def _ready(group: Manifest, pods: Sequence[Manifest]) -> int:
    """Pods of a PodGroup that run or have succeeded. Not every scheduler writes their number to its status."""
    written = number(group, "status", "running") + number(group, "status", "succeeded")
    return max(written, sum(at(pod, "status", "phase") in READY for pod in pods))


def _pod_home(job: JobRow) -> Home:
    return (OF_GROUP if job.grouped_only else OF_JOB, job.key)


def _pods_by_job(pods: Iterable[Manifest]) -> dict[Home, list[Manifest]]:
    found: dict[Home, list[Manifest]] = defaultdict(list)
    for pod in pods:
        namespace = key_of(pod).namespace
        if name := labels_of(pod).get(JOB_NAME):
            found[OF_JOB, Key(namespace, name)].append(pod)
        elif name := annotations_of(pod).get(GROUP_NAME):
            found[OF_GROUP, Key(namespace, name)].append(pod)
        else:
            found[OF_NOBODY, Key(namespace, "")].append(pod)
    return dict(found)


def _counts(shares: Sequence[QueueShare], jobs: Iterable[JobRow]) -> dict[str, Counter[str]]:
    paths = {share.name: share.path for share in shares}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for job in jobs:
        for queue in paths.get(job.queue, (job.queue,)):
            counts[queue][job.phase] += 1
    return counts


def pod_row(pod: Manifest) -> PodRow:
    index = labels_of(pod).get(TASK_INDEX) or annotations_of(pod).get(TASK_INDEX) or ""
    return PodRow(
        key=key_of(pod),
        task=labels_of(pod).get(TASK_SPEC) or annotations_of(pod).get(TASK_SPEC) or "",
        index=int(index) if index.isdecimal() else 0,
        status=pod_status(pod) or "Pending",
        node=str(at(pod, "spec", "nodeName", default="")),
        restarts=sum(number(status, "restartCount") for status in items(pod, "status", "containerStatuses")),
        created=wall_time(at(pod, "metadata", "creationTimestamp")) or 0.0,
        requests=pod_requests(pod),
    )


def _holds(pod: Manifest) -> bool:
    """Whether a pod occupies resources on a node."""
    placed = (pod.get("spec") or {}).get("nodeName")
    return bool(placed) and (pod.get("status") or {}).get("phase") not in ENDED


def _held(pods: Iterable[Manifest]) -> dict[str, float]:
    return _summed(pod_requests(pod) for pod in pods if _holds(pod))


def _summed(parts: Iterable[Amounts]) -> dict[str, float]:
    total: dict[str, float] = defaultdict(float)
    for part in parts:
        for name, amount in part.items():
            total[name] += amount
    return dict(total)


def pod_requests(pod: Manifest) -> Amounts:
    """Resource requests of a pod: sum of its containers, or the largest init container if that is more."""
    spec = pod.get("spec") or {}
    return _requests(orjson.dumps((spec.get("containers"), spec.get("initContainers"))))


@lru_cache(maxsize=4096)
def _requests(containers: bytes) -> Amounts:
    """Requests of containers and init containers in JSON: most pods of a cluster have one of a few shapes."""
    together: dict[str, float] = defaultdict(float)
    always, first = orjson.loads(containers)
    for container in items({"": always}, ""):
        for name, amount in _asked(container).items():
            together[name] += amount
    for container in items({"": first}, ""):
        for name, amount in _asked(container).items():
            together[name] = max(together[name], amount)
    return dict(together)


def _asked(container: Mapping[str, object]) -> dict[str, float]:
    limits, requests = at(container, "resources", "limits"), at(container, "resources", "requests")
    return {**amounts(limits), **amounts(requests)}
