"""Devices of a node and the pods that own them: whole GPUs, shared cards, MIG instances and NPUs."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from volcano.kube.api.fields import at
from volcano.kube.api.manifest import Manifest, annotations_of, key_of
from volcano.kube.devices import ascend, gpushare, vgpu
from volcano.views.amounts import (
    HUGE_PAGES,
    UNINTERESTING,
    amounts,
    short_name,
    shown,
)
from volcano.views.pods import job_of, pod_requests

MIG_PREFIX = "nvidia.com/mig-"
NPU_REGISTER = ascend.register_name("")
MIB = 2.0**20
SLOT = "slot "  # begins the name of a device whose index is known to its node only
MOST_SLOTS = 256  # of one resource that are shown one by one


@dataclass(frozen=True, slots=True)
class Owner:
    """A pod that has a device or a part of one."""

    pod: str  # namespace/name
    job: str  # namespace/name of its job or PodGroup; "" without one
    part: str = ""  # what it has of a shared device, such as `10Gi, 30 % of the cores`
    fraction: float = 1.0  # of the device, by memory

    def text(self) -> str:
        return f"{self.pod} ({self.part})" if self.part else self.pod


@dataclass(frozen=True, slots=True)
class Device:
    """One device of a node; without owners it is free."""

    name: str  # index of the card, or `slot 0` where only the node knows which card it is
    kind: str  # such as `gpu`, `mig-1g.5gb` or the type of a card
    owners: tuple[Owner, ...] = ()
    capacity: str = ""  # of a shared card
    healthy: bool = True
    uuid: str = ""
    pool: str = ""  # driver and pool of a device of a ResourceSlice

    @property
    def used(self) -> float:
        """Used part of the device, 0 to 1."""
        return min(sum(owner.fraction for owner in self.owners), 1.0)

    def sentence(self) -> str:
        """The device and its owners in words."""
        state = "free" if self.healthy else "unhealthy"
        owners = ", ".join(owner.text() for owner in self.owners) or state
        about = f"{self.kind} {self.name}" + (f" ({self.capacity})" if self.capacity else "")
        return f"{about}: {owners}" + ("" if self.healthy or not self.owners else "; unhealthy")


def is_slot(device: Device) -> bool:
    """Whether only the node knows which card this is."""
    return device.name.startswith(SLOT)


def devices_of(node: Manifest, pods: Sequence[Manifest]) -> tuple[Device, ...]:
    """Devices of a node with the pods that hold some, which must be pods of this node."""
    allocatable = amounts((node.get("status") or {}).get("allocatable"))
    shared = [*_shared_cards(node, pods), *_cards_by_index(node, pods, allocatable), *_npus(node, pods)]
    npus = any(name.startswith(NPU_REGISTER) for name in annotations_of(node))
    whole = [
        name
        for name, amount in sorted(allocatable.items())
        if amount >= 1 and _is_device(name) and not (npus and name.startswith("huawei.com/"))
    ]
    return (*_slots(whole, allocatable, pods), *shared)


def _is_device(name: str) -> bool:
    """Whole devices have a domain. Parts of cards follow from the registration of the cards."""
    parts = name.startswith(("volcano.sh/", "hami.io/")) or "batch" in name
    return "/" in name and name not in UNINTERESTING and not name.startswith(HUGE_PAGES) and not parts


def _slots(
    resources: Iterable[str], allocatable: Mapping[str, float], pods: Sequence[Manifest]
) -> list[Device]:
    """Whole devices. Which of them a pod got is known to its node only: pods fill the slots in the order of names."""
    names = list(resources)
    if not names:
        return []
    owners: dict[str, list[Owner]] = defaultdict(list)
    for pod in sorted(pods, key=key_of):
        for name, amount in pod_requests(pod).items():
            owners[name] += [_owner(pod)] * min(int(amount), MOST_SLOTS)
    found = []
    for name in names:
        count = min(int(allocatable[name]), MOST_SLOTS)
        held = owners.get(name, [])
        kind = short_name(name)
        found += [
            Device(f"{SLOT}{index}", kind, (held[index],) if index < len(held) else ())
            for index in range(count)
        ]
    return found


def _shared_cards(node: Manifest, pods: Iterable[Manifest]) -> Iterator[Device]:
    """Cards that a device plugin registers to be shared, also as MIG instances."""
    cards = vgpu.registered_cards(annotations_of(node))
    owners: dict[str, list[Owner]] = defaultdict(list)
    memory = {card.uuid: card.memory for card in cards}
    for pod in pods if cards else ():
        for share in vgpu.assigned_shares(annotations_of(pod).get(vgpu.ASSIGNED, "")):
            uuid = vgpu.card_uuid(share.uuid)
            owners[uuid].append(_share_owner(pod, share, memory.get(uuid, 0)))
    for index, card in enumerate(cards):
        yield Device(
            name=str(index),
            kind="mig card" if card.mode == vgpu.MIG else "shared gpu",
            owners=tuple(owners[card.uuid]),
            capacity=f"{card.type.removeprefix(f'{vgpu.NVIDIA}-')}, {shown('memory', card.memory * MIB)}, "
            f"at most {card.split} containers",
            healthy=card.healthy,
            uuid=card.uuid,
        )


def _share_owner(pod: Manifest, share: vgpu.DeviceShare, memory: int) -> Owner:
    parts = [shown("memory", share.memory * MIB)] if share.memory else []
    if share.cores:
        parts.append(f"{share.cores} % of the cores")
    if "[" in share.uuid:
        parts.insert(0, f"instance {share.uuid.partition('[')[2].removesuffix(']')}")
    fraction = share.memory / memory if memory else 1.0
    return _owner(pod, ", ".join(parts), fraction)


def _cards_by_index(
    node: Manifest, pods: Iterable[Manifest], allocatable: Mapping[str, float]
) -> Iterator[Device]:
    """Cards of Volcano's first device plugin, which pods hold by index."""
    count = min(int(allocatable.get(gpushare.NUMBER, 0)), MOST_SLOTS)
    memory = allocatable.get(gpushare.MEMORY, 0.0) / count if count else 0.0
    unhealthy = gpushare.parse_unhealthy(annotations_of(node).get(gpushare.UNHEALTHY, ""))
    owners: dict[int, list[Owner]] = defaultdict(list)
    for pod in pods if count else ():
        try:
            cards = gpushare.parse_index(annotations_of(pod).get(gpushare.INDEX, ""))
        except ValueError:
            continue
        requested = pod_requests(pod).get(gpushare.MEMORY, 0.0)
        for card in cards:
            if requested and memory:
                part = _owner(pod, shown("memory", requested * MIB), min(requested / memory, 1.0))
            else:
                part = _owner(pod)
            owners[card].append(part)
    for index in range(count):
        yield Device(
            str(index),
            "gpu card",
            tuple(owners[index]),
            shown("memory", memory * MIB),
            index not in unhealthy,
        )


