"""ReplicaSet controller: a number of pods of one template."""

from collections.abc import Hashable, Iterable
from types import MappingProxyType

from volcano.base.clock import Instant
from volcano.controllers.kubernetes.pods import (
    by_dispensability,
    claims,
    count_available,
    is_active,
    is_orphan,
    is_pod_of,
    is_ready,
    pod_from_template,
    would_change,
)
from volcano.kube.api.kinds import POD, REPLICA_SET
from volcano.kube.api.manifest import (
    Key,
    Manifest,
    controller_of,
    is_deleting,
    key_of,
    labels_of,
    owner_reference,
    uid_of,
)
from volcano.kube.client.operations import Concurrent, Create, Delete, Operation, Patch
from volcano.kube.client.protocol import Event, Watch
from volcano.kube.controllers.controller import NOTHING, Plan, Reconciler

BURST = 500  # pods created or deleted in one reconciliation


class ReplicaSetController(Reconciler):
    """Creates and deletes pods until as many are active as the ReplicaSet asks for."""

    name = "replicaset"
    watches = (Watch(REPLICA_SET), Watch(POD))
    owner_kinds = MappingProxyType({POD: (REPLICA_SET, None)})

    def __init__(self) -> None:
        super().__init__()
        self.indexer.add_controller_index(POD)
        self.indexer.add_index(
            POD, "orphan", lambda pod: (pod["metadata"]["namespace"],) if is_orphan(pod) else ()
        )
        self.indexer.add_index(REPLICA_SET, "namespace", lambda owner: (owner["metadata"]["namespace"],))

    def accepts(self, event: Event) -> bool:
        return event.kind != POD or is_pod_of(event.object, REPLICA_SET) or is_orphan(event.object)

    def is_irrelevant(self, event: Event) -> bool:
        return (
            event.kind is POD and controller_of(event.object) is None and not self._sets_beside(event.object)
        )

    def keys(self, event: Event) -> Iterable[Hashable]:
        manifest: Manifest = event.object
        if event.kind == REPLICA_SET:
            return (key_of(manifest),)
        owner = controller_of(manifest)
        if owner is not None:
            return (
                (Key(manifest["metadata"]["namespace"], owner["name"]),)
                if owner["kind"] == REPLICA_SET.kind
                else ()
            )
        return tuple(key_of(owner) for owner in self._sets_beside(manifest) if claims(owner, manifest))

    def _sets_beside(self, pod: Manifest) -> list[Manifest]:
        """The ReplicaSets of a pod's namespace."""
        return self.indexer.by_index(REPLICA_SET, "namespace", pod["metadata"]["namespace"])

    def reconcile(self, key: Hashable, now: Instant) -> Plan:
        assert isinstance(key, Key)
        owner = self.indexer.get(REPLICA_SET, key)
        if owner is None or is_deleting(owner):
            return NOTHING
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
        if would_change(owner.get("status") or {}, status):
            plan.append(Patch(REPLICA_SET, key, {"status": status}, "status"))
        return Plan(plan, again)

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
    available, again = count_available(active, int(owner["spec"].get("minReadySeconds", 0)), now)
    template_labels = ((owner["spec"].get("template") or {}).get("metadata") or {}).get("labels") or {}
    labeled = sum(all(labels_of(pod).get(k) == v for k, v in template_labels.items()) for pod in active)
    ready = sum(map(is_ready, active))
    status: Manifest = {"replicas": len(active), "observedGeneration": owner["metadata"].get("generation", 1)}
    for name, count in (
        ("fullyLabeledReplicas", labeled),
        ("readyReplicas", ready),
        ("availableReplicas", available),
    ):
        before = (owner.get("status") or {}).get(name)
        if count or before is not None:
            status[name] = count
    return status, again
