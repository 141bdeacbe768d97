"""ReplicaSet controller: a number of pods of one template."""

from collections.abc import Iterable
from types import MappingProxyType

from volcano.clock import Instant
from volcano.controllers.kubernetes.pods import (
    by_dispensability,
    claims,
    count_available,
    is_active,
    is_orphan,
    is_ready,
    min_ready,
    pod_from_template,
    present_counts,
    status_patch,
)
from volcano.kube.client import Event
from volcano.kube.controller import ObjectReconciler, Plan, Watch, owner_keys
from volcano.kube.kinds import POD, REPLICA_SET
from volcano.kube.manifest import (
    Key,
    Manifest,
    controller_of,
    key_of,
    labels_of,
    owner_reference,
    uid_of,
)
from volcano.kube.operations import Concurrent, Create, Delete, Operation, Patch

BURST = 500  # pods created or deleted in one reconciliation


class ReplicaSetController(ObjectReconciler):
    """Creates and deletes pods until as many are active as the ReplicaSet asks for."""

    name = "replicaset"
    kind, owns = REPLICA_SET, (POD,)
    watches = (Watch(REPLICA_SET), Watch(POD))
    owner_kinds = MappingProxyType({POD: (REPLICA_SET, None)})

    def __init__(self) -> None:
        super().__init__()
        self.indexer.add_index(
            POD, "orphan", lambda pod: (pod["metadata"]["namespace"],) if is_orphan(pod) else ()
        )
        self.indexer.add_namespace_index(REPLICA_SET)

    def accepts(self, event: Event) -> bool:
        return event.kind != POD or bool(owner_keys(event.object, REPLICA_SET)) or is_orphan(event.object)

    def is_irrelevant(self, event: Event) -> bool:
        return (
            event.kind is POD and controller_of(event.object) is None and not self._sets_beside(event.object)
        )

    def keys(self, event: Event) -> Iterable[Key]:
        if event.kind == REPLICA_SET or controller_of(event.object) is not None:
            return super().keys(event)
        sets = self._sets_beside(event.object)
        return [key_of(owner) for owner in sets if claims(owner, event.object)]

    def _sets_beside(self, pod: Manifest) -> list[Manifest]:
        """The ReplicaSets of a pod's namespace."""
        return self.indexer.by_index(REPLICA_SET, "namespace", pod["metadata"]["namespace"])

    def reconcile_object(self, owner: Manifest, now: Instant) -> Plan:
        operations: list[Operation] = [*self._adoptions(owner)]
        if operations:
            return Plan(operations)  # missing pods are counted after the adoption
        pods = self.indexer.owned(POD, owner)
        active = [pod for pod in pods if is_active(pod)]
        missing = int(owner["spec"].get("replicas", 1)) - len(active)
        created = (
            Create(POD, pod_from_template(owner["spec"]["template"], owner))
            for _ in range(min(missing, BURST))
        )
        surplus = by_dispensability(active)[: min(max(-missing, 0), BURST)]
        changes: tuple[Operation, ...] = (
            *created,
            *(Delete(POD, key_of(pod), if_present=True) for pod in surplus),
        )
        plan: list[Operation | Concurrent] = [Concurrent(changes)] if changes else []
        status, again = replica_status(owner, active, now)
        return Plan([*plan, *status_patch(REPLICA_SET, owner, status)], again)

    def _adoptions(self, owner: Manifest) -> Iterable[Operation]:
        """Adopts matching pods without a controller."""
        for pod in self.indexer.by_index(POD, "orphan", owner["metadata"]["namespace"]):
            if is_active(pod) and claims(owner, pod):
                references = [*(pod["metadata"].get("ownerReferences") or ()), owner_reference(owner)]
                yield Patch(
                    POD, key_of(pod), {"metadata": {"uid": uid_of(pod), "ownerReferences": references}}
                )


def replica_status(owner: Manifest, active: list[Manifest], now: Instant) -> tuple[Manifest, float | None]:
    """The status of a ReplicaSet with these active pods, and the seconds until it changes without an event."""
    available, again = count_available(active, min_ready(owner), now)
    template_labels = ((owner["spec"].get("template") or {}).get("metadata") or {}).get("labels") or {}
    labeled = sum(all(labels_of(pod).get(k) == v for k, v in template_labels.items()) for pod in active)
    ready = sum(map(is_ready, active))
    counts = {"fullyLabeledReplicas": labeled, "readyReplicas": ready, "availableReplicas": available}
    status = {"replicas": len(active), "observedGeneration": owner["metadata"].get("generation", 1)}
    return {**status, **present_counts(owner, counts)}, again
