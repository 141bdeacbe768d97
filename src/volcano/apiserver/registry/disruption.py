"""Disruption budgets: covered pods, healthy pods and allowed disruptions."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import orjson

from volcano.apiserver.interfaces import Lookup
from volcano.apiserver.registry.kind_table import KindTable
from volcano.apiserver.storage.store import Store
from volcano.kube.kinds import POD, REPLICA_SET
from volcano.kube.manifest import Key, Manifest, condition_of, controller_of
from volcano.kube.selectors import LabelSelector, from_object

# Finds the replicas of a pod's controller, with its uid; None when they are unknown.
Replicas = Callable[[Manifest], tuple[str, int] | None]


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a budget; with a `problem`, it could not be computed and allows no disruption."""

    expected: int = 0
    desired: int = 0
    healthy: int = 0
    allowed: int = 0
    problem: str = ""


def selector_of(budget: Manifest) -> LabelSelector:
    """The selector of a budget; matches nothing when it has none."""
    return from_object(budget["spec"].get("selector"))


def covered_pods(store: Store, budget: Manifest) -> list[Manifest]:
    """The pods that a budget covers; only those are decoded."""
    selector, pods = selector_of(budget), store.collection(POD.resource)
    records = (pods.records[key] for key in pods.range(budget["metadata"]["namespace"]))
    return [orjson.loads(record.data) for record in records if selector.matches(record.labels)]


def is_ready(pod: Manifest) -> bool:
    condition = condition_of(pod, "Ready")
    return condition is not None and condition.get("status") == "True"


def assess(budget: Manifest, pods: Iterable[Manifest], replicas: Replicas) -> Standing:
    """The state of a budget, given every pod it covers."""
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


def replicas_of_owner(lookup: Lookup, kinds: KindTable) -> Replicas:
    """Finds the controller of a pod, or the controller of that, and reads its replicas."""

    def find(pod: Manifest) -> tuple[str, int] | None:
        holder, found = pod, None
        while (owner := controller_of(holder)) is not None:
            served = kinds.by_manifest(owner["apiVersion"], owner["kind"])
            if served is None or "scale" not in served.kind.subresources:
                break
            namespace = pod["metadata"]["namespace"] if served.kind.namespaced else ""
            manifest = lookup.find(served.kind, Key(namespace, owner["name"]))
            if manifest is None or manifest["metadata"]["uid"] != owner["uid"]:
                break
            holder, found = manifest, (owner["uid"], (manifest.get("spec") or {}).get("replicas", 1))
            if served.storage.resource != REPLICA_SET.resource:
                break
        return found

    return find


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