def _npus(node: Manifest, pods: Sequence[Manifest]) -> Iterator[Device]:
    for name, text in sorted(annotations_of(node).items()):
        if not name.startswith(NPU_REGISTER):
            continue
        word = name.removeprefix(NPU_REGISTER)
        try:
            registered = ascend.parse_register(text)
        except ValueError:
            continue
        owners: dict[str, list[Owner]] = defaultdict(list)
        memory = {device.uuid: device.memory for device in registered}
        for pod in pods:
            assigned = annotations_of(pod).get(ascend.allocated_name(word), "")
            for share in vgpu.assigned_shares(assigned.removesuffix(";")):
                owners[share.uuid].append(_share_owner(pod, share, memory.get(share.uuid, 0)))
        for device in registered:
            yield Device(
                name=str(device.index),
                kind=word,
                owners=tuple(owners[device.uuid]),
                capacity=f"{shown('memory', device.memory * MIB)}, at most {device.count} containers",
                healthy=device.healthy,
                uuid=device.uuid,
            )


def _owner(pod: Manifest, part: str = "", fraction: float = 1.0) -> Owner:
    key = key_of(pod)
    return Owner(f"{key.namespace}/{key.name}", job_of(pod), part, fraction)


def unhealthy_devices(node: Manifest) -> dict[str, int]:
    """Number of unhealthy devices by kind: whole ones, which a kubelet leaves out of the allocatable resources, and
    shared cards, which device plugins register as unhealthy."""
    found = dict(_missing(node))
    for name, text in annotations_of(node).items():
        with suppress(ValueError):  # a malformed registration is reported by the scheduler
            if name == vgpu.REGISTER:
                bad = sum(not card.healthy for card in vgpu.parse_register(text))
            elif name == gpushare.UNHEALTHY:
                bad = len(gpushare.parse_unhealthy(text))
            elif name.startswith(NPU_REGISTER):
                bad = sum(not npu.healthy for npu in ascend.parse_register(text))
            else:
                continue
            if bad:
                kind = name.removeprefix(NPU_REGISTER) if name.startswith(NPU_REGISTER) else "shared gpu"
                found[kind] = found.get(kind, 0) + bad
    return found


def _missing(node: Manifest) -> Iterator[tuple[str, int]]:
    capacity, offered = at(node, "status", "capacity"), at(node, "status", "allocatable")
    if not isinstance(capacity, dict) or not isinstance(offered, dict):
        return
    for name, count in capacity.items():
        if _is_device(name) and offered.get(name) != count:  # equal texts need no parsing
            missing = amounts({name: count}).get(name, 0.0) - amounts({name: offered.get(name, 0)}).get(
                name, 0.0
            )
            if missing >= 1:
                yield name, int(missing)
