"""Auxiliary cache: volumes, quotas, budgets, namespaces, topologies and priority classes, frozen for snapshots."""

from collections.abc import Collection
from typing import Any

from volcano.kube.api import kinds
from volcano.kube.api.kinds import Kind
from volcano.model.parse_auxiliary import AUXILIARY_DECODERS, AuxiliaryObject
from volcano.model.pod_owners import PodOwners
from volcano.model.storage import Storage


class AuxiliaryCache:
    """Objects of the kinds in AUXILIARY_DECODERS. They change rarely: views are built again after any change."""

    def __init__(self, ignored_provisioners: Collection[str]) -> None:
        self._ignored_provisioners = frozenset(ignored_provisioners)
        self._objects: dict[Kind, dict[tuple[str, str], Any]] = {kind: {} for kind in AUXILIARY_DECODERS}
        self._priorities: dict[str, int] = {}
        self._default_priority = 0
        self._fields: dict[str, Any] = {}

    def apply(self, kind: Kind, changed: AuxiliaryObject, *, deleted: bool) -> bool:
        """Applies one event; returns whether it changed anything."""
        objects = self._objects[kind]
        key = (changed.namespace, changed.name)
        if not deleted and objects.get(key) == changed.value:
            return False
        if deleted or changed.value is None:
            objects.pop(key, None)
        else:
            objects[key] = changed.value
        self._fields.clear()
        if kind is kinds.PRIORITY_CLASS:
            self._priorities = {found.name: found.value for found in objects.values()}
            self._default_priority = next((found.value for found in objects.values() if found.default), 0)
        return True

    def has(self, kind: Kind, name: str) -> bool:
        """Whether an object without a namespace exists; a malformed one does not count."""
        return ("", name) in self._objects[kind]

    def priority(self, priority_class: str) -> int:
        """Value of a priority class, or of the default one when it does not exist."""
        return self._priorities.get(priority_class, self._default_priority)

    def snapshot_fields(self) -> dict[str, Any]:
        """Fields of the snapshot, by name."""
        if not self._fields:
            objects = self._objects
            quotas: dict[str, tuple[Any, ...]] = {}
            for (namespace, _), quota in objects[kinds.RESOURCE_QUOTA].items():
                quotas[namespace] = (*quotas.get(namespace, ()), quota)
            self._fields = {
                "namespaces": {found.name: found.labels for found in objects[kinds.NAMESPACE].values()},
                "budgets": tuple(objects[kinds.POD_DISRUPTION_BUDGET].values()),
                "quotas": quotas,
                "priorities": {found.name: found.value for found in objects[kinds.PRIORITY_CLASS].values()},
                "hypernodes": {found.name: found for found in objects[kinds.HYPER_NODE].values()},
                "node_reservations": tuple(
                    sorted(objects[kinds.NODE_RESERVATION].values(), key=lambda found: str(found.name))
                ),
                "device_configs": dict(objects[kinds.CONFIG_MAP]),
                "numa_topologies": {found.node: found for found in objects[kinds.NUMATOPOLOGY].values()},
                "pod_owners": PodOwners.of(
                    objects[kinds.SERVICE].values(),
                    (
                        owner
                        for kind in (kinds.REPLICATION_CONTROLLER, kinds.REPLICA_SET, kinds.STATEFUL_SET)
                        for owner in objects[kind].values()
                    ),
                ),
                "storage": Storage(
                    dict(objects[kinds.PERSISTENT_VOLUME_CLAIM]),
                    {found.name: found for found in objects[kinds.PERSISTENT_VOLUME].values()},
                    {found.name: found for found in objects[kinds.STORAGE_CLASS].values()},
                    {found.name: found for found in objects[kinds.CSI_NODE].values()},
                    {found.name: found for found in objects[kinds.CSI_DRIVER].values()},
                    tuple(objects[kinds.CSI_STORAGE_CAPACITY].values()),
                    self._ignored_provisioners,
                ),
            }
        return self._fields
