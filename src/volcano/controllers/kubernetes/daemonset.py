"""DaemonSet controller: one pod on every eligible node."""

from collections.abc import Iterable, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any

from volcano.base.clock import Instant
from volcano.controllers.kubernetes.pods import (
    count_available,
    fingerprint,
    is_available,
    is_ready,
    min_ready,
    pod_from_template,
    present_counts,
    scaled,
    status_patch,
)
from volcano.kube.api.kinds import DAEMON_SET, NODE, POD
from volcano.kube.api.manifest import Key, Manifest, has_ended, is_deleting, key_of, labels_of, uid_of
from volcano.kube.api.selectors import node_selector
from volcano.kube.client.operations import Create, Delete, Operation
from volcano.kube.client.protocol import Event, Options, Watch
from volcano.kube.controllers.controller import ObjectReconciler, Plan, owner_keys

REVISION = "controller-revision-hash"
# Daemons tolerate the taints of unhealthy nodes, as in Kubernetes.
TOLERATIONS: tuple[Mapping[str, str], ...] = tuple(
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)


class DaemonSetController(ObjectReconciler):
    """Binds a pod to each eligible node by node affinity; the scheduler places it."""

    name = "daemonset"
    kind, owns = DAEMON_SET, (POD,)
    watches = (Watch(DAEMON_SET), Watch(POD), Watch(NODE))
    owner_kinds = MappingProxyType({POD: (DAEMON_SET,)})

    def __init__(self) -> None:
        super().__init__()
        self._shapes: dict[Key, object] = {}

    def accepts(self, event: Event) -> bool:
        return event.kind != POD or bool(owner_keys(event.object, DAEMON_SET))

    def keys(self, event: Event) -> Iterable[Key]:
        if event.kind != NODE:
            return super().keys(event)
        # Heartbeats are irrelevant: only changes that decide where daemons run are handled.
        node, key = event.object, event.object_key()
        shape = (labels_of(node), node["spec"].get("taints"), uid_of(node))
        if self._shapes.get(key) == shape and self.indexer.get(NODE, key):
            return ()
        self._shapes[key] = shape
        return [key_of(owner) for owner in self.indexer.all(DAEMON_SET)]

    def reconcile_object(self, owner: Manifest, now: Instant) -> Plan:
        tag = fingerprint(owner["spec"]["template"])
        by_node: dict[str, list[Manifest]] = {}
        for pod in self.indexer.owned(POD, owner):
            by_node.setdefault(_node_of(pod), []).append(pod)
        wanted = {key_of(node).name for node in self.indexer.all(NODE) if _fits(owner, node)}
        operations: list[Operation] = []
        for name in sorted(wanted | by_node.keys()):
            operations += self._on_node(owner, name, by_node.get(name, []), tag, wanted=name in wanted)
        operations += self._roll(owner, by_node, wanted, tag, now)
        operations += status_patch(DAEMON_SET, owner, _status(owner, by_node, wanted, tag, now))
        _, again = count_available(chain(*by_node.values()), min_ready(owner), now)
        return Plan(operations, again)

    def _on_node(
        self, owner: Manifest, node: str, pods: list[Manifest], tag: str, *, wanted: bool
    ) -> Iterable[Operation]:
        living = [pod for pod in pods if not is_deleting(pod)]
        keep = [pod for pod in living if not has_ended(pod)][:1] if wanted else []
        for pod in living:
            if pod not in keep:
                yield Delete(POD, key_of(pod), Options(uid=uid_of(pod)))
        if wanted and not pods:
            yield Create(POD, _daemon(owner, node, tag))

    def _roll(
        self, owner: Manifest, by_node: dict[str, list[Manifest]], wanted: set[str], tag: str, now: Instant
    ) -> Iterable[Operation]:
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return
        limit = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)
        allowed = max(scaled(limit, len(wanted), round_up=True), 1)
        available = sum(any(is_available(owner, p, now) for p in by_node.get(n, ())) for n in wanted)
        unavailable = len(wanted) - available
        for node in sorted(wanted):
            for pod in by_node.get(node, ()):
                if labels_of(pod).get(REVISION) == tag or is_deleting(pod) or has_ended(pod):
                    continue
                healthy = is_available(owner, pod, now)
                if healthy and unavailable >= allowed:
                    return
                unavailable += healthy
                yield Delete(POD, key_of(pod), Options(uid=uid_of(pod)))


def _daemon(owner: Manifest, node: str, tag: str) -> Manifest:
    pod = pod_from_template(owner["spec"]["template"], owner)
    pod["metadata"].setdefault("labels", {})[REVISION] = tag
    spec = pod["spec"]
    spec["tolerations"] = [*(spec.get("tolerations") or ()), *TOLERATIONS]
    if spec.get("hostNetwork"):
        unavailable = {
            "key": "node.kubernetes.io/network-unavailable",
            "operator": "Exists",
            "effect": "NoSchedule",
        }
        spec["tolerations"].append(unavailable)
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = (affinity.get(required) or {}).get("nodeSelectorTerms") or [{}]
    affinity[required] = {"nodeSelectorTerms": [{**term, "matchFields": [field]} for term in terms]}
    return pod


def _node_of(pod: Manifest) -> str:
    """The node a daemon pod runs on or is created for."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    affinity = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in affinity.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and field.get("values"):
                return str(field["values"][0])
    return ""


def _fits(owner: Manifest, node: Manifest) -> bool:
    spec = owner["spec"]["template"].get("spec") or {}
    labels, name = labels_of(node), key_of(node).name
    if spec.get("nodeName") and spec["nodeName"] != name:
        return False
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if required and not node_selector(required).matches(name, labels):
        return False
    tolerations = [*(spec.get("tolerations") or ()), *TOLERATIONS]
    taints = node["spec"].get("taints") or ()
    return all(
        taint["effect"] == "PreferNoSchedule"
        or any(_tolerates(toleration, taint) for toleration in tolerations)
        for taint in taints
    )


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return not toleration.get("key") or toleration["key"] == taint["key"]
    same_key = bool(toleration.get("key") == taint["key"])
    return same_key and bool(toleration.get("value", "") == taint.get("value", ""))


def _status(
    owner: Manifest, by_node: dict[str, list[Manifest]], wanted: set[str], tag: str, now: Instant
) -> Manifest:
    current = {node: [pod for pod in pods if not is_deleting(pod)] for node, pods in by_node.items()}
    placed = {node: pods for node, pods in current.items() if pods and node in wanted}
    available = sum(any(is_available(owner, pod, now) for pod in pods) for pods in placed.values())
    updated = sum(any(labels_of(p).get(REVISION) == tag for p in pods) for pods in placed.values())
    counts = {
        "updatedNumberScheduled": updated,
        "numberAvailable": available,
        "numberUnavailable": len(wanted) - available,
    }
    return {
        "observedGeneration": owner["metadata"].get("generation", 1),
        "desiredNumberScheduled": len(wanted),
        "currentNumberScheduled": len(placed),
        "numberMisscheduled": sum(bool(pods) for node, pods in current.items() if node not in wanted),
        "numberReady": sum(any(map(is_ready, pods)) for pods in placed.values()),
        **present_counts(owner, counts),
    }
