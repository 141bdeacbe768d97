"""The GPUs of a pod: their type, and how many, with shares of one.

Whole GPUs are requested as resources, and their type is a label of the node. Shares are assigned in annotations, by
memory or cores of a card that the node registers. Devices of claims are described by ResourceSlices.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from volcano.kube.api import quantity
from volcano.kube.api.kinds import NODE, RESOURCE_CLAIM, RESOURCE_SLICE
from volcano.kube.api.manifest import Key, Manifest, annotations_of, key_of, labels_of
from volcano.kube.client.protocol import Event, EventType
from volcano.kube.devices import gpushare, vgpu
from volcano.kube.devices.dra.claims import pod_claim_references

PRODUCTS: Final = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "gpu.intel.com/product")
MIG: Final = "nvidia.com/mig-"
MIG_SLICES: Final = 7.0  # of a card
ASCEND: Final = "huawei.com/Ascend"
NOT_CARDS: Final = ("-memory", "-core")
Device = tuple[str, str, str]  # driver, pool, name


class Gpus(NamedTuple):
    """GPUs of one pod."""

    type: str = ""
    number: float = 0.0


NO_GPUS: Final = Gpus()


class _Node(NamedTuple):
    product: str
    cards: Mapping[str, vgpu.Card]  # by uuid
    card_memory: float  # of one card, where GPUs are shared by memory


class _Claim(NamedTuple):
    devices: tuple[Device, ...]
    consumers: int


class GpuInventory:
    """What nodes, slices and claims say about GPUs."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._slices: dict[str, dict[Device, Gpus]] = {}  # by name of the slice
        self._claims: dict[Key, _Claim] = {}

    def on_event(self, event: Event) -> None:
        """Records a node, claim or slice."""
        deleted, manifest, key = event.type is EventType.DELETED, event.object, key_of(event.object)
        if event.kind == NODE:
            self._update(self._nodes, key.name, None if deleted else _node(manifest))
        elif event.kind == RESOURCE_CLAIM:
            self._update(self._claims, key, None if deleted else _claim(manifest))
        elif event.kind == RESOURCE_SLICE:
            self._update(self._slices, key.name, None if deleted else dict(_devices(manifest)))

    @staticmethod
    def _update(held: dict[Any, Any], key: Any, value: Any) -> None:
        if value is None:
            held.pop(key, None)
        else:
            held[key] = value

    def with_devices(self, events: Iterable[Event]) -> "GpuInventory":
        """A copy with further claims and slices."""
        copy = GpuInventory()
        copy._nodes = self._nodes
        copy._slices, copy._claims = dict(self._slices), dict(self._claims)
        for event in events:
            copy.on_event(event)
        return copy

    def knows_claims(self, pod: Manifest) -> bool:
        """Whether the claims of a pod are allocated, and their devices are known."""
        namespace = pod["metadata"]["namespace"]
        names = [name for _, name in pod_claim_references(pod)]
        return all(name is not None and Key(namespace, name) in self._claims for name in names)

    def of(self, pod: Manifest, requests: Mapping[str, float]) -> Gpus:
        """The GPUs of a pod that is bound."""
        if not _may_have_gpus(pod, requests):
            return NO_GPUS
        node = self._nodes.get(pod["spec"].get("nodeName") or "", _NO_NODE)
        found = [_shared(pod, node), _by_memory(requests, node), *_whole(requests, node), *self._claimed(pod)]
        present = [gpus for gpus in found if gpus.number]
        if not present:
            return NO_GPUS
        return Gpus(max(present, key=lambda gpus: gpus.number).type, sum(gpus.number for gpus in present))

    def _claimed(self, pod: Manifest) -> Iterable[Gpus]:
        """Devices of a claim; pods that share a claim share its devices."""
        if not pod["spec"].get("resourceClaims"):
            return
        namespace = pod["metadata"]["namespace"]
        described = {device: gpus for part in self._slices.values() for device, gpus in part.items()}
        for _, name in pod_claim_references(pod):
            claim = self._claims.get(Key(namespace, name)) if name else None
            for device in claim.devices if claim else ():
                gpus = described.get(device, NO_GPUS)
                yield Gpus(gpus.type, gpus.number / max(claim.consumers, 1) if claim else 0.0)


