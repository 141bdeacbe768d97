"""Node columns: all resource counts of nodes in one array, so that reading a few rows is one copy."""

from typing import NamedTuple

import numpy as np

from volcano.model.resources import CPU, MEMORY, Vector
from volcano.model.snapshot import Snapshot


class Layout(NamedTuple):
    """Positions of the columns."""

    used: slice
    nonzero_used: slice
    allocatable: slice
    capacity: slice
    basics: int
    releasing: slice
    pipelined: slice
    width: int


def layout(resources: int) -> Layout:
    """Layout for a number of resources."""
    nonzero = resources + 2
    allocatable, capacity = nonzero + resources, nonzero + 2 * resources
    releasing, pipelined = capacity + 1 + resources, capacity + 1 + 2 * resources
    return Layout(
        slice(0, resources),
        slice(resources, nonzero),
        slice(nonzero, allocatable),
        slice(allocatable, capacity),
        capacity,
        slice(capacity + 1, releasing),
        slice(releasing, pipelined),
        pipelined,
    )


class NodeColumns:
    """One row per node; the named columns are views of `cells`."""

    __slots__ = (
        "allocatable", "capacity", "cells", "layout", "nonzero_used", "pipelined", "read_only", "releasing", "used",
    )  # fmt: skip

    def __init__(self, snapshot: Snapshot) -> None:
        nodes, resources = snapshot.allocatable.shape
        self.layout = where = layout(resources)
        self.cells: Vector = np.zeros((nodes, where.width))
        self.allocatable: Vector = self.cells[:, where.allocatable]
        self.used: Vector = self.cells[:, where.used]
        self.releasing: Vector = self.cells[:, where.releasing]
        self.pipelined: Vector = self.cells[:, where.pipelined]
        self.nonzero_used: Vector = self.cells[:, where.nonzero_used]
        self.capacity: Vector = self.cells[:, where.capacity]
        self.allocatable[:] = snapshot.allocatable
        self.used[:] = snapshot.used
        self.releasing[:] = snapshot.releasing
        self.nonzero_used[:] = snapshot.nonzero_used
        # Allocatable as a divisor: infinite where a node has none, so that its share is zero.
        self.capacity[:] = np.where(self.allocatable > 0, self.allocatable, np.inf)
        # Number of cpu and memory that each node has, at least 1.
        has = (self.allocatable[:, [CPU, MEMORY]] > 0).sum(axis=1)
        self.cells[:, where.basics] = np.maximum(has, 1)
        self.read_only: Vector = self.cells.view()  # for readers
        self.read_only.flags.writeable = False
