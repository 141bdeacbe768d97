"""Board: everything that is counted about nodes, side by side, so that looking at a few of them is one copy."""

from typing import NamedTuple

import numpy as np

from volcano.model.resources import CPU, MEMORY, Vector
from volcano.model.snapshot import Snapshot


class Layout(NamedTuple):
    """Which columns of a board hold what."""

    used: slice
    nonzero_used: slice
    allocatable: slice
    capacity: slice
    basics: int
    releasing: slice
    pipelined: slice
    width: int


def layout(resources: int) -> Layout:
    """The layout for so many resources."""
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
    """One row per node; the named columns are views of `cells`, so that a change of either is one of both."""

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
        # What nodes have to give, to divide by: infinite where they have none, so that no share of it counts.
        self.capacity[:] = np.where(self.allocatable > 0, self.allocatable, np.inf)
        # How many of cpu and memory each node has, but at least one.
        has = (self.allocatable[:, [CPU, MEMORY]] > 0).sum(axis=1)
        self.cells[:, where.basics] = np.maximum(has, 1)
        self.read_only: Vector = self.cells.view()  # for those who only look
        self.read_only.flags.writeable = False