_NO_NODE = _Node("", {}, 0.0)


def _may_have_gpus(pod: Manifest, requests: Mapping[str, float]) -> bool:
    """Whether a pod requests devices, whose names have a domain, or has some assigned. Cheap: most pods have none."""
    for name in requests:
        if "/" in name:
            return True
    return bool(pod["spec"].get("resourceClaims")) or vgpu.ASSIGNED in annotations_of(pod)


def _node(node: Manifest) -> _Node | None:
    """What a node says about GPUs; None for one without."""
    labels = labels_of(node)
    product = next((labels[name] for name in PRODUCTS if labels.get(name)), "")
    capacity = (node.get("status") or {}).get("capacity") or {}
    cards = {card.uuid: card for card in vgpu.registered_cards(annotations_of(node))}
    try:
        number = quantity.units(capacity.get(gpushare.NUMBER, 0))
        memory = quantity.units(capacity.get(gpushare.MEMORY, 0)) / number if number else 0.0
    except ValueError:  # written by a device plugin; the scheduler reports it
        memory = 0.0
    return _Node(product, cards, memory) if product or cards or memory else None


def _shared(pod: Manifest, node: _Node) -> Gpus:
    """Shares of cards that the scheduler assigned: the larger part of a card's memory or cores."""
    shares = vgpu.assigned_shares(annotations_of(pod).get(vgpu.ASSIGNED, ""))
    if not shares:
        return NO_GPUS
    total, kind = 0.0, node.product
    for share in shares:
        card = node.cards.get(vgpu.card_uuid(share.uuid))
        memory = share.memory / card.memory if card is not None and card.memory else 0.0
        total += min(max(memory, share.cores / 100.0), 1.0) or 1.0
        kind = card.type.removeprefix(f"{vgpu.NVIDIA}-") if card is not None else kind
    return Gpus(kind or vgpu.NVIDIA, total)


def _by_memory(requests: Mapping[str, float], node: _Node) -> Gpus:
    memory = requests.get(gpushare.MEMORY, 0.0)
    if memory:
        return Gpus(node.product or "gpu", min(memory / node.card_memory, 1.0) if node.card_memory else 1.0)
    return Gpus(node.product or "gpu", requests.get(gpushare.NUMBER, 0.0))


def _whole(requests: Mapping[str, float], node: _Node) -> Iterable[Gpus]:
    for name, amount in requests.items():
        if name.endswith("/gpu"):
            yield Gpus(node.product or name, amount)
        elif name.startswith(MIG):
            profile = name.removeprefix(MIG)
            yield Gpus(f"{node.product} {profile}".strip(), amount * _part_of_card(profile))
        elif name.startswith(ASCEND) and not name.endswith(NOT_CARDS):
            yield Gpus(name.removeprefix("huawei.com/"), amount)


def _part_of_card(profile: str) -> float:
    """The part of a card that a MIG profile such as `3g.40gb` has."""
    slices = profile.partition("g.")[0]
    return int(slices) / MIG_SLICES if slices.isascii() and slices.isdecimal() else 1.0


def _claim(claim: Manifest) -> _Claim | None:
    """The devices of a claim; None while it is not allocated."""
    status = claim.get("status") or {}
    allocation = status.get("allocation")
    if allocation is None:
        return None
    results = (allocation.get("devices") or {}).get("results") or ()
    devices = tuple(
        (each["driver"], each["pool"], each["device"]) for each in results if not each.get("adminAccess")
    )
    return _Claim(devices, len(status.get("reservedFor") or ()))


def _devices(manifest: Manifest) -> Iterable[tuple[Device, Gpus]]:
    """The GPUs of a slice."""
    spec = manifest["spec"]
    for device in spec.get("devices") or ():
        values = {
            name.rpartition("/")[2]: next(iter(value.values()), None)
            for name, value in (device.get("attributes") or {}).items()
        }
        product = str(values.get("productName") or values.get("model") or "")
        if "gpu" not in spec["driver"] and values.get("type") not in ("gpu", "mig"):
            continue
        profile = str(values.get("profile") or "")
        title = f"{product or spec['driver']} {profile}".strip()
        number = _part_of_card(profile) if profile else 1.0
        yield (spec["driver"], spec["pool"]["name"], device["name"]), Gpus(title, number)
