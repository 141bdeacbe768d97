"""task-topology: places tasks of a job with affinity on the same node and tasks with anti-affinity apart."""

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from volcano.model.job import Job
from volcano.model.resources import Vector
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.answers import MAX_SCORE
from volcano.scheduler.engine.arguments import Argument, Arguments
from volcano.scheduler.engine.node_table import NodeTable
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.plugins.task_topology.buckets import (
    Bucket,
    BucketTask,
    TopologyRules,
    construct_buckets,
    parse_rules,
)

AFFINITY = "volcano.sh/task-topology-affinity"
ANTI_AFFINITY = "volcano.sh/task-topology-anti-affinity"
TASK_ORDER = "volcano.sh/task-topology-task-order"


class JobBuckets:
    """The buckets of one job, and the roles placed in this cycle."""

    def __init__(self, rules: TopologyRules, buckets: list[Bucket]) -> None:
        self.rules = rules
        self.buckets = buckets
        self.bucket_of = {uid: bucket for bucket in buckets for uid in bucket.tasks}
        self.largest = max((bucket.size for bucket in buckets), default=1)
        self.placed: dict[int, Counter[str]] = {}  # row → roles placed there in this cycle

    def bind(self, task: Task, row: int, node: str, by: int) -> None:
        """Accounts for a placement, or with `by` -1 for its undo."""
        self.placed.setdefault(row, Counter())[task.role] += by
        bucket = self.bucket_of.get(task.uid)
        if bucket is not None:
            (bucket.bind if by > 0 else bucket.unbind)(task.uid, node)


class TaskTopology(Plugin):
    """The rules are annotations of the PodGroup; those with unknown or repeated task names have no effect."""

    arguments: ClassVar = (Argument("task-topology.weight"),)

    def open(self, arguments: Arguments) -> None:
        self.weight = arguments.integer("task-topology.weight", 1)
        self._job_buckets: dict[str, JobBuckets | None] = {}

    def _buckets_of(self, uid: str) -> JobBuckets | None:
        """Returns the buckets of a job; None when it has no rules."""
        if uid not in self._job_buckets:
            job = self.snapshot.jobs.get(uid)
            self._job_buckets[uid] = None if job is None else self._construct(job)
        return self._job_buckets[uid]

    def _construct(self, job: Job) -> JobBuckets | None:
        annotations = job.group.annotations
        rules = parse_rules(
            annotations.get(AFFINITY, ""),
            annotations.get(ANTI_AFFINITY, ""),
            annotations.get(TASK_ORDER, ""),
            job.roles.keys(),
        )
        if rules is None or not job.count(Status.PENDING):
            return None
        tasks = [
            BucketTask(task.uid, task.name, task.role, task.node, task.request)
            for task in job.tasks.values()
            if task.node or task.status is Status.PENDING
        ]
        return JobBuckets(rules, construct_buckets(tasks, rules, self.resources.width))

    def task_order(self, task: Task) -> tuple[object, ...]:
        """The largest bucket first, bucket by bucket."""
        found = self._buckets_of(task.job)
        bucket = None if found is None else found.bucket_of.get(task.uid)
        if found is None or bucket is None:
            return (1,)
        return (0, -bucket.size, bucket.index, found.rules.rank(task.role))

    def score_nodes_together(self, task: Task, nodes: NodeTable) -> Vector | None:
        """Scores a node by the tasks of the bucket that are there or fit there, less those to be kept apart."""
        found = self._buckets_of(task.job)
        bucket = None if found is None else found.bucket_of.get(task.uid)
        if found is None or bucket is None:
            return None
        free = nodes.idle + nodes.releasing
        request = bucket.growing_request(task.uid)
        # The scarcest resource limits how many tasks of the bucket fit. The requests are cumulative, hence
        # sorted.
        fitting = np.full(len(nodes), len(request), dtype=np.float64)
        for column in np.flatnonzero(request[-1] > 0):
            fitting = np.minimum(
                fitting, np.searchsorted(request[:, column], free[:, column] + 0.1, side="left")
            )
        there = np.array([bucket.placed.get(name, 0) for name in nodes.names], dtype=np.float64)
        avoided = [
            found.rules.anti_affinity_penalty(task.role, found.placed[row]) if row in found.placed else 0
            for row in nodes.index.tolist()
        ]
        score = np.where(fitting > 0, there + np.array(avoided) + fitting, 0.0)
        return score * (self.weight * MAX_SCORE / found.largest)

    def on_allocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        found = self._buckets_of(tasks[0].job)
        if found is not None:
            self._bind(found, tasks, rows, 1)
            self.ledger.record_undo(lambda: self._bind(found, tasks, rows, -1))

    def _bind(self, found: JobBuckets, tasks: Sequence[Task], rows: Sequence[int], by: int) -> None:
        for task, row in zip(tasks, rows, strict=True):
            found.bind(task, row, self.nodes.name(row), by)
