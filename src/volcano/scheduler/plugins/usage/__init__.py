"""usage: avoid nodes whose measured load is high, and prefer those with the lowest load."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from volcano.model.resources import PODS, Mask, Vector
from volcano.model.status import Status
from volcano.model.task import Shape, Task
from volcano.scheduler.engine.answers import MAX_SCORE, RejectedNodes
from volcano.scheduler.engine.arguments import Argument, Arguments, Type
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.inputs import LoadInput
from volcano.scheduler.engine.load_settings import STALE_AFTER
from volcano.scheduler.engine.node_table import NodeTable, Rows
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.usage.estimate import DIMENSIONS, ESTIMATOR_ARGUMENTS, Estimator

REASONS = (
    "the CPU load of the node exceeds the upper limit.",
    "the memory load of the node exceeds the upper limit.",
)
PERCENT = Argument("", Type.INTEGER, lambda value: 0 <= value <= 100, "0 to 100")
NOT_NEGATIVE = Argument("", Type.INTEGER, lambda value: value >= 0, "at least 0")
# Tasks whose load the measurements do not show.
PLACED = frozenset((Status.ALLOCATED, Status.BINDING, Status.BOUND))


class Estimate(NamedTuple):
    """The estimated load of one task, as parts of its node's capacity."""

    row: int
    part: Vector  # (2,)


