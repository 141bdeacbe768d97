"""Node lifecycle controller: taints nodes whose lease expires, evicts pods when their tolerationSeconds expire, and
removes the pods of nodes that are gone."""

from collections.abc import Iterable, Mapping
from typing import Any

from volcano.base.clock import Instant, parse_timestamp
from volcano.kube.api.kinds import LEASE, NODE, POD
from volcano.kube.api.manifest import (
    Key,
    Manifest,
    condition_of,
    has_ended,
    is_deleting,
    key_of,
    labels_of,
    uid_of,
)
from volcano.kube.api.names import SIMULATED
from volcano.kube.client.operations import Delete, Operation, Patch
from volcano.kube.client.protocol import Event, Options, Watch
from volcano.kube.controllers.controller import Plan, Reconciler
from volcano.kube.controllers.events import record_event

LEASE_NAMESPACE = "kube-node-lease"
GRACE = 50.0
ORPHAN_QUARANTINE = 40.0  # seconds that a node must be missing before its pods are removed
SOURCE = "node-controller"
UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
PRESSURES = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
}
OURS = frozenset((UNREACHABLE, NOT_READY, UNSCHEDULABLE, *PRESSURES.values()))


class NodeLifecycleController(Reconciler[Key]):
    """Marks nodes without heartbeats as NotReady, taints them by their conditions, and evicts pods by
    NoExecute taints."""

    name = "node-lifecycle"
    watches = (Watch(NODE), Watch(LEASE, namespace=LEASE_NAMESPACE), Watch(POD, fields="spec.nodeName!="))

    def __init__(self, *, grace: float = GRACE) -> None:
        super().__init__()
        self._grace = grace
        # By node: the last heartbeat and the monotonic time of its receipt.
        self._heartbeats: dict[str, tuple[object, float]] = {}
        # By node: its identity for events, and its last readiness.
        self._known: dict[str, tuple[Manifest, str]] = {}
        # By node: the monotonic time since which pods are on it without a Node.
        self._missing: dict[str, float] = {}
        self.indexer.add_index(POD, "node", lambda pod: (pod["spec"].get("nodeName", ""),))

    def is_irrelevant(self, event: Event) -> bool:
        """Pods on healthy nodes are irrelevant."""
        return event.kind is POD and self._is_healthy(event.object["spec"].get("nodeName", ""))

    def keys(self, event: Event) -> Iterable[Key]:
        manifest: Manifest = event.object
        if event.kind == POD:
            node = manifest["spec"].get("nodeName", "")
            return () if self._is_healthy(node) else (Key("", node),)
        return (Key("", manifest["metadata"]["name"]),)

    def _is_healthy(self, name: str) -> bool:
        """Whether pods may stay on a node."""
        node = self.indexer.get(NODE, Key("", name))
        return node is not None and not _no_execute(node)

    def reconcile(self, key: Key, now: Instant) -> Plan:
        node = self.indexer.get(NODE, key)
        if node is None:
            self._heartbeats.pop(key.name, None)
            return self._without_node(key.name, now)
        self._missing.pop(key.name, None)
        heartbeat_age = self._heartbeat_age(node, now)
        operations: list[Operation] = []
        if heartbeat_age >= self._grace:
            operations += self._declare_unknown(node, now)
        operations += self._readiness_changes(node, now, is_unknown=heartbeat_age >= self._grace)
        taints = _taints(node, now)
        if taints != (node["spec"].get("taints") or []):
            patch = {
                "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
                "spec": {"taints": taints},
            }
            operations.append(Patch(NODE, key, patch))
        evictions, tolerated_for = self._evictions(node, now)
        operations += evictions
        waits = [tolerated_for, self._grace - heartbeat_age if heartbeat_age < self._grace else float("inf")]
        soonest = min(waits)
        return Plan(operations, None if soonest == float("inf") else max(soonest, 0.05))

    def _heartbeat_age(self, node: Manifest, now: Instant) -> float:
        """Seconds since the last heartbeat, by this process's clock: the node's may be wrong."""
        name = key_of(node).name
        lease = self.indexer.get(LEASE, Key(LEASE_NAMESPACE, name))
        ready = condition_of(node, "Ready") or {}
        sign = ((lease or {}).get("spec", {}).get("renewTime"), ready.get("lastHeartbeatTime"))
        known = self._heartbeats.get(name)
        if known is None or known[0] != sign:
            self._heartbeats[name] = (sign, now.monotonic)
            return 0.0
        return now.monotonic - known[1]

    def _declare_unknown(self, node: Manifest, now: Instant) -> Iterable[Operation]:
        ready = condition_of(node, "Ready")
        if ready is None or ready.get("status") != "Unknown":
            conditions = [
                {
                    **condition,
                    "status": "Unknown",
                    "reason": "NodeStatusUnknown",
                    "message": "Kubelet stopped posting node status.",
                    "lastTransitionTime": now.timestamp(),
                }
                for condition in (node.get("status") or {}).get("conditions") or ({"type": "Ready"},)
            ]
            yield Patch(NODE, key_of(node), {"status": {"conditions": conditions}}, "status")

    def _readiness_changes(self, node: Manifest, now: Instant, *, is_unknown: bool) -> Iterable[Operation]:
        """Events of a node that is new or has stopped being ready, whose pods are then marked as not ready."""
        name, uid = key_of(node).name, uid_of(node)
        ready = "Unknown" if is_unknown else (condition_of(node, "Ready") or {}).get("status", "")
        known = self._known.get(name)
        identity = {"metadata": {"name": name, "uid": uid}}
        self._known[name] = identity, ready
        if known is None or uid_of(known[0]) != uid:
            # Simulated nodes come in thousands.
            if SIMULATED not in labels_of(node):
                text = f"Node {name} event: Registered Node {name} in Controller"
                yield record_event(identity, NODE, "RegisteredNode", text, now, source=SOURCE, occasion="")
        elif known[1] == "True" and ready != "True":
            text = f"Node {name} status is now: NodeNotReady"
            yield record_event(identity, NODE, "NodeNotReady", text, now, source=SOURCE)
            for pod in self.indexer.by_index(POD, "node", name):
                yield from _mark_not_ready(pod, now)

    def _evictions(self, node: Manifest, now: Instant) -> tuple[list[Operation], float]:
        """Deletes the pods that do not, or no longer, tolerate the node's NoExecute taints."""
        operations: list[Operation] = []
        soonest = float("inf")
        taints = _no_execute(node)
        if not taints:
            return operations, soonest
        for pod in self.indexer.by_index(POD, "node", key_of(node).name):
            if is_deleting(pod) or has_ended(pod):
                continue
            wait = min(_toleration_left(pod, taint, now) for taint in taints)
            if wait <= 0:
                operations.append(Delete(POD, key_of(pod), Options(uid=uid_of(pod))))
            else:
                soonest = min(soonest, wait)
        return operations, soonest

    def _without_node(self, name: str, now: Instant) -> Plan:
        """Removes the pods of a node that has been missing for a while: no kubelet will finish them. A node that
        registers again in the meantime keeps its pods."""
        operations: list[Operation] = []
        known = self._known.pop(name, None)
        if known is not None:
            text = f"Node {name} event: Removing Node {name} from Controller"
            operations.append(record_event(known[0], NODE, "RemovingNode", text, now, source=SOURCE))
        pods = self.indexer.by_index(POD, "node", name) if name else ()
        if not pods:
            self._missing.pop(name, None)
            return Plan(operations)
        left = self._missing.setdefault(name, now.monotonic) + ORPHAN_QUARANTINE - now.monotonic
        if left > 0:
            return Plan(operations, left)
        for pod in pods:
            operations += _remove_orphan(pod, now)
        return Plan(operations)


