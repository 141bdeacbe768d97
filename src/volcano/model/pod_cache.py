"""Pod cache: pods as the server reports them, with the scheduler's unconfirmed decisions applied."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from volcano.base.copying import copy_of
from volcano.model.decisions import Bind, Evict
from volcano.model.job_cache import ChangeLog, JobCache
from volcano.model.node_cache import NodeCache
from volcano.model.pod_shape import ASSIGNABLE, ShapeCache
from volcano.model.status import COMPLETED, Status
from volcano.model.task import Task

DEFAULT_SCHEDULER = "default-scheduler"


class PodCache:
    """Tasks by name and by job. A task with an assumed decision shows it until the server confirms or rejects it."""

    def __init__(
        self,
        scheduler_names: Collection[str],
        nodes: NodeCache,
        jobs: JobCache,
        shapes: ShapeCache,
        changes: ChangeLog,
        *,
        serve_default: bool,
    ) -> None:
        """Pods of other schedulers than these count on their nodes and belong to no job."""
        self._scheduler_names = scheduler_names
        self._serve_default = serve_default
        self._nodes = nodes
        self._jobs = jobs
        self._shapes = shapes
        self._changes = changes
        self._foreign = ForeignPods(scheduler_names, changes)
        self._tasks: dict[tuple[str, str], Task] = {}  # with assumed decisions
        self._observed: dict[str, Task] = {}  # as the server last reported, where a decision is assumed
        self._assumed: dict[str, Bind | Evict] = {}
        self.by_job: dict[str, dict[str, Task]] = {}

    def copy(self, copies: dict[int, Any]) -> "PodCache":
        """A copy that refers to the copies of the other caches."""
        copy_of(self._foreign, copies)
        return copy_of(self, copies)

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def unconfirmed(self) -> int:
        """Number of bindings and evictions that the server has not confirmed yet."""
        return len(self._assumed)

    def is_foreign(self, job: str) -> bool:
        """Whether another scheduler places all pods of a PodGroup."""
        return job in self._foreign and job not in self.by_job

    # -- events ------------------------------------------------------------------------------------

    def apply(self, task: Task, *, deleted: bool) -> None:
        """Applies one pod event; events of older versions are ignored."""
        key = (task.namespace, task.name)
        known = self._tasks.get(key)
        self._foreign.apply(task, deleted=deleted)
        if deleted:
            if known is not None and known.uid == task.uid:
                self._remove(known)
                self._confirm(task.uid)
            return
        if (
            known is not None
            and known.uid == task.uid
            and _is_older(task, self._observed.get(task.uid, known))
        ):
            return
        if known is not None and known.uid != task.uid:
            self._remove(known)
            self._confirm(known.uid)
            known = None
        if task.scheduler not in self._scheduler_names and not task.node:
            if known is not None:
                self._remove(known)
            return
        # Objects are decoded in batches: this one may be from before another one brought a new resource.
        task = self._with_job(_widened(task, self._shapes))
        effective = self._with_decision(task)
        if known is not None:
            self._remove(known, changed=False)
        self._add(effective)

    def _with_job(self, task: Task) -> Task:
        """Assigns a pod of Kubernetes' default scheduler, if served, to a gang of its own, without a PodGroup."""
        if task.scheduler not in self._scheduler_names:
            return msgspec.structs.replace(task, job="") if task.job else task
        if self._serve_default and task.scheduler == DEFAULT_SCHEDULER and not task.job:
            return msgspec.structs.replace(task, job=self._jobs.add_implicit_group(task))
        return task

    def _with_decision(self, task: Task) -> Task:
        """Applies the assumed decision until the server confirms it or the pod ends."""
        assumed = self._assumed.get(task.uid)
        if assumed is None:
            return task
        ended = task.status in COMPLETED or task.status is Status.RELEASING
        if ended or (isinstance(assumed, Bind) and task.node):
            self._confirm(task.uid)
            return task
        self._observed[task.uid] = task
        return self._decided(task, assumed)

    def _decided(self, task: Task, decision: Bind | Evict) -> Task:
        if isinstance(decision, Evict):
            return msgspec.structs.replace(task, status=Status.RELEASING)
        bound = msgspec.structs.replace(task, status=Status.BINDING, node=decision.node)
        if not decision.annotations:
            return bound
        annotations = {**task.annotations, **decision.annotations}
        shape, index = task.shape, self._shapes.index
        # A new resource gets its column when the next event is applied.
        if len(shape.request) == index.width and index.column.keys() >= ASSIGNABLE:
            shape = self._shapes.with_assignment(shape, annotations)
        return msgspec.structs.replace(bound, annotations=annotations, shape=shape)

    def _confirm(self, uid: str) -> None:
        self._assumed.pop(uid, None)
        self._observed.pop(uid, None)

    # -- decisions ---------------------------------------------------------------------------------

    def assume(self, decision: Bind | Evict) -> None:
        """Shows a binding or an eviction as done."""
        task = self._tasks.get((decision.namespace, decision.name))
        if task is None or task.uid != decision.task:
            return
        self._observed.setdefault(task.uid, task)
        self._assumed[task.uid] = decision
        self._replace(task, self._decided(task, decision))

    def forget(self, decision: Bind | Evict) -> None:
        """Shows the pod as the server last reported it."""
        uid = decision.task
        task, observed = self._tasks.get((decision.namespace, decision.name)), self._observed.get(uid)
        self._confirm(uid)
        if task is not None and observed is not None and task.uid == uid:
            self._remove(task, changed=False)
            self._add(observed)

    def set_condition(self, namespace: str, name: str, reason: str, message: str, uid: str = "") -> None:
        """Sets reason and message of PodScheduled=False; with a uid, only on the pod that has it."""
        task = self._tasks.get((namespace, name))
        if task is not None and uid in ("", task.uid):
            self._replace(task, msgspec.structs.replace(task, condition=(reason, message)))

    # -- tasks -------------------------------------------------------------------------------------

    def _add(self, task: Task) -> None:
        changes = self._changes
        self._tasks[task.namespace, task.name] = task
        self._nodes.add(task)
        if task.job:
            self.by_job.setdefault(task.job, {})[task.uid] = task
            changes.jobs[task.job] = None
        else:
            changes.jobless_revision += 1
        changes.revision += 1

    def _remove(self, task: Task, *, changed: bool = True) -> None:
        changes = self._changes
        del self._tasks[task.namespace, task.name]
        self._nodes.discard(task)
        members = self.by_job.get(task.job)
        if members is not None:
            members.pop(task.uid, None)
            changes.jobs[task.job] = None
            if not members:
                del self.by_job[task.job]
                if changed:
                    self._jobs.remove_implicit_group(task.job)
        if changed:
            changes.revision += 1
            changes.jobless_revision += not task.job

    def _replace(self, task: Task, other: Task) -> None:
        """Changes a task because of a decision: no further cycle is needed for it."""
        changes = self._changes
        counted = changes.revision, changes.jobless_revision
        self._remove(task, changed=False)
        self._add(other)
        changes.revision, changes.jobless_revision = counted

    def widen(self) -> Mapping[str, Mapping[str, Task]]:
        """Rebuilds all tasks in the columns of a wider resource index; returns those on nodes, by node."""
        self._tasks = {key: _widened(task, self._shapes) for key, task in self._tasks.items()}
        self._observed = {uid: _widened(task, self._shapes) for uid, task in self._observed.items()}
        self.by_job = {}
        before = self._nodes.tasks()
        on_node: dict[str, dict[str, Task]] = {name: {} for name in before}
        for task in self._tasks.values():
            if task.job:
                self.by_job.setdefault(task.job, {})[task.uid] = task
            if task.uid in before.get(task.node, {}):
                on_node[task.node][task.uid] = task
        return on_node