class Usage(Plugin):
    """Score: `100 x usage.weight x` the weighted mean of the idle parts of cpu and memory, where pods that were just
    placed count with an estimate."""

    session: Session
    depends_on_time: ClassVar = True
    inputs: ClassVar = (LoadInput(),)
    arguments: ClassVar = (
        *(Argument(name, NOT_NEGATIVE.type, NOT_NEGATIVE.valid, NOT_NEGATIVE.expected)
          for name in ("usage.weight", "cpu.weight", "memory.weight")),
        *(Argument(name, PERCENT.type, PERCENT.valid, PERCENT.expected)
          for name in ("thresholds.cpu", "thresholds.mem")),
        Argument("thresholds.includeEstimated", Type.BOOLEAN),
        *ESTIMATOR_ARGUMENTS,
    )  # fmt: skip

    def open(self, arguments: Arguments) -> None:
        self._weight = arguments.integer("usage.weight", 5)
        self._weights = np.array([arguments.integer(f"{name}.weight", 1) for name in DIMENSIONS], dtype=float)
        self._thresholds = (arguments.integer("thresholds.cpu", 80), arguments.integer("thresholds.mem", 80))
        self._include_estimated = arguments.boolean("thresholds.includeEstimated")
        self._estimator = Estimator.of(arguments)
        self._per_pod: dict[Shape, tuple[Vector, Vector]] = {}  # estimated load, without and with risk
        self._estimates: dict[str, Estimate] | None = None  # by task
        unused = "reject_nodes" if self._include_estimated else "reject_nodes_now"
        self.unused_hooks = frozenset((unused, *(() if self._weights.any() else ("score_nodes",))))
        self._prepare()

    def _prepare(self) -> None:
        nodes, now = self.snapshot.nodes, self.snapshot.now
        found = [self.snapshot.usage.get(node.name) for node in nodes]
        self._fresh: Mask = np.array(
            [each is not None and now - each["measured"] <= STALE_AFTER for each in found], dtype=np.bool_
        )
        self._measured: Vector = np.array(  # (nodes, 2): percent
            [[each[name] for name in DIMENSIONS] if each else [0.0, 0.0] for each in found]
        ).reshape(len(nodes), 2)
        capacity = np.array([[node.capacity.get(name, 0.0) for name in DIMENSIONS] for node in nodes])
        # As a divisor: infinite where a node has none.
        self._capacity: Vector = np.where(capacity > 0, capacity, np.inf).reshape(len(nodes), 2)
        self._estimated: Vector = np.zeros((len(nodes), 2))  # parts of the capacity

    # -- nodes: filters ----------------------------------------------------------------------------

    def reject_nodes(self, task: Task, nodes: NodeTable) -> Iterator[RejectedNodes]:
        return self._overloaded(self._measured[nodes.index], nodes)

    def reject_nodes_now(self, task: Task, nodes: NodeTable) -> Iterable[RejectedNodes] | None:
        self._estimate_recent()
        return self._overloaded(
            self._measured[nodes.index] + 100 * self._estimated_with_copies(task, nodes), nodes
        )

    def _overloaded(self, load: Vector, nodes: NodeTable) -> Iterator[RejectedNodes]:
        fresh = self._fresh[nodes.index]
        for column, (threshold, reason) in enumerate(zip(self._thresholds, REASONS, strict=True)):
            mask = fresh & (load[:, column] > threshold)
            yield RejectedNodes(mask, reason, resolvable=False, code=Code.NODE_LOAD)

    # -- nodes: scores -----------------------------------------------------------------------------

    def score_nodes(self, task: Task, nodes: NodeTable) -> Vector:
        self._estimate_recent()
        used = self._used(nodes.index, self._estimated_with_copies(task, nodes))
        idle = ((1 - used) * self._weights).sum(axis=1) / self._weights.sum()
        score: Vector = np.where(self._fresh[nodes.index], idle * (MAX_SCORE * self._weight), 0.0)
        return score

    def _used(self, rows: Rows, estimated: Vector) -> Vector:
        """(rows, 2): measured and estimated load as parts of the capacity."""
        used: Vector = np.clip(self._measured[rows] / 100 + estimated, 0.0, 1.0)
        used[np.isinf(self._capacity[rows])] = 0.0
        return used

    def _estimated_with_copies(self, task: Task, nodes: NodeTable) -> Vector:
        """The estimates of the rows, with those of the copies of the task that a hypothetical table adds."""
        estimated: Vector = self._estimated[nodes.index]
        copies = nodes.used[:, PODS] - self.nodes.used[nodes.index, PODS]
        for added in range(int(copies.max(initial=0.0))):
            part = self._part(task.shape, nodes.index, estimated)
            estimated = np.where((copies > added)[:, None], estimated + part, estimated)
        return estimated

    def _part(self, shape: Shape, rows: Rows, estimated: Vector) -> Vector:
        """(rows, 2): what one more pod adds to rows with this estimated load."""
        calm, risky = self._loads_of(shape)
        loaded = (self._used(rows, estimated) * self._weights).sum(axis=1) / max(self._weights.sum(), 1.0)
        load = np.where((loaded >= self._estimator.risk_threshold)[:, None], risky, calm)
        found: Vector = load / self._capacity[rows]
        return found

    def _loads_of(self, shape: Shape) -> tuple[Vector, Vector]:
        found = self._per_pod.get(shape)
        if found is None:
            calm, risky = (self._estimator.load(shape, risky=risky) for risky in (False, True))
            found = self._per_pod[shape] = calm, risky
        return found

    # -- estimates ---------------------------------------------------------------------------------

    def _estimate_recent(self) -> dict[str, Estimate]:
        """Counts the pods that were placed too recently to be measured; once, when first needed."""
        if self._estimates is not None:
            return self._estimates
        self._estimates = {}
        since = self.snapshot.now - self.session.config.load.interval
        recent = [
            (task.scheduled, task.uid, row, task)
            for row, tasks in enumerate(self.snapshot.tasks_on)
            for task in tasks.values()
            if task.status in PLACED or (task.status is Status.RUNNING and not 0 < task.started <= since)
        ]
        for _, _, row, task in sorted(recent, key=lambda each: each[:3]):
            self._add(task, row)
        return self._estimates

    def _add(self, task: Task, row: int) -> None:
        estimates = self._estimate_recent()
        self._remove(task)
        rows = np.array([row])
        part = self._part(task.shape, rows, self._estimated[rows])[0]
        estimates[task.uid] = Estimate(row, part)
        self._estimated[row] += part

    def _remove(self, task: Task) -> None:
        known = self._estimate_recent().pop(task.uid, None)
        if known is not None:
            self._estimated[known.row] -= known.part

    def on_allocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        for task, row in zip(tasks, rows, strict=True):
            self._record_undo(task, row)
            self._add(task, row)

    def on_deallocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        for task, row in zip(tasks, rows, strict=True):
            self._record_undo(task, row)
            self._remove(task)

    def _record_undo(self, task: Task, row: int) -> None:
        known = self._estimate_recent().get(task.uid)
        touched = {row} if known is None else {row, known.row}
        before = {each: self._estimated[each].copy() for each in touched}
        self.ledger.record_undo(partial(self._restore, task.uid, known, before))

    def _restore(self, uid: str, known: Estimate | None, before: dict[int, Vector]) -> None:
        estimates = self._estimate_recent()
        estimates.pop(uid, None)
        if known is not None:
            estimates[uid] = known
        for row, values in before.items():
            self._estimated[row] = values
