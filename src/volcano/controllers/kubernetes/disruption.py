"""Disruption controller: the status of PodDisruptionBudgets."""

from collections.abc import Iterable, Sequence

from volcano.clock import Instant
from volcano.controllers.kubernetes.served_kinds import ServedKinds
from volcano.kube.client import Event, EventType
from volcano.kube.controller import NOTHING, Plan, Reconciler, Watch
from volcano.kube.kinds import CRD, POD, POD_DISRUPTION_BUDGET, REPLICA_SET
from volcano.kube.manifest import Key, Manifest, controller_of, key_of, labels_of, uid_of
from volcano.kube.operations import Patch
from volcano.kube.policy.disruption import DisruptionStatus, assess, selector_of


class DisruptionController(Reconciler[Key]):
    """Updates budgets when their pods, or the controllers of these, change. Pods of namespaces without a
    budget are only indexed."""

    name = "disruption"

    def __init__(self) -> None:
        super().__init__()
        self._kinds = ServedKinds()
        self.indexer.add_namespace_index(POD, POD_DISRUPTION_BUDGET)
        self._base = (Watch(POD_DISRUPTION_BUDGET), Watch(POD), Watch(CRD))
        self.watches: Sequence[Watch] = (*self._base, *self._scaled())

    def on_event(self, event: Event) -> None:
        super().on_event(event)
        if event.kind is CRD and event.type is not EventType.BOOKMARK and self._kinds.on_event(event):
            watches = (*self._base, *self._scaled())
            if watches != self.watches:
                self.watches = watches

    def is_irrelevant(self, event: Event) -> bool:
        return event.kind is POD and not self._budgets(event)

    def keys(self, event: Event) -> Iterable[Key]:
        if event.kind is POD_DISRUPTION_BUDGET:
            return (event.object_key(),)
        budgets = self._budgets(event)
        if event.kind is POD:
            labels = labels_of(event.object)
            return [key_of(budget) for budget in budgets if selector_of(budget).matches(labels)]
        return [] if event.kind is CRD else [key_of(budget) for budget in budgets]

    def reconcile(self, key: Key, now: Instant) -> Plan:
        budget = self.indexer.get(POD_DISRUPTION_BUDGET, key)
        if budget is None:
            return NOTHING
        selector = selector_of(budget)
        pods = self.indexer.by_index(POD, "namespace", key.namespace)
        covered = [pod for pod in pods if selector.matches(labels_of(pod))]
        status = status_of(budget, assess(budget, covered, self._replicas), now)
        if status == budget.get("status"):
            return NOTHING
        if "disruptedPods" in (budget.get("status") or {}):
            status["disruptedPods"] = None  # a merge patch removes it
        patch = {"metadata": {"uid": uid_of(budget)}, "status": status}
        return Plan([Patch(POD_DISRUPTION_BUDGET, key, patch, "status", if_present=True)])

    def _scaled(self) -> Iterable[Watch]:
        """The kinds with a scale subresource."""
        return [Watch(kind) for kind in self._kinds.stored() if "scale" in kind.subresources]

    def _budgets(self, event: Event) -> list[Manifest]:
        """The budgets in the namespace of an object."""
        return self.indexer.by_index(POD_DISRUPTION_BUDGET, "namespace", event.object_key().namespace)

    def _replicas(self, pod: Manifest) -> tuple[str, int] | None:
        """The uid and the replicas of the pod's controller, or of the Deployment of its ReplicaSet."""
        holder, replicas = pod, None
        while (owner := controller_of(holder)) is not None:
            kind = self._kinds.find(owner["apiVersion"], owner["kind"])
            if kind is None or "scale" not in kind.subresources:
                break
            namespace = pod["metadata"]["namespace"] if kind.namespaced else ""
            manifest = self.indexer.get(kind, Key(namespace, owner["name"]))
            if manifest is None or uid_of(manifest) != owner["uid"]:
                break
            holder, replicas = manifest, (owner["uid"], (manifest.get("spec") or {}).get("replicas", 1))
            if kind != REPLICA_SET:
                break
        return replicas


def status_of(budget: Manifest, standing: DisruptionStatus, now: Instant) -> Manifest:
    """The status of a budget."""
    before = budget.get("status") or {}
    allowed = standing.allowed > 0
    if standing.problem:
        reason, message = "SyncFailed", standing.problem
    else:
        reason, message = ("SufficientPods" if allowed else "InsufficientPods"), ""
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "observedGeneration": budget["metadata"].get("generation", 1),
        "lastTransitionTime": now.timestamp(),
        "reason": reason,
        "message": message,
    }
    conditions = list(before.get("conditions") or ())
    known = next((c for c in conditions if c.get("type") == "DisruptionAllowed"), None)
    if known is None:
        conditions.append(condition)
    else:
        if known.get("status") == condition["status"]:
            condition["lastTransitionTime"] = (
                known.get("lastTransitionTime") or condition["lastTransitionTime"]
            )
        conditions[conditions.index(known)] = condition
    return {
        **{field: value for field, value in before.items() if field != "disruptedPods"},
        "observedGeneration": budget["metadata"].get("generation", 1),
        "disruptionsAllowed": standing.allowed,
        "currentHealthy": standing.healthy,
        "desiredHealthy": standing.desired,
        "expectedPods": standing.expected,
        "conditions": conditions,
    }
