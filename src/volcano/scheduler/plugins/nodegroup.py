"""nodegroup: restricts queues to groups of nodes."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar

import msgspec
import numpy as np

from volcano.kube.api.names import ROOT_QUEUE
from volcano.model import resources as amounts
from volcano.model.queue import GroupAffinity, Queue
from volcano.model.resources import STEP, Mask, Vector
from volcano.model.shares.tree import QueueTree, build_tree
from volcano.model.status import HOLDING
from volcano.model.task import Task
from volcano.scheduler.engine.answers import RejectedNodes
from volcano.scheduler.engine.arguments import Argument, Arguments, Type
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.node_table import NodeTable
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.plugins.predicates.labels import Column
from volcano.scheduler.queue_shares.queue_usage import add

GROUP_LABEL = "volcano.sh/nodegroup-name"
LIMITS = "volcano.sh/nodegroup-resource-limits"
BAD_LIMITS = "node group resource limit annotation invalid"
NO_LABEL = "node group label not found"
NO_AFFINITY = "node group affinity not specified"
OUTSIDE = "node does not satisfy the node group affinity"
EXCEEDED = "node group resource limit exceeded"
REQUIRED_SCORE, PREFERRED_SCORE, AVOIDED_SCORE = 100.0, 50.0, -1.0
MISMATCH = Code.NODE_GROUP_MISMATCH
NO_GROUPS = GroupAffinity()


class NodeGroup(Plugin):
    """A queue's affinity names groups; a node's group is a label. Limits cap a queue's usage of a group."""

    arguments: ClassVar = (
        Argument("strict", Type.BOOLEAN),
        Argument("enablePreferredOrder", Type.BOOLEAN),
    )

    def open(self, arguments: Arguments) -> None:
        self.strict = arguments.boolean("strict", True)
        self.preferred_order = arguments.boolean("enablePreferredOrder", False)
        self.hierarchical = arguments.hierarchy
        self._parsed_limits: dict[str, Mapping[str, Vector] | None] = {}
        self.changes = self.ledger.totals()  # changes of this cycle, by queue and group
        self._held_before: dict[str, dict[str, Vector]] = {}

    @cached_property
    def groups(self) -> Column:
        """The group of each node."""
        return Column([node.labels.get(GROUP_LABEL) for node in self.snapshot.nodes])

    @cached_property
    def tree(self) -> QueueTree:
        return build_tree(self.snapshot.queues)

    def _affinity(self, queue: Queue) -> GroupAffinity | None:
        """Returns the queue's affinity; in hierarchical mode the nearest ancestor's, up to the root, if it has none."""
        if queue.affinity is not None or not self.hierarchical:
            return queue.affinity
        path = [name for name in (*self.tree.path(queue.name), ROOT_QUEUE) if name in self.snapshot.queues]
        return next(
            (found for name in path if (found := self.snapshot.queues[name].affinity) is not None), None
        )

    def _queue(self, task: Task) -> Queue | None:
        job = self.snapshot.jobs.get(task.job)
        return None if job is None else self.snapshot.queues.get(job.queue)

    def _member(self, names: Sequence[str], nodes: NodeTable) -> Mask:
        """Returns the nodes in one of these groups."""
        codes = [self.groups.code_of[name] for name in names if name in self.groups.code_of]
        return np.isin(self.groups.codes[nodes.index], codes)

    # -- filters ---------------------------------------------------------------------------------------------

    def reject_nodes(self, task: Task, nodes: NodeTable) -> Iterator[RejectedNodes]:
        queue = self._queue(task)
        if queue is None:
            return
        if self._limits(queue) is None:
            everywhere = np.ones(len(nodes), dtype=np.bool_)
            yield RejectedNodes(everywhere, BAD_LIMITS, resolvable=False, code=MISMATCH)
            return
        affinity = self._affinity(queue)
        labelled = self.groups.codes[nodes.index] >= 0
        if affinity is None or affinity == NO_GROUPS:
            if self.strict:
                yield RejectedNodes(~labelled, NO_LABEL, resolvable=False, code=MISMATCH)
            yield RejectedNodes(labelled, NO_AFFINITY, resolvable=False, code=MISMATCH)
            return
        yield RejectedNodes(~labelled, NO_LABEL, resolvable=False, code=MISMATCH)
        tolerated = self._member(affinity.anti_preferred, nodes)
        wanted = self._member((*affinity.required, *affinity.preferred), nodes)
        banned = self._member(affinity.anti_required, nodes)
        outside = labelled & ~(tolerated | (wanted & ~banned))
        yield RejectedNodes(outside, OUTSIDE, resolvable=False, code=MISMATCH)

    def reject_nodes_now(self, task: Task, nodes: NodeTable) -> list[RejectedNodes] | None:
        """Rejects groups in which the queue would exceed its limit."""
        queue = self._queue(task)
        limits = None if queue is None else self._limits(queue)
        if queue is None or not limits:
            return None
        over = []
        for group, limit in limits.items():
            need = self._held(queue.name, group) + task.request
            columns = (task.request > 0) & np.isfinite(limit)
            if (need[columns] > limit[columns] + STEP).any():
                over.append(group)
        return [RejectedNodes(self._member(over, nodes), EXCEEDED, code=Code.NODE_GROUP_LIMIT)]

    # -- scores ----------------------------------------------------------------------------------------------

    def score_nodes(self, task: Task, nodes: NodeTable) -> Vector:
        score = np.zeros(len(nodes))
        queue = self._queue(task)
        affinity = None if queue is None else self._affinity(queue)
        if affinity is None:
            return score
        score += REQUIRED_SCORE * self._member(affinity.required, nodes)
        many = len(affinity.preferred)
        for place, name in enumerate(affinity.preferred):
            worth = PREFERRED_SCORE * (many - place) / many if self.preferred_order else PREFERRED_SCORE
            score += worth * self._member((name,), nodes)
        score[self._member(affinity.anti_preferred, nodes)] = AVOIDED_SCORE
        return score

    # -- limits ----------------------------------------------------------------------------------------------

    def _limits(self, queue: Queue) -> Mapping[str, Vector] | None:
        """Returns the limits of a queue by group; None when its annotation is malformed."""
        if queue.name not in self._parsed_limits:
            self._parsed_limits[queue.name] = self._parse(queue.annotations.get(LIMITS, ""))
        return self._parsed_limits[queue.name]

    def _parse(self, text: str) -> Mapping[str, Vector] | None:
        if not text:
            return {}
        try:
            parsed = msgspec.json.decode(text, type=dict[str, dict[str, str | int | float]])
            return {
                group: self.resources.vector(amounts.parse(given), missing=np.inf)
                for group, given in parsed.items()
            }
        except (msgspec.MsgspecError, ValueError):
            return None

    def _held(self, queue: str, group: str) -> Vector:
        """Returns what a queue holds in a group."""
        if queue not in self._held_before:
            self._held_before[queue] = self._count(queue)
        before = self._held_before[queue].get(group, self.resources.zeros())
        return before + self.changes[f"{queue}/{group}"]

    def _count(self, queue: str) -> dict[str, Vector]:
        """Returns what a queue held in each group when the cycle started."""
        held: dict[str, Vector] = {}
        for node, tasks in zip(self.snapshot.nodes, self.snapshot.tasks_on, strict=True):
            group = node.labels.get(GROUP_LABEL)
            if group is None:
                continue
            for task in tasks.values():
                owner = self._queue(task)
                if owner is not None and owner.name == queue and task.status in HOLDING:
                    add(held, group, task.request)
        return held

    def on_allocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self._move(tasks, rows, 1.0)

    def on_deallocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self._move(tasks, rows, -1.0)

    def _move(self, tasks: Sequence[Task], rows: Sequence[int], sign: float) -> None:
        queue = self._queue(tasks[0])
        if queue is None or not self._limits(queue):
            return
        for task, row in zip(tasks, rows, strict=True):
            group = self.snapshot.nodes[row].labels.get(GROUP_LABEL)
            if group is not None:
                self.changes.add(f"{queue.name}/{group}", sign * task.request)
