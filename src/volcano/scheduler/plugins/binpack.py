"""binpack: prefer the fullest node that still fits, so that empty nodes stay empty."""

from typing import ClassVar

import numpy as np

from volcano.model.resources import Vector
from volcano.model.task import Shape, Task
from volcano.scheduler.arguments import Argument, Arguments, Type
from volcano.scheduler.nodetable import NodeTable, Rows
from volcano.scheduler.plugin import MAX_SCORE, Plugin


class Binpack(Plugin):
    """Score: 100 times `binpack.weight` times the weighted mean of how full what the task asks for would be."""

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
        self._counted: dict[Shape, tuple[slice | Rows, Vector, Vector]] = {}

    def score_nodes(self, task: Task, nodes: NodeTable) -> Vector:
        columns, request, weights = self._counted.get(task.shape) or self._count(task.shape)
        if not self.weight or not len(weights):
            return np.zeros(len(nodes))
        share = (nodes.used[:, columns] + request) / nodes.capacity[:, columns]
        mean: Vector = share @ weights
        mean[share.max(axis=1) > 1] = 0  # one resource overflows: the node earns nothing
        score: Vector = mean * (MAX_SCORE * self.weight / weights.sum())
        return score

    def _count(self, shape: Shape) -> tuple[slice | Rows, Vector, Vector]:
        """The columns that count for a shape, what it asks for there, and their weights."""
        found = np.flatnonzero((shape.request > 0) & (self.weights > 0))
        together = len(found) > 0 and found[-1] - found[0] == len(found) - 1
        columns = slice(int(found[0]), int(found[-1]) + 1) if together else found
        counted = self._counted[shape] = (columns, shape.request[found], self.weights[found])
        return counted