def _no_execute(node: Manifest) -> list[Mapping[str, Any]]:
    return [taint for taint in node["spec"].get("taints") or () if taint["effect"] == "NoExecute"]


def _taints(node: Manifest, now: Instant) -> list[Manifest]:
    """The taints that the node's conditions ask for, beside those of others."""
    ready = (condition_of(node, "Ready") or {}).get("status")
    wanted: list[tuple[str, str]] = []
    if ready == "Unknown":
        wanted += [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]
    elif ready == "False":
        wanted += [(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]
    if node["spec"].get("unschedulable"):
        wanted.append((UNSCHEDULABLE, "NoSchedule"))
    for kind, key in PRESSURES.items():
        if (condition_of(node, kind) or {}).get("status") == "True":
            wanted.append((key, "NoSchedule"))
    present = node["spec"].get("taints") or []
    kept = [t for t in present if t["key"] not in OURS or (t["key"], t["effect"]) in wanted]
    held = {(taint["key"], taint["effect"]) for taint in kept}
    fresh = [
        {"key": key, "effect": effect, "timeAdded": now.timestamp()}
        for key, effect in wanted
        if (key, effect) not in held
    ]
    return [*kept, *fresh]


def _toleration_left(pod: Manifest, taint: Mapping[str, Any], now: Instant) -> float:
    """Seconds for which a pod still tolerates a taint; infinity when it does for ever, 0 when not at all."""
    best = 0.0
    for toleration in pod["spec"].get("tolerations") or ():
        if toleration.get("effect") not in (None, "", "NoExecute"):
            continue
        exists = toleration.get("operator") == "Exists"
        if toleration.get("key") and toleration["key"] != taint["key"]:
            continue
        if not exists and (
            not toleration.get("key") or toleration.get("value", "") != taint.get("value", "")
        ):
            continue
        seconds = toleration.get("tolerationSeconds")
        if seconds is None:
            return float("inf")
        since = parse_timestamp(taint["timeAdded"]) if taint.get("timeAdded") else now.wall
        best = max(best, since + seconds - now.wall)
    return best


def _remove_orphan(pod: Manifest, now: Instant) -> Iterable[Operation]:
    """Ends a pod without a node as failed, for its owner to see why, and removes it."""
    if not has_ended(pod):
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "lastProbeTime": None,
            "lastTransitionTime": now.timestamp(),
        }
        known = (pod.get("status") or {}).get("conditions") or ()
        others = [other for other in known if other["type"] != "DisruptionTarget"]
        status = {"phase": "Failed", "conditions": [*others, condition]}
        patch = {"metadata": {"uid": uid_of(pod)}, "status": status}
        yield Patch(POD, key_of(pod), patch, "status", if_present=True)
    yield Delete(POD, key_of(pod), Options(grace_seconds=0, uid=uid_of(pod)), if_present=True)


def _mark_not_ready(pod: Manifest, now: Instant) -> Iterable[Operation]:
    ready = condition_of(pod, "Ready")
    if ready is None or ready.get("status") != "True":
        return
    conditions = [
        {**condition, "status": "False", "reason": "NodeNotReady", "lastTransitionTime": now.timestamp()}
        if condition.get("type") == "Ready"
        else condition
        for condition in pod["status"]["conditions"]
    ]
    yield Patch(
        POD, key_of(pod), {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": conditions}}, "status"
    )
    yield record_event(pod, POD, "NodeNotReady", "Node is not ready", now, source=SOURCE, warning=True)
