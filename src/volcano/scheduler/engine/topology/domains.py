"""Domain tables: domains as rows with the sums of their nodes, the input of scorers."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from volcano.model.hypernode_tree import Domain
from volcano.model.resources import Vector
from volcano.model.task import Task
from volcano.model.topology_view import TopologyView
from volcano.scheduler.engine.node_table import NodeTable

Numbers = NDArray[np.intp]
FEW = 32  # up to so many domains are summed one by one, more of them all at once


class DomainTable:
    """Some domains, one per row. `index` holds their numbers in `topology`, the view of all domains."""

    def __init__(self, topology: TopologyView, nodes: NodeTable, index: Numbers, room: Numbers) -> None:
        """`nodes` are all nodes; `room` is the number of the tasks that fit in each domain."""
        self.topology = topology
        self.index = index
        self.room = room
        self._nodes = nodes

    def __len__(self) -> int:
        return len(self.index)

    @property
    def domains(self) -> Sequence[Domain]:
        """Domain objects, one per row."""
        return [self.topology.domains[number] for number in self.index]

    def node_rows(self, row: int) -> Numbers:
        """Rows in the table of all nodes of the nodes below a domain."""
        return self.topology.rows_of(int(self.index[row]))

    def sums(self, values: Vector) -> Vector:
        """Sums of a column of all nodes, or of several, over the nodes of each domain."""
        if len(self) > FEW:
            every: Vector = self.topology.sums(values)[self.index]
            return every
        total = np.zeros((len(self), *values.shape[1:]))
        for row in range(len(self)):
            total[row] = values[self.node_rows(row)].sum(axis=0)
        return total

    @cached_property
    def allocatable(self) -> Vector:
        """(rows, resources): allocatable resources."""
        return self.sums(self._nodes.allocatable)

    @cached_property
    def used(self) -> Vector:
        """(rows, resources): requests of the tasks on the nodes, those being released included."""
        return self.sums(self._nodes.used)

    @cached_property
    def future_idle(self) -> Vector:
        """(rows, resources): free resources once everything releasing is released."""
        return self.sums(self._nodes.future_idle)


def prefer_full_domains(tasks: Sequence[Task], domains: DomainTable) -> Vector:
    """Score of each domain: the number of the tasks that fit, since a job may start with fewer than all; then the share
    of the requested resources that is in use afterwards, so that empty domains stay free."""
    request = sum((task.request for task in tasks), np.zeros(domains.allocatable.shape[1]))
    asked = request > 0
    capacity = domains.allocatable[:, asked]
    filled = np.divide(
        domains.used[:, asked] + request[asked], capacity, out=np.ones_like(capacity), where=capacity > 0
    )
    score: Vector = np.minimum(domains.room, len(tasks)) + np.minimum(filled, 1.0).mean(axis=1) / 2
    return score
