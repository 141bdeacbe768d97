"""Cluster: the live mirror. Events in any order go in, cheap snapshots come out, decisions are assumed meanwhile."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from volcano.kube import kinds, names
from volcano.kube.client import Decode, Event, EventType
from volcano.kube.kinds import Kind
from volcano.model.decisions import Bind, Decision, Evict, SetPodCondition, SetPodGroup, SetQueue
from volcano.model.foreign_pods import ForeignPods
from volcano.model.job import Job, PodGroup
from volcano.model.jobview import job_of
from volcano.model.node import Node
from volcano.model.nodebook import NodeBook
from volcano.model.parse import Parser
from volcano.model.parse_storage import STORAGE, Other
from volcano.model.queue import Queue, QueueTotals
from volcano.model.resources import Vector
from volcano.model.snapshot import Snapshot
from volcano.model.status import COMPLETED, Status
from volcano.model.storage import Storage
from volcano.model.task import Task

WATCHED: tuple[Kind, ...] = (kinds.POD, kinds.NODE, kinds.POD_GROUP, kinds.QUEUE, *STORAGE)
DEFAULT_SCHEDULER = "default-scheduler"
NO_MEMBERS: Mapping[str, Task] = {}


class Cluster:
    """What is known about the cluster, kept up by events; nothing is walked that has not changed."""

    def __init__(
        self,
        *,
        scheduler_names: Iterable[str] = (names.SCHEDULER_NAME,),
        serve_default: bool = False,
        default_queue: str = names.DEFAULT_QUEUE,
        node_selector: Collection[tuple[str, str]] = (),
        ignored_provisioners: Iterable[str] = (),
    ) -> None:
        """With a `node_selector`, nodes that have none of these labels are as if they were not there."""
        self.parser = Parser(default_queue)
        self._default_queue = default_queue
        self._node_selector = frozenset(node_selector)
        self._ignored_provisioners = frozenset(ignored_provisioners)
        self._ours = frozenset(scheduler_names) | ({DEFAULT_SCHEDULER} if serve_default else frozenset())
        self._serve_default = serve_default
        self._foreign = ForeignPods(self._ours)
        self._index = self.parser.shapes.index
        self._book = NodeBook(self._index)
        self._tasks: dict[tuple[str, str], Task] = {}  # as the scheduler takes them to be
        self._seen: dict[str, Task] = {}  # as the server last said, for tasks something is assumed about
        self._assumed: dict[str, Bind | Evict] = {}
        self._members: dict[str, dict[str, Task]] = {}
        self._groups: dict[str, PodGroup] = {}
        self._groups_seen: dict[str, PodGroup] = {}
        self._queues: dict[str, Queue] = {}
        self._by_queue: dict[str, dict[str, None]] = {}
        self._jobs: dict[str, Job] = {}
        self._active: dict[str, None] = {}
        self._sums: dict[str, list[Vector]] = {}  # by queue: allocated, requested, inqueue, elastic
        self._job_counts: dict[str, int] = {}
        self._totals: dict[str, QueueTotals] = {}  # the same, frozen
        self._dirty: dict[str, None] = {}
        self._priorities: dict[str, int] = {}
        self._default_priority = 0
        self._others: dict[Kind, dict[tuple[str, str], Any]] = {kind: {} for kind in STORAGE}
        self._frozen: dict[str, Any] = {}
        self.revision = 0  # counts changes that could change a decision
        self.jobless_revision = (
            0  # those among them of pods without a job: they matter to who waits for room only
        )

    # -- events ------------------------------------------------------------------------------------

    def decoder(self, kind: Kind) -> Decode:
        """What to decode the objects of a watched kind with."""
        return self.parser.decoder(kind)

    def apply(self, event: Event) -> None:
        """Takes in one change; replays and stale versions do no harm."""
        if event.type is EventType.BOOKMARK:
            return
        gone = event.type is EventType.DELETED
        if self.parser.shapes.index is not self._index:
            self._widen()  # decoding met a resource nobody had named before
        match event.object:
            case Task() as task:
                self._apply_task(task, gone=gone)
            case Node() as node:
                self._apply_node(node, gone=gone)
            case PodGroup() as group:
                self._apply_group(group, gone=gone)
            case Queue() as queue:
                self._apply_queue(queue, gone=gone)
            case Other() as other:
                self._apply_other(event.kind, other, gone=gone)

    def _apply_task(self, task: Task, *, gone: bool) -> None:
        key = (task.namespace, task.name)
        known = self._tasks.get(key)
        self._foreign.see(task, self._dirty, gone=gone)
        if gone:
            if known is not None and known.uid == task.uid:
                self._drop(known)
                self._unassume(task.uid)
            return
        if known is not None and known.uid == task.uid and _older(task, self._seen.get(task.uid, known)):
            return
        if known is not None and known.uid != task.uid:
            self._drop(known)
            self._unassume(known.uid)
            known = None
        if task.scheduler not in self._ours and not task.node:
            if known is not None:
                self._drop(known)
            return
        # Objects are decoded in groups: this one may have been before a resource was named that another brought.
        task = self._assigned(_widened(task, self.parser.shapes))
        effective = self._with_assumption(task)
        if known is not None:
            self._drop(known, changed=False)
        self._put(effective)

    def _assigned(self, task: Task) -> Task:
        """A pod of the default scheduler's that we serve is a gang of one, without a PodGroup."""
        foreign = task.scheduler not in self._ours
        if foreign and task.job:
            return msgspec.structs.replace(task, job="")
        if self._serve_default and task.scheduler == DEFAULT_SCHEDULER and not task.job:
            uid = f"{task.namespace}/{task.name}#pod"
            self._groups[uid] = PodGroup(
                task.namespace,
                task.name,
                task.uid,
                queue=self._default_queue,
                min_member=1,
                phase="Inqueue",
                created=task.created,
                implicit=True,
            )
            self._by_queue.setdefault(self._default_queue, {})[uid] = None
            return msgspec.structs.replace(task, job=uid)
        return task

    def _with_assumption(self, task: Task) -> Task:
        """What we decided stands until the server confirms it or the pod is finished."""
        assumed = self._assumed.get(task.uid)
        if assumed is None:
            return task
        settled = task.status in COMPLETED or task.status is Status.RELEASING
        if settled or (isinstance(assumed, Bind) and task.node):
            self._unassume(task.uid)
            return task
        self._seen[task.uid] = task
        return _assumed_task(task, assumed)

    def _put(self, task: Task) -> None:
        self._tasks[task.namespace, task.name] = task
        self._book.add(task)
        if task.job:
            self._members.setdefault(task.job, {})[task.uid] = task
            self._dirty[task.job] = None
        else:
            self.jobless_revision += 1
        self.revision += 1

    def _drop(self, task: Task, *, changed: bool = True) -> None:
        del self._tasks[task.namespace, task.name]
        self._book.discard(task)
        members = self._members.get(task.job)
        if members is not None:
            members.pop(task.uid, None)
            self._dirty[task.job] = None
            if not members:
                del self._members[task.job]
                if changed and task.job.endswith("#pod"):
                    self._remove_group(task.job)
        if changed:
            self.revision += 1
            self.jobless_revision += not task.job

    def _apply_node(self, node: Node, *, gone: bool) -> None:
        if self._node_selector and self._node_selector.isdisjoint(node.labels.items()):
            gone = True
        if gone:
            if node.name not in self._book:
                return
            self._book.remove(node.name)
        elif self._book.node(node.name) == node:
            return
        else:
            if _only_heartbeat(self._book.node(node.name), node):
                return
            self._book.put(node)
        self.revision += 1

    def _apply_group(self, group: PodGroup, *, gone: bool) -> None:
        uid = f"{group.namespace}/{group.name}"
        known = self._groups_seen.get(uid)
        if gone:
            if known is not None and known.object_uid == group.object_uid:
                self._remove_group(uid)
            return
        if known is not None and known.object_uid == group.object_uid and _older_version(group, known):
            return
        present = self._groups.get(uid)
        if present is not None and present.queue != group.queue:
            self._by_queue.get(present.queue, {}).pop(uid, None)
        self._groups[uid] = self._groups_seen[uid] = group
        self._by_queue.setdefault(group.queue, {})[uid] = None
        self._dirty[uid] = None
        self.revision += 1

    def _remove_group(self, uid: str) -> None:
        group = self._groups.pop(uid, None)
        self._groups_seen.pop(uid, None)
        if group is not None:
            self._by_queue.get(group.queue, {}).pop(uid, None)
        self._dirty[uid] = None
        self.revision += 1

    def _apply_queue(self, queue: Queue, *, gone: bool) -> None:
        known = self._queues.get(queue.name)
        if gone:
            self._queues.pop(queue.name, None)
        elif known == queue:
            return
        else:
            self._queues[queue.name] = queue
        if gone or known is None:
            self._dirty.update(self._by_queue.get(queue.name, {}))
        only_status = known is not None and not gone and _same_but_status(known, queue)
        self.revision += not only_status

    def _apply_other(self, kind: Kind, other: Other, *, gone: bool) -> None:
        facts = self._others[kind]
        key = (other.namespace, other.name)
        if not gone and facts.get(key) == other.fact:
            return
        if gone or other.fact is None:
            facts.pop(key, None)
        else:
            facts[key] = other.fact
        self._frozen.clear()
        if kind is kinds.PRIORITY_CLASS:
            self._priorities = {found.name: found.value for found in facts.values()}
            self._default_priority = next((found.value for found in facts.values() if found.default), 0)
            self._dirty.update(dict.fromkeys(self._groups))
        self.revision += 1

    # -- decisions ---------------------------------------------------------------------------------

    def assume(self, decisions: Iterable[Decision]) -> None:
        """Takes decisions for done until the server confirms them or `forget` is called."""
        for decision in decisions:
            match decision:
                case Bind() | Evict():
                    self._assume_task(decision)
                case SetPodGroup():
                    self._assume_group(decision)
                case SetPodCondition(_, namespace, name, reason, message):
                    task = self._tasks.get((namespace, name))
                    if task is not None:
                        self._replace(task, msgspec.structs.replace(task, condition=(reason, message)))
                case SetQueue(name, allocated):
                    queue = self._queues.get(name)
                    if queue is not None:
                        self._queues[name] = replace(queue, allocated_text=allocated)

    def forget(self, decision: Decision) -> None:
        """The server refused: what it last said counts again."""
        match decision:
            case Bind(uid, namespace, name) | Evict(uid, namespace, name):
                task, seen = self._tasks.get((namespace, name)), self._seen.get(uid)
                self._unassume(uid)
                if task is not None and seen is not None and task.uid == uid:
                    self._drop(task, changed=False)
                    self._put(seen)
            case SetPodGroup(uid):
                seen_group = self._groups_seen.get(uid)
                if seen_group is not None:
                    self._groups[uid] = seen_group
                    self._dirty[uid] = None
                    self.revision += 1
            case SetQueue(name):
                queue = self._queues.get(name)
                if queue is not None:
                    self._queues[name] = replace(queue, allocated_text={})
            case SetPodCondition(uid, namespace, name):
                task = self._tasks.get((namespace, name))
                if task is not None and task.uid == uid:
                    self._replace(task, msgspec.structs.replace(task, condition=("", "")))
            case _:
                pass

    def _assume_task(self, decision: Bind | Evict) -> None:
        task = self._tasks.get((decision.namespace, decision.name))
        if task is None or task.uid != decision.task:
            return
        self._seen.setdefault(task.uid, task)
        self._assumed[task.uid] = decision
        self._replace(task, _assumed_task(task, decision))

    def _replace(self, task: Task, other: Task) -> None:
        """Changes a task of our own accord: no cycle has to be run for it."""
        counted = self.revision, self.jobless_revision
        self._drop(task, changed=False)
        self._put(other)
        self.revision, self.jobless_revision = counted

    def _assume_group(self, decision: SetPodGroup) -> None:
        group = self._groups.get(decision.job)
        if group is None:
            return
        self._groups[decision.job] = replace(
            group,
            phase=group.phase if decision.phase is None else decision.phase,
            conditions=group.conditions if decision.conditions is None else decision.conditions,
            counts=group.counts if decision.counts is None else decision.counts,
        )
        self._dirty[decision.job] = None

    def _unassume(self, uid: str) -> None:
        self._assumed.pop(uid, None)
        self._seen.pop(uid, None)

    def has_node(self, name: str) -> bool:
        return name in self._book

    def free_on(self, node: str) -> Vector | None:
        """What is left on a node, decisions included; None when it is gone."""
        return self._book.room(node)

    @property
    def busy(self) -> bool:
        """Whether some job has something to decide."""
        return bool(self._active) or bool(self._dirty)

    @property
    def unconfirmed(self) -> int:
        """How many bindings and evictions the server has not confirmed yet."""
        return len(self._assumed)

    # -- snapshots ---------------------------------------------------------------------------------

    def snapshot(
        self,
        now: float = 0.0,
        seed: int = 0,
        memory: Mapping[str, Any] | None = None,
        usage: Mapping[str, Mapping[str, float]] | None = None,
    ) -> Snapshot:
        """A frozen view of everything; costs what has changed since the last one."""
        if self.parser.shapes.index is not self._index:
            self._widen()
        changed = frozenset(self._dirty)
        for uid in self._dirty:
            self._remake(uid)
        self._dirty.clear()
        view = self._book.view()
        return Snapshot(
            now=now,
            seed=seed,
            resources=self._index,
            nodes=view.nodes,
            row_of=view.row_of,
            allocatable=view.allocatable,
            used=view.used,
            releasing=view.releasing,
            nonzero_used=view.nonzero_used,
            tasks_on=view.tasks_on,
            jobs=self._jobs.copy(),
            active=tuple(self._active),
            queues=self._queues.copy(),
            totals={name: self._totals_of(name) for name in self._queues},
            total=view.allocatable.sum(axis=0),
            changed=changed,
            memory=memory or {},
            usage=usage or {},
            **self._other_facts(),
        )

    def _other_facts(self) -> dict[str, Any]:
        if not self._frozen:
            others = self._others
            quotas: dict[str, tuple[Any, ...]] = {}
            for (namespace, _), quota in others[kinds.RESOURCE_QUOTA].items():
                quotas[namespace] = (*quotas.get(namespace, ()), quota)
            self._frozen = {
                "namespaces": {found.name: found.labels for found in others[kinds.NAMESPACE].values()},
                "budgets": tuple(others[kinds.POD_DISRUPTION_BUDGET].values()),
                "quotas": quotas,
                "hypernodes": {found.name: found for found in others[kinds.HYPER_NODE].values()},
                "storage": Storage(
                    dict(others[kinds.PERSISTENT_VOLUME_CLAIM]),
                    {found.name: found for found in others[kinds.PERSISTENT_VOLUME].values()},
                    {found.name: found for found in others[kinds.STORAGE_CLASS].values()},
                    {found.name: found for found in others[kinds.CSI_NODE].values()},
                    self._ignored_provisioners,
                ),
            }
        return self._frozen

    def _remake(self, uid: str) -> None:
        """Makes a job afresh and corrects its queue's totals."""
        before = self._jobs.pop(uid, None)
        self._active.pop(uid, None)
        group = self._groups.get(uid) if uid in self._members or uid not in self._foreign else None
        job = None
        if group is not None and group.queue in self._queues:
            tasks = dict(self._members.get(uid, NO_MEMBERS))
            job = self._jobs[uid] = job_of(uid, group, tasks, self._priority(group, tasks), self._index)
            if job.pending_phase or job.count(Status.PENDING) or group.malformed:
                self._active[uid] = None
        for sign, found in ((-1, before), (1, job)):
            if found is not None:
                self._count_job(found, sign)

    def _count_job(self, job: Job, sign: int) -> None:
        sums = self._sums.get(job.queue)
        if sums is None:
            sums = self._sums[job.queue] = [self._index.zeros() for _ in range(4)]
        for total, amount in zip(sums, (job.allocated, job.requested, job.inqueue, job.elastic), strict=True):
            if sign > 0:
                total += amount
            else:
                total -= amount
        self._job_counts[job.queue] = self._job_counts.get(job.queue, 0) + sign
        self._totals.pop(job.queue, None)

    def _totals_of(self, queue: str) -> QueueTotals:
        """What a queue's jobs add up to, frozen; made afresh when one of them changed."""
        found = self._totals.get(queue)
        if found is None:
            sums = self._sums.get(queue) or [self._index.zeros() for _ in range(4)]
            frozen = [total.copy() for total in sums]
            found = QueueTotals(frozen[0], frozen[1], frozen[2], frozen[3], self._job_counts.get(queue, 0))
            self._totals[queue] = found
        return found

    def _priority(self, group: PodGroup, tasks: Mapping[str, Task]) -> int:
        if group.implicit:
            return max((task.priority for task in tasks.values()), default=0)
        return self._priorities.get(group.priority_class, self._default_priority)

    def _widen(self) -> None:
        """A new resource name appeared: everything that has columns is made afresh, wider."""
        shapes = self.parser.shapes
        self._index = shapes.index
        wide = {key: _widened(task, shapes) for key, task in self._tasks.items()}
        self._tasks = wide
        self._seen = {uid: _widened(task, shapes) for uid, task in self._seen.items()}
        self._members = {}
        on_node: dict[str, dict[str, Task]] = {name: {} for name in self._book.tasks()}
        for task in wide.values():
            if task.job:
                self._members.setdefault(task.job, {})[task.uid] = task
            if task.uid in self._book.tasks().get(task.node, {}):
                on_node[task.node][task.uid] = task
        self._book.widen(self._index, on_node)
        self._dirty.update(dict.fromkeys(self._groups))
        for counted in (self._sums, self._job_counts, self._totals, self._jobs):
            counted.clear()


