"""Node labels as columns: a selector is evaluated once per distinct value, not once per node."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from volcano.kube.api.selectors import LabelSelector, NodeSelector, Operator, Requirement
from volcano.model.node import Node
from volcano.model.resources import Mask

Codes = NDArray[np.int64]

ABSENT = -1
NODE_NAME = "metadata.name"


class Column:
    """One label over all nodes: a number per distinct value, -1 where a node lacks the label."""

    def __init__(self, values: Sequence[str | None]) -> None:
        self.code_of: dict[str, int] = {}
        self.codes: Codes = np.fromiter(
            (
                ABSENT if value is None else self.code_of.setdefault(value, len(self.code_of))
                for value in values
            ),
            dtype=np.int64,
            count=len(values),
        )

    @property
    def present(self) -> Mask:
        return self.codes >= 0

    def where(self, requirement: Requirement) -> Mask:
        """Returns the nodes whose value satisfies a requirement."""
        if requirement.operator in (Operator.IN, Operator.NOT_IN):
            wanted = [self.code_of[value] for value in requirement.values if value in self.code_of]
            listed: Mask = np.isin(self.codes, wanted)
            return listed if requirement.operator is Operator.IN else ~listed
        matches = [requirement.matches({requirement.key: value}) for value in self.code_of]
        # The last element is for nodes without the label: their code is -1.
        matches.append(requirement.matches({}))
        return np.array(matches, dtype=np.bool_)[self.codes]


class LabelColumns:
    """The labels of all nodes; columns are built on first use."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self._columns: dict[str, Column] = {}
        self._names: Column | None = None
        self._matching: dict[NodeSelector, Mask] = {}

    @property
    def cached(self) -> int:
        """Number of cached results."""
        return len(self._matching) + len(self._columns)

    def column(self, key: str) -> Column:
        """Returns the column of one label."""
        if key not in self._columns:
            self._columns[key] = Column([node.labels.get(key) for node in self.nodes])
        return self._columns[key]

    def matching_labels(self, selector: LabelSelector) -> Mask:
        """Returns the nodes whose labels a selector matches."""
        selected = np.full(len(self.nodes), not selector.selects_nothing)
        for requirement in selector.requirements:
            selected &= self.column(requirement.key).where(requirement)
        return selected

    def matching(self, selector: NodeSelector) -> Mask:
        """Returns the nodes that one of the selector's terms matches."""
        if selector not in self._matching:
            matching = np.zeros(len(self.nodes), dtype=np.bool_)
            for on_labels, on_fields in selector.terms:
                matching |= self.matching_labels(on_labels) & self._by_field(on_fields)
            self._matching[selector] = matching
        return self._matching[selector]

    def _by_field(self, selector: LabelSelector) -> Mask:
        """Evaluates field selectors; the only supported field is the node's name."""
        selected = np.full(len(self.nodes), not selector.selects_nothing)
        for requirement in selector.requirements:
            if self._names is None:
                self._names = Column([node.name for node in self.nodes])
            known = requirement.key == NODE_NAME
            selected &= self._names.where(requirement) if known else False
        return selected


@lru_cache(maxsize=4096)
def exactly(key: str, value: str) -> Requirement:
    """Returns the requirement for `key: value` of a node selector."""
    return Requirement(key, Operator.IN, frozenset((value,)))
