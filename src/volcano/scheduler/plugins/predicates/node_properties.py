"""Node labels and taints against the constraints of a shape."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from volcano.model.node import Node
from volcano.model.resources import Mask
from volcano.model.snapshot import Snapshot
from volcano.model.task import Constraints, Task
from volcano.scheduler.plugins.predicates.labels import LabelColumns, exactly
from volcano.scheduler.plugins.predicates.taints import TaintColumns

MOST_CACHED = 2000  # results, each with a value per node


class NodeProperties:
    """Labels and taints of all nodes as columns, with results cached per shape."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.labels = LabelColumns(nodes)
        self.taints = TaintColumns(nodes)
        self._matching: dict[int, tuple[Constraints, Mask]] = {}
        self._counting: dict[object, Mask] = {}
        self._present: dict[tuple[str, int], NDArray[np.intp]] = {}

    @classmethod
    def of(cls, snapshot: Snapshot) -> "NodeProperties":
        """Properties of the nodes of a snapshot; kept while the nodes stay the same, until they have cached much."""
        found = snapshot.node_values.get(cls)
        if found is None or found.cached > MOST_CACHED:
            found = snapshot.node_values[cls] = cls(snapshot.nodes)
        properties: NodeProperties = found
        return properties

    @property
    def cached(self) -> int:
        """Number of cached results."""
        return len(self._matching) + len(self._counting) + len(self._present) + self.labels.cached

    @cached_property
    def any_images(self) -> bool:
        """Whether a node reports images."""
        return any(node.images for node in self.labels.nodes)

    def matching(self, constraints: Constraints) -> Mask:
        """Returns the nodes that a pod's node selector and required node affinity match."""
        kept = self._matching.get(id(constraints))
        if kept is not None:
            return kept[1]
        matching = np.ones(len(self.labels.nodes), dtype=np.bool_)
        for key, value in constraints.node_selector.items():
            matching &= self.labels.column(key).where(exactly(key, value))
        if constraints.required_nodes is not None:
            matching &= self.labels.matching(constraints.required_nodes)
        # Keeping the constraints prevents that their id is reused for another object.
        self._matching[id(constraints)] = (constraints, matching)
        return matching

    def counted_nodes(self, task: Task, keys: tuple[str, ...], affinity: str, taints: str) -> Mask:
        """Returns the nodes that count for topology spread: all labels present, and as the two policies require."""
        constraints = task.shape.constraints
        selective = affinity == "Honor" and (constraints.node_selector or constraints.required_nodes)
        name = (
            keys,
            id(constraints) if selective else 0,
            constraints.tolerations if taints == "Honor" else None,
        )
        if name not in self._counting:
            counted_nodes = np.ones(len(self.labels.nodes), dtype=np.bool_)
            for key in keys:
                counted_nodes &= self.labels.column(key).present
            if selective:
                counted_nodes &= self.matching(constraints)
            if taints == "Honor":
                counted_nodes &= ~self.taints.rejecting(constraints.tolerations)
            self._counting[name] = counted_nodes
        return self._counting[name]

    def domains_present(self, key: str, counted_nodes: Mask) -> NDArray[np.intp]:
        """Returns the values of a label among the counted nodes."""
        name = (key, id(counted_nodes))
        if name not in self._present:
            self._present[name] = np.unique(self.labels.column(key).codes[counted_nodes])
        return self._present[name]
