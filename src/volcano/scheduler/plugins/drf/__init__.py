"""drf: dominant resource fairness; jobs with the smallest dominant share go first."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from operator import mul

import numpy as np

from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.resources import STEP, Vector
from volcano.model.task import Task
from volcano.scheduler.engine.answers import ABSTAIN, Abstain, EvictionContext
from volcano.scheduler.engine.arguments import Arguments
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.engine.plugin_metrics import MetricSample
from volcano.scheduler.plugins.drf.hierarchy import Hierarchy, parse_path

HIERARCHY = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS = "volcano.sh/hierarchy-weights"
SAME_SHARE = 1e-6
# Hooks that are used in hierarchical mode only.
HIERARCHY_HOOKS = frozenset(("queue_order", "reclaimable", "on_allocate", "on_deallocate"))


class Drf(Plugin):
    """A job's dominant share is the largest fraction it holds of any resource of the cluster.

    With the switch `enableHierarchy`, queues are ordered by the shares of a tree as well, given by
    annotations.
    """

    def open(self, arguments: Arguments) -> None:
        self.hierarchical = arguments.hierarchy
        if not self.hierarchical:
            self.unused_hooks = HIERARCHY_HOOKS
        total = self.snapshot.total
        # Reciprocals of the cluster's resources; 0 for resources that it does not have.
        reciprocals = np.divide(1.0, total, out=np.zeros_like(total), where=total >= STEP)
        self._reciprocals: list[float] = reciprocals.tolist()

    def _dominant_share(self, allocated: Vector) -> float:
        # Few numbers: faster than arrays.
        largest: float = max(map(mul, allocated.tolist(), self._reciprocals))
        return largest

    def job_order(self, job: Job) -> float:
        return self._dominant_share(self.ledger.allocated(job))

    def preemptable(self, context: EvictionContext, candidates: Sequence[Task]) -> Sequence[Task]:
        """Candidates whose job still holds, without them, at least what the preemptor would hold with its task."""
        preemptor = self._dominant_share(self.ledger.allocated(context.job) + context.task.request)
        held: dict[str, Vector] = {}
        victims = []
        for task in candidates:
            job = self.snapshot.jobs.get(task.job)
            if job is None:
                continue
            left = held.get(job.uid, self.ledger.allocated(job)) - task.request
            held[job.uid] = left
            if self._dominant_share(left) >= preemptor - SAME_SHARE:
                victims.append(task)
        return victims

    def measure(self) -> Iterator[MetricSample]:
        """Returns the shares of the jobs that changed in this cycle."""
        for uid in self.ledger.touched_jobs:
            job = self.snapshot.jobs.get(uid)
            if job is not None:
                yield MetricSample(
                    "job_share", (job.namespace, job.name), self._dominant_share(self.ledger.allocated(job))
                )

    # -- the hierarchy ---------------------------------------------------------------------------------------

    @cached_property
    def hierarchy(self) -> Hierarchy:
        """The tree of queues and jobs; built on first use."""
        tree = Hierarchy(self.snapshot.total)
        for queue in self.snapshot.queues.values():
            path, weights = parse_path(
                queue.name,
                queue.weight,
                queue.annotations.get(HIERARCHY, ""),
                queue.annotations.get(HIERARCHY_WEIGHTS, ""),
            )
            tree.add_queue(queue.name, path, weights)
        for job in self.snapshot.jobs.values():
            tree.add_job(job.queue, job.uid, job.total, self.ledger.allocated(job))
        tree.recompute()
        return tree

    def queue_order(self, queue: Queue) -> tuple[tuple[bool, float], ...]:
        return self.hierarchy.key(queue.name) if self.hierarchical else ()

    def reclaimable(self, context: EvictionContext, candidates: Sequence[Task]) -> Sequence[Task] | Abstain:
        """Candidates whose queue, without them, would be ordered after the preemptor's with its task."""
        if not self.hierarchical:
            return ABSTAIN
        tree = self.hierarchy
        preemptor = tree.allocated(context.job.uid)
        tree.update(context.job.uid, preemptor + context.task.request)
        victims = []
        for task in candidates:
            job = self.snapshot.jobs[task.job]
            held = tree.allocated(job.uid)
            tree.update(job.uid, held - task.request)
            if tree.key(context.job.queue) < tree.key(job.queue):
                victims.append(task)
            tree.update(job.uid, held)
        tree.update(context.job.uid, preemptor)
        return victims

    def on_allocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self._update_hierarchy(tasks[0])

    def on_deallocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self._update_hierarchy(tasks[0])

    def _update_hierarchy(self, task: Task) -> None:
        """Updates the task's job in the tree from the ledger; registers the undo."""
        if not self.hierarchical or "hierarchy" not in self.__dict__:
            return
        job = self.snapshot.jobs.get(task.job)
        if job is None:
            return
        tree, before = self.hierarchy, self.hierarchy.allocated(job.uid)
        tree.update(job.uid, self.ledger.allocated(job))
        self.ledger.record_undo(lambda: tree.update(job.uid, before))
