"""Disruption budgets: the pods they cover, how many must stay healthy, how many may be evicted."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from volcano.kube.api.manifest import Manifest, condition_of, has_ended
from volcano.kube.api.selectors import LabelSelector, from_object

# Returns the uid and the replicas of a pod's controller; None when it has no scale.
Replicas = Callable[[Manifest], tuple[str, int] | None]


@dataclass(frozen=True, slots=True)
class DisruptionStatus:
    """The computed status of a budget; `problem` says why it could not be computed, and then no disruption is
    allowed."""

    expected: int = 0
    desired: int = 0
    healthy: int = 0
    allowed: int = 0
    problem: str = ""


def selector_of(budget: Manifest) -> LabelSelector:
    """The selector of the pods a budget covers; it matches none when the budget has no selector."""
    return from_object((budget.get("spec") or {}).get("selector"))


def is_ready(pod: Manifest) -> bool:
    condition = condition_of(pod, "Ready")
    return condition is not None and condition.get("status") == "True"


def assess(budget: Manifest, pods: Iterable[Manifest], replicas: Replicas) -> DisruptionStatus:
    """Computes the status of a budget from the pods it covers."""
    pods = [pod for pod in pods if not has_ended(pod)]
    spec = budget.get("spec") or {}
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if most is None and isinstance(least, int):
        expected, problem = len(pods), ""
    elif most is None and least is None:
        return DisruptionStatus(expected=len(pods), healthy=_healthy(pods), allowed=_healthy(pods))
    else:
        expected, problem = _asked_for(pods, replicas)
    if most is not None:
        desired = max(expected - _share(most, expected), 0)
    else:
        desired = _share(least, expected)
    healthy = _healthy(pods)
    allowed = 0 if problem or not expected else max(healthy - desired, 0)
    return DisruptionStatus(expected, desired, healthy, allowed, problem)


def _healthy(pods: Iterable[Manifest]) -> int:
    return sum(is_ready(pod) and not pod["metadata"].get("deletionTimestamp") for pod in pods)


def _asked_for(pods: Iterable[Manifest], replicas: Replicas) -> tuple[int, str]:
    """The total replicas of the pods' controllers."""
    found: dict[str, int] = {}
    for pod in pods:
        answer = replicas(pod)
        if answer is None:
            return 0, f'found no controller with a scale for pod "{pod["metadata"]["name"]}"'
        found[answer[0]] = answer[1]
    return sum(found.values()), ""


def _share(amount: int | str | None, total: int) -> int:
    """An absolute number, or a percentage of the total, rounded up."""
    if isinstance(amount, str) and amount.endswith("%"):
        return math.ceil(int(amount[:-1]) * total / 100)
    return int(amount or 0)
