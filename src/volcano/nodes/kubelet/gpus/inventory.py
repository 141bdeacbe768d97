"""Facts about GPUs: cards, their MIG instances, their load, and the resources that they are allocated as."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

GPU = "nvidia.com/gpu"
MIG_PREFIX = "nvidia.com/mig-"
MIB = 1 << 20
NO_FILE = -1  # minor number of fake cards


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A part of a card that is allocated as a device of its own."""

    uuid: str
    profile: str  # such as 1g.10gb
    memory: int  # MiB
    gpu_instance: int
    compute_instance: int


@dataclass(frozen=True, slots=True)
class Gpu:
    """A card of this host. One that is partitioned is used only through its instances."""

    uuid: str
    minor: int  # of its device file, /dev/nvidia<minor>
    name: str
    memory: int  # MiB; 0 where it is not known
    bus_id: str  # as in /proc/driver/nvidia/gpus, such as 0000:00:06.0
    partitioned: bool = False
    instances: tuple[MigInstance, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuLoad:
    """Load of a card; None where the driver does not report it, as the utilization of partitioned cards."""

    uuid: str
    utilization: float | None  # percent of the time in which a kernel ran
    memory_used: int  # MiB
    memory_total: int
    temperature: float | None = None  # degrees Celsius
    power: float | None = None  # watts


def is_real(card: Gpu) -> bool:
    """Whether a card exists, not only for the scheduler."""
    return card.minor != NO_FILE


def allocatable_devices(cards: Iterable[Gpu]) -> dict[str, tuple[str, ...]]:
    """UUIDs by resource: whole cards as nvidia.com/gpu, MIG instances by their profile."""
    found: dict[str, list[str]] = defaultdict(list)
    for card in cards:
        if not card.partitioned:
            found[GPU].append(card.uuid)
        for instance in card.instances:
            found[f"{MIG_PREFIX}{instance.profile.replace('+', '.')}"].append(instance.uuid)
    return {resource: tuple(uuids) for resource, uuids in found.items()}


def card_of(cards: Iterable[Gpu], uuid: str) -> tuple[Gpu, MigInstance | None] | None:
    """The card with a UUID, or the card and the instance with it; None for an unknown one."""
    for card in cards:
        if card.uuid == uuid:
            return card, None
        for instance in card.instances:
            if instance.uuid == uuid:
                return card, instance
    return None


def devices_of_failed_cards(cards: Iterable[Gpu], problems: Mapping[str, str]) -> dict[str, str]:
    """Problems by device: those of a card are also those of its instances."""
    found: dict[str, str] = {}
    for card in cards:
        if card.uuid in problems:
            found[card.uuid] = problems[card.uuid]
            found.update({instance.uuid: problems[card.uuid] for instance in card.instances})
    return found