def _widened(task: Task, shapes: Any) -> Task:
    shape = shapes.widened(task.shape)
    return task if shape is task.shape else msgspec.structs.replace(task, shape=shape)


def _assumed_task(task: Task, decision: Bind | Evict) -> Task:
    if isinstance(decision, Bind):
        return msgspec.structs.replace(task, status=Status.BINDING, node=decision.node)
    return msgspec.structs.replace(task, status=Status.RELEASING)


def _older(task: Task, known: Task) -> bool:
    """Whether an event says less than is known; versions of one server are ordered."""
    new, old = task.resource_version, known.resource_version
    return new.isdigit() and old.isdigit() and int(new) < int(old)


def _older_version(group: PodGroup, known: PodGroup) -> bool:
    new, old = group.resource_version, known.resource_version
    return new == old if not (new.isdigit() and old.isdigit()) else int(new) <= int(old)


def _same_but_status(known: Queue, queue: Queue) -> bool:
    """Whether only what we ourselves write changed."""
    return (
        replace(known, allocated_text=queue.allocated_text, resource_version=queue.resource_version) == queue
    )


def _only_heartbeat(known: Node | None, node: Node) -> bool:
    """Whether nothing changed but the version: a kubelet saying that it lives."""
    return known is not None and replace(known, resource_version=node.resource_version) == node
