"""resource-strategy-fit: pack some resources and spread others, and keep scarce resources for pods that need them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

import msgspec
import numpy as np

from volcano.kube.api.names import STRATEGY_SCORING_TYPE, STRATEGY_WEIGHT
from volcano.model.resources import CPU, FIXED, MEMORY, STEP, Mask, Vector
from volcano.model.task import Shape, Task
from volcano.scheduler.engine.answers import MAX_SCORE, RejectedNodes
from volcano.scheduler.engine.arguments import Arguments
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.node_table import NodeTable
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.resource_strategy_fit.settings import (
    ARGUMENTS,
    MOST,
    STRATEGIES,
    Proportion,
    Strategy,
    parse_settings,
)

IGNORED_ANNOTATIONS = "ResourceStrategyIgnored"  # reason of the event
GIGABYTES_PER_MILLI = 1e6  # bytes for a thousandth of a unit, where a ratio of 1 is a gigabyte per unit


class WeightedColumn(NamedTuple):
    """A requested resource that counts."""

    column: int
    weight: float
    most: bool


class ShapeStrategy(NamedTuple):
    """The resources that count for a shape, and what is wrong with the annotations of its pods."""

    columns: tuple[WeightedColumn, ...]
    problem: str


class ResourceStrategyFit(Plugin):
    """Score: `100 x resourceStrategyFitWeight x` the weighted mean of how full, or how empty, each requested resource
    of the node would be; and 100 x `sra.weight` for nodes without scarce resources."""

    session: Session
    arguments: ClassVar = ARGUMENTS

    def open(self, arguments: Arguments) -> None:
        self._settings = settings = parse_settings(arguments)
        self._strategies: dict[Shape, ShapeStrategy] = {}
        unused = set()
        if not settings.weight and not settings.scarce.weight:
            unused.add("score_nodes")
        if not settings.proportions:
            unused.add("reject_nodes_now")
        self.unused_hooks = frozenset(unused)

    # -- scores ------------------------------------------------------------------------------------

    def score_nodes(self, task: Task, nodes: NodeTable) -> Vector:
        score: Vector = np.zeros(len(nodes))
        if self._settings.weight:
            score += self._strategy_score(task, nodes)
        if self._settings.scarce.weight:
            score += self._scarce_score(task, nodes)
        return score

    def _strategy_score(self, task: Task, nodes: NodeTable) -> Vector:
        columns = self._strategy_of(task).columns
        total = sum(column.weight for column in columns)
        score: Vector = np.zeros(len(nodes))
        if not total:
            return score
        filled, allocatable = nodes.filled(task.request), nodes.allocatable
        fits: Mask = np.ones(len(nodes), dtype=np.bool_)
        for column, weight, most in columns:
            has_some = allocatable[:, column] > 0
            share = filled[:, column]
            score += np.where(has_some, weight * (share if most else 1 - share), 0.0)
            if weight:
                fits &= share <= 1
        # A node that one resource does not fit on scores 0.
        return np.where(fits, score * (MAX_SCORE * self._settings.weight / total), 0.0)

    def _strategy_of(self, task: Task) -> ShapeStrategy:
        found = self._strategies.get(task.shape)
        if found is None:
            own: Mapping[str, Strategy] | None = None
            problem = ""
            try:
                own = pod_strategies(task)
            except MalformedStrategyError as error:
                problem = f"{error}; the strategies of the scheduler's configuration are used"
            found = self._strategies[task.shape] = ShapeStrategy(
                tuple(self._columns(task.shape, own)), problem
            )
        return found

    def _columns(self, shape: Shape, own: Mapping[str, Strategy] | None) -> Iterator[WeightedColumn]:
        for column in np.flatnonzero(shape.request >= STEP).tolist():
            name = self.resources.names[column]
            strategy = self._settings.strategy(name) if own is None else own.get(name)
            if strategy is not None:
                yield WeightedColumn(column, float(strategy.weight), strategy.type == MOST)

    def _scarce_score(self, task: Task, nodes: NodeTable) -> Vector:
        scarce, allocatable = self._settings.scarce, nodes.allocatable
        weights = self.resources.vector(scarce.weights)
        listed = sum((scarce.weights or {}).values())
        if not listed:
            return np.zeros(len(nodes))
        has_some = allocatable > 0  # (nodes, resources)
        lacking = (~has_some & (task.request > 0)).any(axis=1)
        present: Vector = (has_some * weights).sum(axis=1)
        return np.where(lacking, 0.0, (1 - present / listed) * MAX_SCORE * scarce.weight)

    def on_allocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        problem = self._strategy_of(tasks[0]).problem
        if problem and self._settings.weight:
            for task in tasks:
                self.session.record_placement_event(task, IGNORED_ANNOTATIONS, problem)

    # -- kept proportions --------------------------------------------------------------------------

    def reject_nodes_now(self, task: Task, nodes: NodeTable) -> Iterable[RejectedNodes] | None:
        """Rejects nodes that would keep too little cpu or memory for the pods that will use their idle devices."""
        column = self.resources.column
        kept = {column[name]: each for name, each in self._settings.proportions.items() if name in column}
        if any(task.request[each] > 0 for each in kept):
            return None
        return self._short_of(task, nodes, kept)

    def _short_of(
        self, task: Task, nodes: NodeTable, kept: Mapping[int, Proportion]
    ) -> Iterator[RejectedNodes]:
        idle = nodes.idle
        left_cpu, left_memory = idle[:, CPU] - task.request[CPU], idle[:, MEMORY] - task.request[MEMORY]
        for column, proportion in kept.items():
            if column < len(FIXED):
                continue  # nothing is kept for cpu, memory or pods themselves
            devices = idle[:, column]
            short = (left_cpu < devices * proportion.cpu - STEP) | (
                left_memory < devices * (proportion.memory * GIGABYTES_PER_MILLI) - STEP
            )
            name = self.resources.names[column]
            reason = (
                f"proportional of resource {name} check failed: {proportion.cpu:g} cpu and {proportion.memory:g}G of "
                f"memory are kept for each idle {name}"
            )
            yield RejectedNodes(
                short & (devices > 0), reason, resolvable=False, code=Code.INSUFFICIENT_RESOURCES
            )


class MalformedStrategyError(Exception):
    """Annotations that cannot be used; the message says what would be right."""


def pod_strategies(task: Task) -> dict[str, Strategy] | None:
    """Returns the strategies in the annotations of a pod, by resource; None without annotations.

    Raises MalformedStrategyError.
    """
    scoring, weights = (task.annotations.get(name) for name in (STRATEGY_SCORING_TYPE, STRATEGY_WEIGHT))
    if scoring is None and weights is None:
        return None
    if scoring not in STRATEGIES:
        given = "missing" if scoring is None else repr(scoring)
        raise MalformedStrategyError(
            f"annotation {STRATEGY_SCORING_TYPE} is {given}; it must be {' or '.join(STRATEGIES)}"
        )
    return {name: Strategy(scoring, weight) for name, weight in _weights(weights).items()}


def _weights(text: str | None) -> dict[str, int]:
    try:
        weights = msgspec.json.decode(text or "{}", type=dict[str, int])
    except msgspec.MsgspecError:
        weights = {}
    if not weights or any(weight < 0 for weight in weights.values()):
        given = "missing" if text is None else repr(text)
        raise MalformedStrategyError(
            f"annotation {STRATEGY_WEIGHT} is {given}; it must be a JSON map of resource names to weights, "
            'such as {"cpu": 1, "nvidia.com/gpu": 2}'
        )
    return weights
