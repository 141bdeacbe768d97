"""Device cache: claims, device classes and slices as of the events so far, frozen for snapshots."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from volcano.kube.api import kinds
from volcano.kube.api.kinds import Kind
from volcano.model.devices import Devices, DeviceTable, PoolId, ResourceSlice
from volcano.model.parse_auxiliary import AuxiliaryObject
from volcano.model.parse_devices import DEVICE_KINDS


class DeviceCache:
    """Objects of resource.k8s.io. Claims change with every placement; the table of devices hardly ever does."""

    def __init__(self) -> None:
        self._objects: dict[Kind, dict[tuple[str, str], Any]] = {kind: {} for kind in DEVICE_KINDS}
        self._changed: set[Kind] = set()  # since the last view
        self._view = Devices()

    def apply(self, kind: Kind, changed: AuxiliaryObject, *, deleted: bool) -> bool:
        """Applies one event; returns whether it could make a pending pod schedulable."""
        objects, key = self._objects[kind], (changed.namespace, changed.name)
        known, value = objects.get(key), None if deleted else changed.value
        if known == value:
            return False
        if value is None:
            del objects[key]
        else:
            objects[key] = value
        self._changed.add(kind)
        if kind is not kinds.RESOURCE_CLAIM or known is None or value is None:
            return True
        # The claim of one pod that was allocated or reserved takes devices from others and gives none.
        gained = value.allocation is not None and len(value.reserved_for) >= len(known.reserved_for)
        return not (value.owner and gained)

    def view(self) -> Devices:
        """Devices, classes and claims; the same table and classes as long as those do not change."""
        objects = self._objects
        fields: dict[str, Any] = {}
        if kinds.RESOURCE_SLICE in self._changed:
            fields["table"] = device_table(objects[kinds.RESOURCE_SLICE].values())
        if kinds.DEVICE_CLASS in self._changed:
            fields["classes"] = {found.name: found for found in objects[kinds.DEVICE_CLASS].values()}
        if kinds.RESOURCE_CLAIM in self._changed:
            fields["claims"] = dict(objects[kinds.RESOURCE_CLAIM])
        if fields:
            self._view = replace(self._view, **fields)
            self._changed.clear()
        return self._view


def device_table(slices: Iterable[ResourceSlice]) -> DeviceTable:
    """The devices of complete pools: slices of an older generation than the newest do not count."""
    pools: dict[PoolId, list[ResourceSlice]] = {}
    for each in slices:
        known = pools.setdefault(each.pool, [])
        if known and known[0].generation != each.generation:
            if known[0].generation > each.generation:
                continue
            known.clear()
        known.append(each)
    complete, incomplete = [], []
    for pool in sorted(pools):
        parts = sorted(pools[pool], key=lambda part: part.name)
        names = [device.id for part in parts for device in part.devices]
        if len(parts) == parts[0].slices and len(names) == len(set(names)):
            complete.append(parts)
        else:
            incomplete.append(pool)
    return DeviceTable(
        tuple(device for parts in complete for part in parts for device in part.devices if device.usable),
        {
            (part.pool, *name): amount
            for parts in complete
            for part in parts
            for name, amount in part.counters.items()
        },
        tuple(incomplete),
    )
