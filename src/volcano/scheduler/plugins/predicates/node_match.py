"""What node facts say about a shape: selectors, taints, and which nodes count when pods are spread."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from volcano.model.node import Node
from volcano.model.resources import Mask
from volcano.model.task import Constraints, Task
from volcano.scheduler.plugins.predicates.labels import LabelColumns, exactly
from volcano.scheduler.plugins.predicates.taints import TaintColumns


class NodeFacts:
    """Labels and taints of all nodes as columns, and answers that tasks of one shape share."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.labels = LabelColumns(nodes)
        self.taints = TaintColumns(nodes)
        self._chosen: dict[int, tuple[Constraints, Mask]] = {}
        self._counting: dict[object, Mask] = {}
        self._present: dict[tuple[str, int], NDArray[np.intp]] = {}

    def chosen(self, constraints: Constraints) -> Mask:
        """The nodes that a pod's node selector and required node affinity allow."""
        kept = self._chosen.get(id(constraints))
        if kept is not None:
            return kept[1]
        chosen = np.ones(len(self.labels.nodes), dtype=np.bool_)
        for key, value in constraints.node_selector.items():
            chosen &= self.labels.column(key).where(exactly(key, value))
        if constraints.required_nodes is not None:
            chosen &= self.labels.chosen(constraints.required_nodes)
        # The constraints are kept beside the answer, so that their id is not given to another object.
        self._chosen[id(constraints)] = (constraints, chosen)
        return chosen

    def counting(self, task: Task, keys: tuple[str, ...], affinity: str, taints: str) -> Mask:
        """The nodes that count when pods are spread: all labels there, and as the two policies say."""
        constraints = task.shape.constraints
        picky = affinity == "Honor" and (constraints.node_selector or constraints.required_nodes)
        name = (keys, id(constraints) if picky else 0, constraints.tolerations if taints == "Honor" else None)
        if name not in self._counting:
            counting = np.ones(len(self.labels.nodes), dtype=np.bool_)
            for key in keys:
                counting &= self.labels.column(key).present
            if picky:
                counting &= self.chosen(constraints)
            if taints == "Honor":
                counting &= ~self.taints.repelled(constraints.tolerations)
            self._counting[name] = counting
        return self._counting[name]

    def domains_present(self, key: str, counting: Mask) -> NDArray[np.intp]:
        """The values of a label that some counting node has."""
        name = (key, id(counting))
        if name not in self._present:
            self._present[name] = np.unique(self.labels.column(key).codes[counting])
        return self._present[name]
