"""Changes of a cluster or of a job: what they do to a state, and the sentence that describes them to people."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from volcano.analysis.rerun.state import ClusterState
from volcano.kube.api import kinds
from volcano.kube.client.protocol import Event, EventType
from volcano.model.job import PodGroup
from volcano.model.node import Node, Taint
from volcano.model.resources import shown
from volcano.model.status import Status
from volcano.model.task import Shape, Task, Toleration

HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class AddJob:
    """A job is created: its PodGroup, and the pods that exist at once or after it was admitted."""

    job: str
    objects: tuple[tuple[kinds.Kind, bytes], ...]  # encoded, in order
    pods_to_come: tuple[bytes, ...] = ()

    def sentence(self) -> str:
        return f"job {self.job} is created"

    def apply(self, state: ClusterState) -> ClusterState:
        events = [Event(EventType.ADDED, kind, state.decode(kind, data)) for kind, data in self.objects]
        later = tuple(state.decode(kinds.POD, data) for data in self.pods_to_come)
        return state.with_events(events, {self.job: later} if later else {})


@dataclass(frozen=True, slots=True)
class JobFinishes:
    """A running job ends and releases what it holds."""

    job: str
    name: str = field(default="", compare=False)  # for people, where it is not the uid

    def sentence(self) -> str:
        return f"job {self.name or self.job} finishes"

    def apply(self, state: ClusterState) -> ClusterState:
        return _removed(state, self.job)


@dataclass(frozen=True, slots=True)
class SetReplicas:
    """A task of a job has fewer pods; its minimum, and that of the job, fall with it."""

    job: str
    role: str  # "" for jobs without tasks, such as those of plain pods
    replicas: int
    before: int

    def sentence(self) -> str:
        task = f" of task {self.role}" if self.role else ""
        return f"reduce the replicas{task} from {self.before} to {self.replicas}"

    def apply(self, state: ClusterState) -> ClusterState:
        members = [task for task in state.tasks(self.job) if task.role == self.role]
        waiting = sorted((t for t in members if t.status is Status.PENDING), key=lambda t: -t.index)
        dropped = {task.uid for task in waiting[: max(len(members) - self.replicas, 0)]}
        lost = next((task.request for task in waiting), None)
        names = state.snapshot().resources

        def fewer(group: PodGroup) -> PodGroup:
            minimums = dict(group.min_task_member)
            known = minimums.get(self.role)
            if known is not None:
                minimums[self.role] = min(known, self.replicas)
            total = len(state.tasks(self.job)) - len(dropped)
            reduced = 0 if known is None else known - minimums[self.role]
            minimum = min(group.min_member - reduced, total)
            per_pod = {} if lost is None else names.amounts(lost)
            smaller = _less(group, per_pod, group.min_member - minimum)
            sub_groups = tuple(
                replace(policy, min_groups=min(policy.min_groups, self.replicas // policy.size))
                if policy.name == self.role
                else policy
                for policy in group.sub_groups
            )
            return replace(smaller, min_member=minimum, min_task_member=minimums, sub_groups=sub_groups)

        return _edited(state, self.job, fewer, lambda task: None if task.uid in dropped else task)


@dataclass(frozen=True, slots=True)
class SetRequest:
    """Each pod of a task requests less of one resource."""

    job: str
    role: str
    resource: str
    amount: float
    before: float

    def sentence(self) -> str:
        task = f" of task {self.role}" if self.role else ""
        least, most = shown(self.resource, self.amount), shown(self.resource, self.before)
        return f"request {least} {self.resource} instead of {most} for each pod{task}"

    def apply(self, state: ClusterState) -> ClusterState:
        column = state.snapshot().resources.column[self.resource]
        mark = f"request {self.resource}={self.amount:g}".encode()

        def smaller(shape: Shape) -> Shape:
            request = shape.request.copy()
            request[column] = self.amount
            request.setflags(write=False)
            devices = shape.devices
            if devices is not None:
                factor = self.amount / self.before
                containers = tuple(_scaled(found, self.resource, factor) for found in devices.containers)
                devices = devices._replace(containers=containers)
            nonzero = shape.nonzero_request
            if column < len(nonzero):
                nonzero = nonzero.copy()
                nonzero[column] = self.amount
            return msgspec.structs.replace(
                shape, request=request, nonzero_request=nonzero, devices=devices, key=shape.key + mark
            )

        count = sum(task.role == self.role for task in state.tasks(self.job))

        def fewer(group: PodGroup) -> PodGroup:
            counted = min(group.min_task_member.get(self.role, group.min_member), count)
            return _less(group, {self.resource: self.before - self.amount}, counted)

        return _edited(state, self.job, fewer, _with_shape(smaller, self.role))


@dataclass(frozen=True, slots=True)
class MoveToQueue:
    """A job is in another queue."""

    job: str
    queue: str

    def sentence(self) -> str:
        return f"move it to queue {self.queue}"

    def apply(self, state: ClusterState) -> ClusterState:
        return _edited(state, self.job, lambda group: replace(group, queue=self.queue))


@dataclass(frozen=True, slots=True)
class SetPriorityClass:
    """A job and its pods have another priority class."""

    job: str
    priority_class: str

    def sentence(self) -> str:
        return f"use priority class {self.priority_class}"

    def apply(self, state: ClusterState) -> ClusterState:
        value = state.priority(self.priority_class)

        def important(task: Task) -> Task:
            return msgspec.structs.replace(task, priority=value, priority_class=self.priority_class)

        return _edited(
            state, self.job, lambda group: replace(group, priority_class=self.priority_class), important
        )


@dataclass(frozen=True, slots=True)
class WidenTier:
    """A job may spread over a higher tier of the network; None: over the whole cluster."""

    job: str
    tier: int | None

    def sentence(self) -> str:
        if self.tier is None:
            return "let it spread over the whole network (mode soft)"
        return f"allow network tier {self.tier}"

    def apply(self, state: ClusterState) -> ClusterState:
        def wider(group: PodGroup) -> PodGroup:
            if group.topology is None:
                return group
            mode = "soft" if self.tier is None else group.topology.mode
            topology = replace(group.topology, mode=mode, highest_tier=self.tier, highest_tier_name="")
            return replace(group, topology=topology)

        return _edited(state, self.job, wider)


@dataclass(frozen=True, slots=True)
class Tolerate:
    """The pods of a job tolerate a taint."""

    job: str
    taint: Taint

    def sentence(self) -> str:
        taint = self.taint
        value = f"={taint.value}" if taint.value else ""
        return f"add a toleration for {taint.key}{value}:{taint.effect}"

    def apply(self, state: ClusterState) -> ClusterState:
        taint = self.taint
        toleration = Toleration(taint.key, "Equal", taint.value, taint.effect)

        def tolerant(shape: Shape) -> Shape:
            known = shape.constraints.tolerations
            constraints = replace(shape.constraints, tolerations=(*known, toleration))
            key = shape.key + f"tolerate {taint}".encode()
            return msgspec.structs.replace(shape, constraints=constraints, key=key)

        return _edited(state, self.job, lambda group: group, _with_shape(tolerant, None))


@dataclass(frozen=True, slots=True)
class AddNode:
    """The cluster has more nodes like one of its own."""

    pool: str
    like: str  # name of a node of the pool
    count: int = 1

    def sentence(self) -> str:
        many = "one more node" if self.count == 1 else f"{self.count} more nodes"
        return f"add {many} of pool {self.pool}"

    def apply(self, state: ClusterState) -> ClusterState:
        snapshot = state.snapshot()
        model = snapshot.nodes[snapshot.row_of[self.like]]
        return state.with_events(
            Event(EventType.ADDED, kinds.NODE, node) for node in self._copies(model, snapshot.row_of)
        )

    def _copies(self, model: Node, taken: Mapping[str, int]) -> Iterator[Node]:
        number = 0
        for _ in range(self.count):
            while f"{self.pool}-added-{number}" in taken:
                number += 1
            name = f"{self.pool}-added-{number}"
            number += 1
            labels = {**model.labels, **({HOSTNAME: name} if HOSTNAME in model.labels else {})}
            yield replace(model, name=name, labels=labels, unschedulable=False)


def _removed(state: ClusterState, job: str) -> ClusterState:
    coming = state.pods_to_come.get(job, ())
    events = [Event(EventType.DELETED, kinds.POD, task) for task in state.tasks(job) if task not in coming]
    group = state.group(job)
    if group is not None and not group.implicit:
        events.append(Event(EventType.DELETED, kinds.POD_GROUP, group))
    return state.with_events(events, {job: ()} if coming else {})


def _edited(
    state: ClusterState,
    job: str,
    group: Callable[[PodGroup], PodGroup],
    task: Callable[[Task], Task | None] = lambda task: task,
) -> ClusterState:
    """A state with another PodGroup, and with other waiting pods: None removes one. Pods that run are unchanged."""
    coming = state.pods_to_come.get(job, ())
    events: list[Event] = []
    known = state.group(job)
    if known is not None:
        # The version makes it newer than the known one.
        edited = replace(group(known), resource_version=f"{known.resource_version}+")
        events.append(Event(EventType.MODIFIED, kinds.POD_GROUP, edited))
    present = state.tasks(job)
    for each in present[: len(present) - len(coming)]:
        if each.status is not Status.PENDING:
            continue
        other = task(each)
        if other is None:
            events.append(Event(EventType.DELETED, kinds.POD, each))
        elif other is not each:
            events.append(Event(EventType.MODIFIED, kinds.POD, other))
    later = tuple(other for each in coming if (other := task(each)) is not None)
    return state.with_events(events, {job: later} if coming else {})


def _with_shape(change: Callable[[Shape], Shape], role: str | None) -> Callable[[Task], Task]:
    """Changes the shape of the pods of a role, or of all; equal pods keep one shape."""
    shapes: dict[Shape, Shape] = {}

    def changed(task: Task) -> Task:
        if role is not None and task.role != role:
            return task
        if task.shape not in shapes:
            shapes[task.shape] = change(task.shape)
        return msgspec.structs.replace(task, shape=shapes[task.shape])

    return changed


def _less(group: PodGroup, per_pod: Mapping[str, float], pods: int) -> PodGroup:
    """The PodGroup with less of `minResources`, by what some pods do not request any more."""
    if group.min_resources is None or pods <= 0:
        return group
    least = {
        name: max(amount - per_pod.get(name, 0.0) * pods, 0.0) for name, amount in group.min_resources.items()
    }
    texts: dict[str, Any] = {
        **(group.min_resources_text or {}),
        **{name: shown(name, amount) for name, amount in least.items()},
    }
    return replace(group, min_resources=least, min_resources_text=texts)


def _scaled(amounts: Mapping[str, float], resource: str, factor: float) -> Mapping[str, float]:
    return {name: amount * factor if name == resource else amount for name, amount in amounts.items()}
