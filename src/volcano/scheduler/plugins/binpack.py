"""binpack: prefer the fullest node that still fits, so that empty nodes stay empty."""

from typing import ClassVar

import numpy as np

from volcano.model.resources import Vector
from volcano.model.task import Task
from volcano.scheduler.arguments import Argument, Arguments, Type
from volcano.scheduler.nodetable import NodeTable
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

    def score_nodes(self, task: Task, nodes: NodeTable) -> Vector:
        asked = (task.request > 0) & (self.weights > 0)
        weights = self.weights[asked]
        if not self.weight or not len(weights):
            return np.zeros(len(nodes))
        room = nodes.allocatable[:, asked]
        full = nodes.used[:, asked] + task.request[asked]

        there = room > 0
        share = full / room if there.all() else np.divide(full, room, out=np.zeros_like(full), where=there)
        mean: Vector = share @ weights
        mean[(share > 1).any(axis=1)] = 0  # one resource overflows: the node earns nothing
        score: Vector = mean * (MAX_SCORE * self.weight / weights.sum())
        return score
