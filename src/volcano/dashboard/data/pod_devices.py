"""Devices of one pod: whole GPUs, shares of cards, MIG instances and devices of ResourceClaims."""

from collections import Counter
from collections.abc import Iterable, Sequence

from volcano.dashboard.data.claimed_devices import claim_results, claimed_devices
from volcano.dashboard.data.devices import Device, is_slot
from volcano.kube.api.manifest import Manifest, key_of

COLUMNS = ("Device", "Kind", "Part or claim", "Capacity")
Row = tuple[str, str, str, str]


def held_rows(devices: Iterable[Device], pod: Manifest) -> list[Row]:
    """A row for each device of its node that the pod has. Of whole devices only the number is known here."""
    rows: list[Row] = []
    whole: Counter[str] = Counter()
    for device in devices:
        for owner in device.owners:
            if owner.pod != str(key_of(pod)):
                continue
            if is_slot(device):
                whole[device.kind] += 1
            else:
                rows.append((device.name, device.kind, owner.part, device.capacity or device.uuid))
    return [(f"{count} of the node's", kind, "", "") for kind, count in whole.items()] + rows


def claimed_rows(slices: Sequence[Manifest], claims: Sequence[Manifest], pod: Manifest) -> list[Row]:
    """A row for each device that the claims of the pod got; without the slices of the node only with its name."""
    known = {
        (device.pool, device.name): device
        for device in claimed_devices(slices, claims, [pod])
        if device.owners
    }
    rows: list[Row] = []
    for claim in claims:
        name = f"claim {key_of(claim).name}"
        for driver, pool, device in claim_results(claim):
            found = known.get((f"{driver}/{pool}", device))
            kind, capacity = (found.kind, found.capacity or found.uuid) if found else (driver, "")
            rows.append((device, kind, name, capacity))
        if not any(True for _ in claim_results(claim)):
            rows.append(("none yet", "", name, ""))
    return rows
