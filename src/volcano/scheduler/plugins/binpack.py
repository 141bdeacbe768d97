"""binpack: prefer the fullest node that still fits, so that empty nodes stay empty."""

from typing import ClassVar, NamedTuple

import numpy as np

from volcano.model.resources import Vector
from volcano.model.task import Shape, Task
from volcano.scheduler.engine.answers import MAX_SCORE
from volcano.scheduler.engine.arguments import Argument, Arguments, Type
from volcano.scheduler.engine.node_table import NodeTable
from volcano.scheduler.engine.plugin import Plugin


class WeightedColumns(NamedTuple):
    """Columns of a shape that count, with their weights, and the factor of the weighted sum."""

    columns: tuple[tuple[int, float], ...]
    factor: float


class Binpack(Plugin):
    """Score: `100 x binpack.weight x` the weighted mean of the usage of the requested resources."""

    arguments: ClassVar = (
        Argument("binpack.weight"),
        Argument("binpack.cpu"),
        Argument("binpack.memory"),
        Argument("binpack.resources", Type.TEXT),
        Argument("binpack.resources.*"),
    )

    def open(self, arguments: Arguments) -> None:
        self.weight = arguments.integer("binpack.weight", 1)
        keys = {"cpu": "binpack.cpu", "memory": "binpack.memory"}
        keys |= {name: f"binpack.resources.{name}" for name in arguments.strings("binpack.resources")}
        weights = {name: arguments.integer(key, 1) for name, key in keys.items()}
        weights = {name: weight if weight >= 0 else 1 for name, weight in weights.items()}
        self.weights = self.resources.vector(weights)
        self._weighted_columns: dict[Shape, WeightedColumns] = {}

    def score_nodes(self, task: Task, nodes: NodeTable) -> Vector:
        weighted = self._weighted_columns.get(task.shape) or self._columns_of(task.shape)
        if not self.weight or not weighted.columns:
            return np.zeros(len(nodes))
        filled = nodes.filled(task.shape.request)
        (first, weight), *others = weighted.columns
        fullest: Vector = filled[:, first]
        total = fullest if weight == 1 else fullest * weight
        for column, weight in others:
            share = filled[:, column]
            total = total + (share if weight == 1 else share * weight)
            fullest = np.maximum(fullest, share)
        # A node that one resource does not fit on scores 0.
        score: Vector = total * weighted.factor * (fullest <= 1)
        return score

    def _columns_of(self, shape: Shape) -> WeightedColumns:
        """Returns the columns that count for a shape."""
        found = np.flatnonzero((shape.request > 0) & (self.weights > 0)).tolist()
        weights = [float(self.weights[column]) for column in found]
        factor = MAX_SCORE * self.weight / sum(weights) if weights else 0.0
        weighted = self._weighted_columns[shape] = WeightedColumns(
            tuple(zip(found, weights, strict=True)), factor
        )
        return weighted
