"""ResourceQuota controller: `status.hard` and `status.used` of every quota."""

from collections.abc import Iterable, Sequence

from volcano.clock import Instant
from volcano.kube import kinds
from volcano.kube.client import Event, Options, PatchType
from volcano.kube.controller import NOTHING, ObjectReconciler, Plan, Watch
from volcano.kube.manifest import Key, Manifest, key_of
from volcano.kube.operations import Patch
from volcano.kube.policy.quota import COUNTED, format_amount, limited, used_by


class ResourceQuotaController(ObjectReconciler):
    """Updates the status of quotas when objects that they count are created, changed or deleted."""

    name = "resource-quota"
    kind = kinds.RESOURCE_QUOTA
    watches: Sequence[Watch] = tuple(Watch(kind) for kind in COUNTED)

    def __init__(self) -> None:
        super().__init__()
        self.indexer.add_namespace_index(*COUNTED)

    def is_irrelevant(self, event: Event) -> bool:
        return event.kind is not kinds.RESOURCE_QUOTA and not self._quotas_of(event)

    def _quotas_of(self, event: Event) -> list[Manifest]:
        """The quotas of an object's namespace."""
        return self.indexer.by_index(kinds.RESOURCE_QUOTA, "namespace", event.object_key().namespace)

    def keys(self, event: Event) -> Iterable[Key]:
        quotas = self._quotas_of(event)
        if not quotas and event.kind != kinds.RESOURCE_QUOTA:
            return ()
        own = [key_of(event.object)] if event.kind == kinds.RESOURCE_QUOTA else []
        return [*own, *(key_of(quota) for quota in quotas if event.kind in limited(quota))]

    def reconcile_object(self, quota: Manifest, now: Instant) -> Plan:
        key = key_of(quota)
        hard = (quota.get("spec") or {}).get("hard") or {}
        present = [
            (kind, item)
            for kind in limited(quota)
            for item in self.indexer.by_index(kind, "namespace", key.namespace)
        ]
        used = {name: format_amount(value, hard[name]) for name, value in used_by(quota, present).items()}
        wanted = {"hard": dict(hard), "used": used}
        if (quota.get("status") or {}) == wanted:
            return NOTHING
        patch = [{"op": "add", "path": "/status", "value": wanted}]
        options = Options(patch_type=PatchType.JSON)
        return Plan([Patch(kinds.RESOURCE_QUOTA, key, patch, "status", options)])
