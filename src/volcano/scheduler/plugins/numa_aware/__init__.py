"""numa-aware: places Guaranteed pods on nodes whose topology manager admits them, on as few NUMA nodes as possible."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np

from volcano.kube.api import names
from volcano.kube.devices.numa.assignment import POLICIES
from volcano.kube.devices.numa.decision import decision_text
from volcano.model.numa import NumaRequest
from volcano.model.resources import Mask, Vector
from volcano.model.task import Shape, Task
from volcano.scheduler.engine.answers import MAX_SCORE, Memory, RejectedNodes
from volcano.scheduler.engine.arguments import Argument, Arguments
from volcano.scheduler.engine.diagnosis import Rejection
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.node_table import NodeTable
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.plugins.numa_aware.facts import node_problems, unassignable
from volcano.scheduler.plugins.numa_aware.free_cpus import FreeCpus, is_checked
from volcano.scheduler.plugins.numa_aware.unconfirmed import Remembered, still_unconfirmed

CANNOT_BE_ASSIGNED = "container {} cannot be assigned by numa"
HELD = "CPUs are still held by pods that are being deleted"


class NumaAware(Plugin):
    """Score of tasks with a policy: `weight x (100 - 100 x s / max(s))`, s being the NUMA nodes of their CPUs."""

    arguments: ClassVar = (Argument("weight"),)

    def open(self, arguments: Arguments) -> None:
        self.weight = arguments.integer("weight", 1)
        self._topologies = self.snapshot.numa_topologies
        self._remembered: Remembered = self.snapshot.memory.get(self.name, {})
        self._relevant: dict[Shape, bool] = {}

    @cached_property
    def _checks(self) -> bool:
        """Whether any node decides which CPUs its pods get."""
        return any(is_checked(topology) for topology in self._topologies.values())

    @cached_property
    def _free(self) -> FreeCpus:
        return FreeCpus(self.snapshot, self._remembered)

    def _request(self, task: Task) -> NumaRequest | None:
        """The request of a task that gets CPUs of its own on some node; otherwise None."""
        shape = task.shape
        relevant = self._relevant.get(shape)
        if relevant is None:
            relevant = shape.numa is not None and any(shape.numa.cpus) and self._checks
            self._relevant[shape] = relevant
        return shape.numa if relevant else None

    # -- filters ---------------------------------------------------------------------------------------------

    def pre_predicate(self, task: Task) -> Rejection | None:
        request = task.shape.numa
        if request is not None and request.asks and request.policy not in POLICIES:
            return Rejection(
                f"topology policy {request.policy!r} of annotation {names.NUMA_POLICY} is unknown; "
                f"choose from {', '.join(POLICIES)}",
                Code.NUMA_MISMATCH,
            )
        return None

    def reject_nodes(self, task: Task, nodes: NodeTable) -> Iterator[RejectedNodes]:
        request = task.shape.numa
        if request is None:
            return
        topologies = [self._topologies.get(name) for name in nodes.names]
        if request.asks:
            for reason, rows in node_problems(request.policy, topologies).items():
                mask = _mask(rows, len(nodes))
                yield RejectedNodes(mask, reason, resolvable=False, code=Code.NUMA_MISMATCH)
        if any(request.cpus):
            for reason, rows in unassignable(request, topologies).items():
                mask = _mask(rows, len(nodes))
                yield RejectedNodes(mask, reason, resolvable=False, code=Code.NUMA_MISMATCH)

    def reject_nodes_now(self, task: Task, nodes: NodeTable) -> list[RejectedNodes] | None:
        request = self._request(task)
        if request is None:
            return None
        refused = self._free.refused_later(request.cpus, nodes.index)
        found = [
            RejectedNodes(
                refused == number, CANNOT_BE_ASSIGNED.format(name), code=Code.INSUFFICIENT_RESOURCES
            )
            for number, name in enumerate(request.containers)
            if (refused == number).any()
        ]
        waiting = self._free.waiting(request.cpus, nodes.index)
        if waiting.any():
            found.append(RejectedNodes(waiting, HELD, now_only=True, code=Code.EVICTING))
        return found

    # -- scores ----------------------------------------------------------------------------------------------

    def score_nodes_together(self, task: Task, nodes: NodeTable) -> Vector | None:
        request = self._request(task)
        if request is None or not request.asks:
            return None
        spanned = self._free.spanned(request.cpus, nodes.index)
        most = spanned.max(initial=0)
        if not most:
            return np.zeros(len(nodes))
        scores: Vector = self.weight * (MAX_SCORE - MAX_SCORE * spanned / most)
        return scores

    # -- reservations ----------------------------------------------------------------------------------------

    def reserves(self, task: Task) -> bool:
        return self._request(task) is not None

    def reserve(self, task: Task, row: int) -> Mapping[str, str] | Rejection:
        request = self._request(task)
        assert request is not None
        assignment = self._free.take(task, row, request.cpus)
        if assignment is None:
            return {}  # the node does not decide
        if not assignment.admitted:
            text = CANNOT_BE_ASSIGNED.format(request.containers[assignment.refused])
            return Rejection(text, Code.INSUFFICIENT_RESOURCES)
        layout = self._topologies[self.nodes.name(row)].layout
        return {names.NUMA_DECISION: decision_text(layout, assignment.all_cpus)}

    def release(self, task: Task, row: int) -> None:
        self._free.give_back(task, row)

    def on_deallocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        for task, row in zip(tasks, rows, strict=True):
            if self._request(task) is not None:
                self.ledger.record_undo(self._free.free(task, row))

    def remember(self) -> Memory | None:
        """Keeps the CPUs of placed pods until the API server has the decision or the node lists them."""
        kept = still_unconfirmed(self.snapshot, self._remembered)
        if "_free" in self.__dict__:
            kept |= self._free.placed(self.ledger)
        return Memory(kept) if kept else None


def _mask(rows: Sequence[int], length: int) -> Mask:
    mask = np.zeros(length, dtype=np.bool_)
    mask[rows] = True
    return mask
