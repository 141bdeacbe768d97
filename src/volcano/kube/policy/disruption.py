"""Disruption budgets: the pods they cover, how many must stay healthy, how many may be evicted."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from volcano.kube.manifest import Manifest, condition_of
from volcano.kube.selectors import LabelSelector, from_object

# How many replicas the controller of a pod asks for, with its uid; None when nobody knows.
Replicas = Callable[[Manifest], tuple[str, int] | None]


@dataclass(frozen=True, slots=True)
class Standing:
    """How a budget stands now; `problem` says why it could not be computed, and then nothing is allowed."""

    expected: int = 0
    desired: int = 0
    healthy: int = 0
    allowed: int = 0
    problem: str = ""


def selector_of(budget: Manifest) -> LabelSelector:
    """Which pods a budget covers; none when it has no selector."""
    return from_object(budget["spec"].get("selector"))


def is_ready(pod: Manifest) -> bool:
    condition = condition_of(pod, "Ready")
    return condition is not None and condition.get("status") == "True"


def assess(budget: Manifest, pods: Iterable[Manifest], replicas: Replicas) -> Standing:
    """How a budget stands, given every pod it covers."""
    pods = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]
    spec = budget["spec"]
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if most is None and isinstance(least, int):
        expected, problem = len(pods), ""
    elif most is None and least is None:
        return Standing(expected=len(pods), healthy=_healthy(pods), allowed=_healthy(pods))
    else:
        expected, problem = _asked_for(pods, replicas)
    if most is not None:
        desired = max(expected - _share(most, expected), 0)
    else:
        desired = _share(least, expected)
    healthy = _healthy(pods)
    allowed = 0 if problem or not expected else max(healthy - desired, 0)
    return Standing(expected, desired, healthy, allowed, problem)


def _healthy(pods: Iterable[Manifest]) -> int:
    return sum(is_ready(pod) and not pod["metadata"].get("deletionTimestamp") for pod in pods)


def _asked_for(pods: Iterable[Manifest], replicas: Replicas) -> tuple[int, str]:
    """The replicas that the pods' controllers ask for together."""
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
