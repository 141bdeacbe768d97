"""Domain tables: domains as rows with the sums of their nodes, the input of scorers."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from volcano.model.hypernodes.tree import Domain
from volcano.model.hypernodes.view import TopologyView
from volcano.model.resources import STEP, Vector
from volcano.model.task import Task
from volcano.scheduler.engine.node_table import NodeTable

Numbers = NDArray[np.intp]
UNUSED = 0.9  # of the resources free: the node counts as not in use
BASIC = 3  # columns of cpu, memory and pods; devices follow
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

    def unused_nodes(self, request: Vector, count: int) -> tuple[Vector, Vector]:
        """How many nodes of each domain that are not in use are needed for so many tasks with this request, when nodes
        in use are filled first, and how many are not needed."""
        asked = np.flatnonzero(request > 0)
        # Devices are what makes a node valuable: pods that only use CPUs there do not count.
        kinds = asked[asked >= BASIC] if (asked >= BASIC).any() else asked
        free = np.maximum(np.minimum(self._nodes.idle, self._nodes.future_idle), 0.0)
        capacity = self._nodes.allocatable[:, kinds]
        unused = (free[:, kinds] >= UNUSED * capacity).all(axis=1) & (capacity > 0).all(axis=1)
        fitting = np.floor(((free[:, asked] + STEP) / request[asked]).min(axis=1))
        totals = self.sums(
            np.stack((unused, np.where(unused, 0.0, fitting), np.where(unused, fitting, 0.0)), axis=1)
        )
        each = np.maximum(totals[:, 2] / np.maximum(totals[:, 0], 1.0), 1.0)  # tasks on an unused node
        needed = np.minimum(np.ceil(np.maximum(count - totals[:, 1], 0.0) / each), totals[:, 0])
        return needed, totals[:, 0] - needed

    @cached_property
    def future_idle(self) -> Vector:
        """(rows, resources): free resources once everything releasing is released."""
        return self.sums(self._nodes.future_idle)


def prefer_full_domains(tasks: Sequence[Task], domains: DomainTable) -> Vector:
    """Score of each domain, by what counts first:

    the number of the tasks that fit, since a job may start with fewer than all; how few unused nodes they need beside
    the nodes that are in use; how few unused nodes are left then, so that the domains with most of them stay whole; and
    the share of the requested resources that is in use afterwards.
    """
    request = sum((task.request for task in tasks), np.zeros(domains.allocatable.shape[1]))
    asked = request > 0
    capacity = domains.allocatable[:, asked]
    filled = np.divide(
        domains.used[:, asked] + request[asked], capacity, out=np.ones_like(capacity), where=capacity > 0
    )
    fullness = np.minimum(filled, 1.0).mean(axis=1)
    needed, left = domains.unused_nodes(request / len(tasks), len(tasks))
    most = max(needed.max(), left.max(), 1.0) + 1.0
    score: Vector = (
        np.minimum(domains.room, len(tasks)) - (needed + (left + 1.0 - fullness / 2) / most) / most
    )
    return score
