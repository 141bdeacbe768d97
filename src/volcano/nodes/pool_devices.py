"""Devices of simulated nodes, as device plugins register them: shared cards, MIG instances and NPUs."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from volcano.kube.api.quantity import units
from volcano.kube.devices import ascend, vgpu
from volcano.kube.devices.ascend import Npu
from volcano.kube.devices.vgpu import Card

GPU = "nvidia.com/gpu"
MIG_PREFIX = "nvidia.com/mig-"
MIB = 1 << 20
CORES_PER_CARD = 100
DEFAULT_MEMORY = 40 << 10  # MiB
DEFAULT_TYPE = "A100-PCIE-40GB"
MIG_SPLIT = 7  # instances into which a card can be divided at most
SHARED = "shared"  # value of mig=: the scheduler chooses the instances
KEYS = frozenset(("vgpu", "gpu-memory", "gpu-type", "mig", "ascend"))
_SEPARATORS = frozenset(",:;")


@dataclass(frozen=True, slots=True)
class Chip:
    """A kind of NPU: the memory (MiB) and cores of one, and how many containers may share it."""

    resource: str
    memory: int
    cores: int
    count: int


CHIPS: Mapping[str, Chip] = {
    "Ascend310P": Chip("huawei.com/Ascend310P", 21527, 8, 7),
    "Ascend910A": Chip("huawei.com/Ascend910A", 32768, 30, 16),
    "Ascend910B2": Chip("huawei.com/Ascend910B2", 65536, 24, 4),
    "Ascend910B3": Chip("huawei.com/Ascend910B3", 65536, 20, 4),
    "Ascend910B4": Chip("huawei.com/Ascend910B4", 32768, 20, 4),
}


@dataclass(frozen=True, slots=True)
class PoolDevices:
    """Devices of each node of a pool that are more than a number of whole ones."""

    cards: int = 0
    split: int = 0  # containers that may share a card; 0: cards are not shared
    memory: int = DEFAULT_MEMORY  # MiB of a card
    type: str = DEFAULT_TYPE
    mode: str = vgpu.HAMI_CORE
    npus: tuple[tuple[str, int], ...] = ()  # kind and number

    @property
    def shares_gpus(self) -> bool:
        return bool(self.split)

    def registered_cards(self, node: str) -> list[Card]:
        """The cards that the node registers; their identifiers depend on its name only."""
        if not self.split:
            return []
        kind = f"{vgpu.NVIDIA}-{vgpu.NVIDIA} {self.type}"
        return [
            Card(_identifier("GPU", node, number), self.split, self.memory, kind, True, self.mode)
            for number in range(self.cards)
        ]

    def annotations(self, node: str) -> dict[str, str]:
        """The annotations by which device plugins register the devices of a node."""
        cards = self.registered_cards(node)
        found = {vgpu.REGISTER: vgpu.format_register(cards)} if cards else {}
        for kind, number in self.npus:
            chip = CHIPS[kind]
            devices = [
                Npu(_identifier(kind, node, index), index, chip.count, chip.memory, chip.cores, kind)
                for index in range(number)
            ]
            found[ascend.register_name(kind)] = ascend.format_register(devices)
        return found


def parse_devices(settings: Mapping[str, str], gpus: str) -> tuple[PoolDevices, dict[str, str | None]]:
    """Devices of a pool by the settings in KEYS and the number of its whole GPUs.

    Also returns the resources that change; None for one that nodes do not have. Raises ValueError.
    """
    cards = int(units(gpus))
    split, mig = _split(settings), settings.get("mig", "")
    if (settings.keys() & {"vgpu", "gpu-memory", "gpu-type", "mig"}) and not cards:
        named = ", ".join(sorted(settings.keys() & KEYS - {"ascend"}))
        raise ValueError(f"{named}: the nodes have no cards; write how many, as in {GPU}=8")
    if mig == SHARED:
        split = split or MIG_SPLIT
    devices = PoolDevices(
        cards=cards,
        split=split,
        memory=_memory(settings.get("gpu-memory")),
        type=_type(settings.get("gpu-type", DEFAULT_TYPE)),
        mode=vgpu.MIG if mig == SHARED else vgpu.HAMI_CORE,
        npus=_npus(settings.get("ascend", "")),
    )
    resources: dict[str, str | None] = {}
    if mig and mig != SHARED:
        if split:
            raise ValueError(
                f"mig={mig!r} and vgpu exclude each other; for shared MIG cards write mig={SHARED}"
            )
        resources |= _instances(mig, cards)
    if split:
        resources |= {
            vgpu.NUMBER: str(cards * split),
            vgpu.MEMORY: str(cards * devices.memory),
            vgpu.CORES: str(cards * CORES_PER_CARD),
        }
    if resources:
        resources[GPU] = None  # they are allocated in parts
    for kind, number in devices.npus:
        resources[CHIPS[kind].resource] = str(number * CHIPS[kind].count)
    return devices, resources


def device_labels(settings: Mapping[str, str], devices: PoolDevices) -> dict[str, str]:
    """Labels that GPU feature discovery would set, for the settings that were given."""
    labels = {}
    if "gpu-type" in settings:
        labels["nvidia.com/gpu.product"] = devices.type.replace(" ", "-")
    if "gpu-memory" in settings:
        labels["nvidia.com/gpu.memory"] = str(devices.memory)
    return labels


def _split(settings: Mapping[str, str]) -> int:
    text = settings.get("vgpu")
    if text is None:
        return 0
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise ValueError(f"vgpu={text!r} is not a number of containers that share a card, such as 10")
    return int(text)


def _memory(text: str | None) -> int:
    if text is None:
        return DEFAULT_MEMORY
    try:
        memory = int(units(text)) // MIB
    except ValueError:
        memory = 0
    if memory < 1:
        raise ValueError(f"gpu-memory={text!r} is not the memory of a card, such as 80Gi")
    return memory


def _type(text: str) -> str:
    if not text or _SEPARATORS & set(text):
        raise ValueError(f"gpu-type={text!r} is not a type of card, such as A100-PCIE-40GB")
    return text


def _instances(text: str, cards: int) -> dict[str, str | None]:
    """Resources of nodes whose cards are divided as `3g.20gb:1+1g.5gb:4` says."""
    found: dict[str, str | None] = {}
    for part in text.split("+"):
        profile, _, number = part.partition(":")
        if not profile or not number.isascii() or not number.isdecimal() or "g." not in profile:
            raise ValueError(
                f"mig={text!r} is not a list of profiles and numbers per card, such as 1g.5gb:7 or "
                f"3g.20gb:1+1g.5gb:4, nor {SHARED!r}"
            )
        found[f"{MIG_PREFIX}{profile}"] = str(int(number) * cards)
    return found


def _npus(text: str) -> tuple[tuple[str, int], ...]:
    """Kinds and numbers, as in `Ascend310P:8+Ascend910B3:2`."""
    found = []
    for part in filter(None, text.split("+")):
        kind, _, number = part.partition(":")
        if kind not in CHIPS:
            raise ValueError(f"ascend={text!r}: {kind!r} is unknown; choose from {', '.join(CHIPS)}")
        if not number.isascii() or not number.isdecimal() or int(number) < 1:
            raise ValueError(f"ascend={text!r} is not a list of kinds and numbers, such as Ascend310P:8")
        found.append((kind, int(number)))
    return tuple(found)


def _identifier(prefix: str, node: str, number: int) -> str:
    """An identifier in the form of real ones."""
    return f"{prefix}-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{node}/{number}')}"
