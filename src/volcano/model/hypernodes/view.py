"""Topology view: the domains of a HyperNode tree over the rows of a snapshot, as arrays."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volcano.model.hypernodes.tree import ROOT, Domain, HyperNodeTree
from volcano.model.resources import Mask

Numbers = NDArray[np.intp]


class TopologyView:
    """Domains by number, sorted by tier and name; the root is the last. Immutable.

    A node may be below several domains of one tier, so the rows of a domain are listed: `rows_of(i)`.
    """

    def __init__(self, tree: HyperNodeTree, row_of: Mapping[str, int]) -> None:
        self.tree = tree
        self.row_of = row_of
        ordered = sorted(tree.domains.values(), key=lambda domain: (domain.tier, domain.name))
        self.domains: tuple[Domain, ...] = (*ordered, tree.root)
        self.root = len(ordered)
        self.number = {domain.name: i for i, domain in enumerate(self.domains)}
        self.tiers: Numbers = np.array([domain.tier for domain in self.domains], dtype=np.intp)

    def __len__(self) -> int:
        return len(self.domains)

    @property
    def exists(self) -> bool:
        """Whether there is any HyperNode."""
        return self.root > 0

    @cached_property
    def _lists(self) -> tuple[Numbers, Numbers]:
        """Rows of all domains one after the other, and where those of each begin; one more for the end."""
        row_of = self.row_of
        lists = [
            np.sort(np.array([row_of[name] for name in domain.nodes if name in row_of], dtype=np.intp))
            for domain in self.domains[:-1]
        ]
        lists.append(np.arange(len(row_of)))
        starts = np.cumsum([0, *(len(rows) for rows in lists)])
        return np.concatenate(lists), starts

    def rows_of(self, domain: int) -> Numbers:
        """Rows of the nodes below a domain, ascending."""
        rows, starts = self._lists
        found: Numbers = rows[starts[domain] : starts[domain + 1]]
        return found

    def mask(self, domain: int) -> Mask:
        """Rows of the nodes below a domain, as a mask."""
        found = np.zeros(len(self.row_of), dtype=np.bool_)
        found[self.rows_of(domain)] = True
        return found

    def sizes(self) -> Numbers:
        """Number of nodes below each domain."""
        found: Numbers = np.diff(self._lists[1])
        return found

    def sums(self, values: NDArray[Any]) -> NDArray[Any]:
        """Sums over the rows of each domain: (rows, …) becomes (domains, …)."""
        rows, starts = self._lists
        total = np.zeros((len(self), *values.shape[1:]), dtype=values.dtype)
        filled = np.flatnonzero(np.diff(starts))
        if len(filled):
            total[filled] = np.add.reduceat(values[rows], starts[filled], axis=0)
        return total

    def lowest_containing(self, rows: Numbers) -> int:
        """The domain of the lowest tier that contains all these rows, the first by name of several."""
        marked = np.zeros(len(self.row_of), dtype=np.intp)
        marked[rows] = 1
        containing = np.flatnonzero(self.sums(marked) == marked.sum())
        return int(containing[0])

    @cached_property
    def _intervals(self) -> tuple[Numbers, Numbers]:
        """First and last number of the domains at and below each one, numbered from the root down."""
        first = np.zeros(len(self), dtype=np.intp)
        last = np.zeros(len(self), dtype=np.intp)
        waiting: list[tuple[int, bool]] = [(self.root, False)]
        count = 0
        while waiting:
            domain, done = waiting.pop()
            if done:
                last[domain] = count
                continue
            first[domain] = count
            count += 1
            waiting.append((domain, True))
            waiting.extend((self.number[child], False) for child in self.domains[domain].children)
        return first, last

    def below(self, domain: int) -> Mask:
        """Domains at and below one, as a mask."""
        first, last = self._intervals
        found: Mask = (first >= first[domain]) & (first < last[domain])
        return found

    def ancestors(self, domain: int) -> list[int]:
        """The domain itself, then its ancestors; the root is the last."""
        return [self.number[found.name] for found in self.tree.ancestors(self.domains[domain].name)]

    def shown(self, domain: int) -> str:
        """Name for messages."""
        name = self.domains[domain].name
        return "the cluster" if name == ROOT else name
