"""Job cache: PodGroups, queues, and the jobs and queue totals built from them; only changed jobs are built again."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from volcano.model.decisions import SetPodGroup, SetQueue
from volcano.model.job import Job, Orphans, PodGroup
from volcano.model.job_builder import build_job
from volcano.model.queue import Queue, QueueTotals
from volcano.model.resources import ResourceIndex, Vector
from volcano.model.status import ON_NODE, Status
from volcano.model.task import Task

NO_TASKS: Mapping[str, Task] = {}
NO_POD_GROUP, NO_QUEUE = "PodGroup {} does not exist", "queue {} does not exist"
IMPLICIT = "#pod"  # suffix of the uid of a job that is one pod without a PodGroup


class ChangeLog:
    """Revision counters and the jobs changed since the last snapshot, shared by the parts of the cluster cache."""

    __slots__ = ("jobless_revision", "jobs", "revision")

    def __init__(self) -> None:
        self.revision = 0  # counts changes that could change a decision
        # Those of them that concern pods without a job: they matter only to jobs that wait for resources.
        self.jobless_revision = 0
        self.jobs: dict[str, None] = {}  # uids of the jobs to be built again


class JobMembers(Protocol):
    """Pods by job, as the pod cache has them."""

    @property
    def by_job(self) -> Mapping[str, Mapping[str, Task]]: ...

    def is_foreign(self, job: str) -> bool: ...


class JobCache:
    """PodGroups and queues with assumed decisions, and the jobs of existing queues."""

    def __init__(self, default_queue: str, index: ResourceIndex, changes: ChangeLog) -> None:
        self._default_queue = default_queue
        self._index = index
        self._changes = changes
        self._groups: dict[str, PodGroup] = {}  # with assumed decisions
        self._observed: dict[str, PodGroup] = {}  # as the server last reported
        self._by_queue: dict[str, dict[str, None]] = {}
        self.queues: dict[str, Queue] = {}
        self.jobs: dict[str, Job] = {}
        self.active: dict[str, None] = {}  # jobs with something to decide
        self.orphans: dict[str, Orphans] = {}  # by the uid of the job
        self._sums: dict[str, list[Vector]] = {}  # by queue: allocated, requested, inqueue, elastic
        self._job_counts: dict[str, int] = {}
        self._totals: dict[str, QueueTotals] = {}  # the same, frozen
        self._orphaned: dict[
            str, Vector
        ] = {}  # requests of pods on nodes whose PodGroup or queue does not exist

    # -- PodGroups ---------------------------------------------------------------------------------

    def apply_group(self, group: PodGroup, *, deleted: bool) -> None:
        """Applies one PodGroup event; events of older versions are ignored."""
        uid = f"{group.namespace}/{group.name}"
        known = self._observed.get(uid)
        if deleted:
            if known is not None and known.object_uid == group.object_uid:
                self._remove_group(uid)
            return
        if known is not None and known.object_uid == group.object_uid and _is_not_newer(group, known):
            return
        present = self._groups.get(uid)
        if present is not None and present.queue != group.queue:
            self._by_queue.get(present.queue, {}).pop(uid, None)
        self._groups[uid] = self._observed[uid] = group
        self._by_queue.setdefault(group.queue, {})[uid] = None
        self._changes.jobs[uid] = None
        self._changes.revision += 1

    def _remove_group(self, uid: str) -> None:
        group = self._groups.pop(uid, None)
        self._observed.pop(uid, None)
        if group is not None:
            self._by_queue.get(group.queue, {}).pop(uid, None)
        self._changes.jobs[uid] = None
        self._changes.revision += 1

    def add_implicit_group(self, task: Task) -> str:
        """Adds a gang of one for a pod without a PodGroup; returns its uid."""
        uid = f"{task.namespace}/{task.name}{IMPLICIT}"
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
        return uid

    def remove_implicit_group(self, uid: str) -> None:
        """Removes the gang of a deleted pod; other groups stay until they are deleted themselves."""
        if uid.endswith(IMPLICIT):
            self._remove_group(uid)

    def assume_group(self, decision: SetPodGroup) -> None:
        group = self._groups.get(decision.job)
        if group is None:
            return
        self._groups[decision.job] = replace(
            group,
            phase=group.phase if decision.phase is None else decision.phase,
            conditions=group.conditions if decision.conditions is None else decision.conditions,
            counts=group.counts if decision.counts is None else decision.counts,
            annotations={**group.annotations, **(decision.annotations or {})},
        )
        self._changes.jobs[decision.job] = None

    def forget_group(self, uid: str) -> None:
        observed = self._observed.get(uid)
        if observed is not None:
            self._groups[uid] = observed
            self._changes.jobs[uid] = None
            self._changes.revision += 1

    def mark_all_changed(self) -> None:
        """Has all jobs built again, after a change that concerns them all."""
        self._changes.jobs.update(dict.fromkeys(self._groups))

    # -- queues ------------------------------------------------------------------------------------

    def apply_queue(self, queue: Queue, *, deleted: bool) -> None:
        """Applies one queue event; jobs exist only while their queue does."""
        known = self.queues.get(queue.name)
        if deleted:
            self.queues.pop(queue.name, None)
        elif known == queue:
            return
        else:
            self.queues[queue.name] = queue
        if deleted or known is None:
            self._changes.jobs.update(self._by_queue.get(queue.name, {}))
        only_status = known is not None and not deleted and _differs_in_status_only(known, queue)
        self._changes.revision += not only_status

    def assume_queue(self, decision: SetQueue) -> None:
        self._set_allocated(decision.queue, decision.allocated)

    def forget_queue(self, name: str) -> None:
        self._set_allocated(name, {})

    def _set_allocated(self, name: str, allocated: Mapping[str, str]) -> None:
        queue = self.queues.get(name)
        if queue is not None:
            self.queues[name] = replace(queue, allocated_text=allocated)

    # -- jobs --------------------------------------------------------------------------------------

    def rebuild(self, pods: JobMembers, priorities: "PriorityClasses") -> frozenset[str]:
        """Builds the jobs that changed since the last call again; returns their uids."""
        changed = frozenset(self._changes.jobs)
        for uid in self._changes.jobs:
            self._rebuild_job(uid, pods, priorities)
        self._changes.jobs.clear()
        return changed

    def _rebuild_job(self, uid: str, pods: JobMembers, priorities: "PriorityClasses") -> None:
        before = self.jobs.pop(uid, None)
        self.active.pop(uid, None)
        self.orphans.pop(uid, None)
        self._orphaned.pop(uid, None)
        foreign = pods.is_foreign(uid)
        group = None if foreign else self._groups.get(uid)
        job = None
        if group is not None and group.queue in self.queues:
            tasks = dict(pods.by_job.get(uid, NO_TASKS))
            job = self.jobs[uid] = build_job(
                uid, group, tasks, _priority(group, tasks, priorities), self._index
            )
            if job.pending_phase or job.count(Status.PENDING) or group.malformed:
                self.active[uid] = None
        else:
            if not foreign:
                self._note_orphans(uid, group, pods.by_job.get(uid, NO_TASKS))
            if uid in pods.by_job:
                on_nodes = [task.request for task in pods.by_job[uid].values() if task.status in ON_NODE]
                self._orphaned[uid] = sum(on_nodes, start=self._index.zeros())
        if before is not None:
            self._add_to_totals(before, -1)
        if job is not None:
            self._add_to_totals(job, 1)

    def _note_orphans(self, uid: str, group: PodGroup | None, tasks: Mapping[str, Task]) -> None:
        pending = tuple(task for task in tasks.values() if task.status is Status.PENDING)
        if group is not None:
            message = NO_QUEUE.format(group.queue)
            self.orphans[uid] = Orphans(message, pending, None if group.implicit else group)
        elif pending:
            self.orphans[uid] = Orphans(NO_POD_GROUP.format(uid), pending)

    def waiting(self, pods: JobMembers) -> bool:
        """Whether a job is not admitted or has pending pods, decisions since the last snapshot included."""
        for uid in self.active:
            group = self._groups.get(uid)
            if uid not in self._changes.jobs or (group is not None and group.phase in ("", "Pending")):
                return True
            if any(task.status is Status.PENDING for task in pods.by_job.get(uid, NO_TASKS).values()):
                return True
        return False

    def _add_to_totals(self, job: Job, sign: int) -> None:
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

    def orphaned(self) -> Vector:
        """Requests of the pods on nodes that belong to no queue, because their PodGroup or queue does not exist."""
        return sum(self._orphaned.values(), start=self._index.zeros())

    def totals(self) -> dict[str, QueueTotals]:
        """Totals of the jobs of each queue, frozen."""
        return {name: self._totals_of(name) for name in self.queues}

    def _totals_of(self, queue: str) -> QueueTotals:
        found = self._totals.get(queue)
        if found is None:
            sums = self._sums.get(queue) or [self._index.zeros() for _ in range(4)]
            frozen = [total.copy() for total in sums]
            found = QueueTotals(frozen[0], frozen[1], frozen[2], frozen[3], self._job_counts.get(queue, 0))
            self._totals[queue] = found
        return found

    def widen(self, index: ResourceIndex) -> None:
        """Has all jobs and totals built again in the columns of a wider resource index."""
        self._index = index
        self.mark_all_changed()
        self._changes.jobs.update(dict.fromkeys(self._orphaned))
        for built in (self._sums, self._job_counts, self._totals, self.jobs, self._orphaned):
            built.clear()


class PriorityClasses(Protocol):
    """Values of priority classes by name."""

    def priority(self, priority_class: str) -> int: ...


def _priority(group: PodGroup, tasks: Mapping[str, Task], priorities: PriorityClasses) -> int:
    if group.implicit:
        return max((task.priority for task in tasks.values()), default=0)
    return priorities.priority(group.priority_class)


def _is_not_newer(group: PodGroup, known: PodGroup) -> bool:
    new, old = group.resource_version, known.resource_version
    return new == old if not (new.isdigit() and old.isdigit()) else int(new) <= int(old)


def _differs_in_status_only(known: Queue, queue: Queue) -> bool:
    """Whether only the fields that the scheduler writes changed."""
    return (
        replace(known, allocated_text=queue.allocated_text, resource_version=queue.resource_version) == queue
    )
