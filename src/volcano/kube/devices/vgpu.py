"""vGPU: names and text formats shared with the device plugin of HAMi for Volcano.

A node registers its cards in one annotation, one entry per card: `uuid,split,memory,type,healthy,mode:`. A pod is
assigned shares of cards in another: `uuid,NVIDIA,memory,cores:` per share, containers separated by `;`.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

# Resources, in the limits of containers and in the allocatable of nodes.
NUMBER: Final = "volcano.sh/vgpu-number"
MEMORY: Final = "volcano.sh/vgpu-memory"
MEMORY_PERCENTAGE: Final = "volcano.sh/vgpu-memory-percentage"
CORES: Final = "volcano.sh/vgpu-cores"

# Annotations of nodes.
REGISTER: Final = "volcano.sh/node-vgpu-register"
HANDSHAKE: Final = "volcano.sh/node-vgpu-handshake"
LOCK: Final = (
    "hamivgpu"  # RFC 3339 time at which the scheduler assigned cards that the plugin did not hand out yet
)

# Annotations of pods set by users.
USE_TYPE: Final = "nvidia.com/use-gputype"
AVOID_TYPE: Final = "nvidia.com/nouse-gputype"
USE_UUID: Final = "volcano.sh/vgpu-use-gpuuuid"
AVOID_UUID: Final = "volcano.sh/vgpu-nouse-gpuuuid"
MODE: Final = "volcano.sh/vgpu-mode"
POD_GROUP_POLICY: Final = "volcano.sh/vgpu-podgroup-policy"

# Annotations of pods set by the scheduler with the Binding.
NODE: Final = "volcano.sh/vgpu-node"
TIME: Final = "volcano.sh/vgpu-time"  # unix seconds
ASSIGNED: Final = "volcano.sh/vgpu-ids-new"
TO_ALLOCATE: Final = (
    "volcano.sh/devices-to-allocate"  # as ASSIGNED; the device plugin removes what it handed out
)
BIND_PHASE: Final = "volcano.sh/bind-phase"
BIND_TIME: Final = "volcano.sh/bind-time"  # unix seconds

ALLOCATING, SUCCESS, FAILED = "allocating", "success", "failed"  # values of BIND_PHASE
HANDED_OUT: Final = "18446744073709551615"  # TIME once the device plugin is done
NVIDIA: Final = "NVIDIA"  # kind of every share, and part of every card's type
HAMI_CORE, MIG = "hami-core", "mig"  # modes of a card

REGISTER_FIELDS: Final = 6
SHARE_FIELDS: Final = 4
LARGEST: Final = 1 << 40  # of a number in these texts; sums of them fit in 64 bits
TRUE = frozenset(("1", "t", "T", "true", "True", "TRUE"))
FALSE = frozenset(("0", "f", "F", "false", "False", "FALSE"))


class Card(NamedTuple):
    """A card as its node registers it; memory in MiB divided by the memory factor."""

    uuid: str
    split: int  # how many containers may share it
    memory: int
    type: str  # such as "NVIDIA-NVIDIA A100-PCIE-40GB"
    healthy: bool = True
    mode: str = HAMI_CORE


class DeviceShare(NamedTuple):
    """One card, or MIG instance `uuid[group-position]`, of a container; cores in percent of the card."""

    uuid: str
    kind: str
    memory: int
    cores: int


def parse_register(text: str) -> list[Card]:
    """Returns the cards of a node by index. Raises ValueError."""
    return [_card(entry) for entry in text.split(":") if entry.strip()]


def registered_cards(annotations: Mapping[str, str]) -> list[Card]:
    """Returns the cards that a node registers; none when the text is malformed, which the scheduler reports."""
    try:
        return parse_register(annotations.get(REGISTER, ""))
    except ValueError:
        return []


def format_register(cards: Iterable[Card]) -> str:
    return "".join(
        f"{card.uuid},{card.split},{card.memory},{card.type},{str(card.healthy).lower()},{card.mode}:"
        for card in cards
    )


def parse_assignment(text: str) -> list[list[DeviceShare]]:
    """Returns the shares of each container; an empty list for a container without. Raises ValueError."""
    if not text:
        return []
    return [[_share(entry) for entry in part.split(":") if entry] for part in text.split(";")]


def assigned_shares(text: str) -> list[DeviceShare]:
    """Returns the shares of all containers of a pod; none when the text is malformed, which the scheduler reports."""
    try:
        return [share for container in parse_assignment(text) for share in container]
    except ValueError:
        return []


@lru_cache(maxsize=4096)
def assigned_amounts(text: str) -> tuple[float, float]:
    """Returns memory and cores of all cards assigned to a pod."""
    shares = assigned_shares(text)
    return float(sum(share.memory for share in shares)), float(sum(share.cores for share in shares))


def format_assignment(containers: Iterable[Sequence[DeviceShare]]) -> str:
    return ";".join(map(format_shares, containers))


def format_shares(shares: Iterable[DeviceShare]) -> str:
    """Returns the shares of one container."""
    return "".join(f"{share.uuid},{share.kind},{share.memory},{share.cores}:" for share in shares)


def card_uuid(share: str) -> str:
    """Returns the card of a share: that of a MIG instance is the part before the bracket."""
    return share.partition("[")[0]


def mig_id(uuid: str, group: str, position: int) -> str:
    return f"{uuid}[{group}-{position}]"


def parse_mig_id(share: str) -> tuple[str, int] | None:
    """Returns group and position of a MIG instance; None for another share. Raises ValueError."""
    _, bracket, rest = share.partition("[")
    if not bracket:
        return None
    group, dash, position = rest.removesuffix("]").rpartition("-")
    if not dash or not rest.endswith("]") or not position.isdecimal():
        raise ValueError(f"MIG instance {share!r} should be uuid[group-position]")
    return group, int(position)


def _card(entry: str) -> Card:
    fields = entry.strip().split(",")
    if len(fields) < REGISTER_FIELDS:
        raise ValueError(
            f"card {entry!r} has {len(fields)} fields; it should be uuid,split,memory,type,true|false,mode"
        )
    uuid, split, memory, kind, healthy, mode = fields[:REGISTER_FIELDS]
    if not uuid:
        raise ValueError(f"card {entry!r} has no uuid")
    return Card(
        uuid,
        _count("split count", split, entry),
        _count("memory", memory, entry),
        kind,
        _bool(healthy, entry),
        mode,
    )


def _share(entry: str) -> DeviceShare:
    fields = entry.split(",")
    if len(fields) != SHARE_FIELDS or not fields[0]:
        raise ValueError(f"device {entry!r} should be uuid,type,memory,cores")
    uuid, kind, memory, cores = fields
    return DeviceShare(uuid, kind, _count("memory", memory, entry), _count("cores", cores, entry))


def _count(name: str, text: str, entry: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise ValueError(f"{name} of {entry!r} should be a whole number, not {text!r}")
    if int(text) > LARGEST:
        raise ValueError(f"{name} of {entry!r} should be at most {LARGEST}")
    return int(text)


def _bool(text: str, entry: str) -> bool:
    if text not in TRUE | FALSE:
        raise ValueError(f"health of {entry!r} should be true or false, not {text!r}")
    return text in TRUE
