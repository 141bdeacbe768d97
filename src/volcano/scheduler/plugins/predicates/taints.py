"""Taints and tolerations: evaluated once per distinct set of taints, not once per node."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from volcano.model.node import UNUSABLE_TAINTS, Node, Taint
from volcano.model.resources import Mask
from volcano.model.task import Toleration

REJECTING = ("NoSchedule", "NoExecute")
PREFER_NO_SCHEDULE = ("PreferNoSchedule",)
UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Reports whether a toleration matches a taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration], effects: Sequence[str]) -> int:
    """Returns how many taints with one of these effects are not tolerated."""
    return sum(
        taint.effect in effects and not any(tolerates(toleration, taint) for toleration in tolerations)
        for taint in taints
    )


def _passes(taint: Taint) -> bool:
    return taint.key.startswith(UNUSABLE_TAINTS)


class TaintColumns:
    """The taints of all nodes, as a number per distinct set."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        sets: dict[tuple[Taint, ...], int] = {}
        self.codes = np.fromiter(
            (sets.setdefault(node.taints, len(sets)) for node in nodes), dtype=np.int64, count=len(nodes)
        )
        # Taints of a state that ends, such as not being ready, and the others.
        self._passing_sets = [tuple(taint for taint in taints if _passes(taint)) for taints in sets]
        self._lasting_sets = [tuple(taint for taint in taints if not _passes(taint)) for taints in sets]
        self.any_prefer_no_schedule = any(
            taint.effect in PREFER_NO_SCHEDULE for taints in sets for taint in taints
        )
        self.unschedulable: Mask = np.fromiter(
            (node.unschedulable for node in nodes), dtype=np.bool_, count=len(nodes)
        )

    def rejecting(self, tolerations: Sequence[Toleration]) -> Mask:
        """Returns the nodes with an untolerated NoSchedule or NoExecute taint that was put there to stay."""
        return self._untolerated_counts(tolerations, REJECTING) > 0

    def unusable_for(self, tolerations: Sequence[Toleration]) -> Mask | None:
        """Returns the nodes with an untolerated taint of a state that ends, such as not being ready; None when no node
        has one."""
        if not any(self._passing_sets):
            return None
        return self._untolerated_counts(tolerations, REJECTING, passing=True) > 0

    def prefer_no_schedule_counts(self, tolerations: Sequence[Toleration]) -> NDArray[np.float64]:
        """Returns the number of untolerated PreferNoSchedule taints of each node."""
        relevant = [each for each in tolerations if each.effect in ("", "PreferNoSchedule")]
        return self._untolerated_counts(relevant, PREFER_NO_SCHEDULE)

    def unschedulable_for(self, tolerations: Sequence[Toleration]) -> Mask:
        """Returns the cordoned nodes, unless the pod tolerates that."""
        if any(tolerates(toleration, UNSCHEDULABLE) for toleration in tolerations):
            return np.zeros_like(self.unschedulable)
        return self.unschedulable

    def _untolerated_counts(
        self, tolerations: Sequence[Toleration], effects: Sequence[str], *, passing: bool = False
    ) -> NDArray[np.float64]:
        sets = self._passing_sets if passing else self._lasting_sets
        counts = np.array([untolerated(taints, tolerations, effects) for taints in sets], dtype=np.float64)
        return counts[self.codes] if len(counts) else np.zeros(0)