class ForeignPods:
    """Pods of other schedulers by PodGroup: their scheduler writes the status of the group, and this one must not."""

    def __init__(self, scheduler_names: Collection[str], changes: ChangeLog) -> None:
        self._scheduler_names = scheduler_names
        self._changes = changes
        self._pods: dict[str, dict[str, None]] = {}

    def __contains__(self, job: str) -> bool:
        return job in self._pods

    def apply(self, task: Task, *, deleted: bool) -> None:
        """Applies one pod; a PodGroup that gets its first or loses its last foreign pod counts as changed."""
        if not task.job or task.scheduler in self._scheduler_names:
            return
        before = task.job in self._pods
        pods = self._pods.setdefault(task.job, {})
        if deleted:
            pods.pop(task.uid, None)
        else:
            pods[task.uid] = None
        if not pods:
            del self._pods[task.job]
        if before is not bool(pods):
            self._changes.jobs[task.job] = None


def _widened(task: Task, shapes: ShapeCache) -> Task:
    shape = shapes.widened(task.shape)
    return task if shape is task.shape else msgspec.structs.replace(task, shape=shape)


def _is_older(task: Task, known: Task) -> bool:
    """Whether an event is older than the known state; resource versions of one server are ordered."""
    new, old = task.resource_version, known.resource_version
    return new.isdigit() and old.isdigit() and int(new) < int(old)
