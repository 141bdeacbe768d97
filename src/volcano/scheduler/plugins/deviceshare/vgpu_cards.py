"""vGPUs of HAMi: shares of a card's memory and cores, enforced by hami-core, or instances of MIG."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from volcano.base.log import Log
from volcano.kube.devices import vgpu
from volcano.model.node import Node
from volcano.model.task import Shape, Task
from volcano.scheduler.plugins.deviceshare.device_config import VgpuConfig
from volcano.scheduler.plugins.deviceshare.facts import Card, Demand, Kind, Part, Share, whole
from volcano.scheduler.plugins.deviceshare.mig import MigStates

log = Log("deviceshare")


class VgpuKind(Kind):
    """Cards that nodes register in an annotation, and shares that pods hold by another."""

    name = "hamivgpu"
    noun = "card"
    lock = vgpu.LOCK
    highest_first = True

    def __init__(self, config: VgpuConfig, states: MigStates, policy: str) -> None:
        self._config = config
        self._states = states
        self.policy = policy
        self.resource = config.number
        self.unit = "MiB" if config.factor == 1 else f"× {config.factor} MiB"

    def demand(self, shape: Shape) -> Demand | None:
        config = self._config
        parts = []
        for limits in shape.devices.containers if shape.devices else ():
            if config.number not in limits and config.memory not in limits:
                continue
            number, memory, cores = (
                whole(limits, name) for name in (config.number, config.memory, config.cores)
            )
            percent = whole(limits, config.percentage, 1000)
            percent = percent if percent or memory else 100
            parts.append(Part(number or 1, 0 if percent else memory, percent, cores, alone=cores >= 100))
        if not parts:
            return None
        spread = (
            shape.devices is not None and shape.devices.annotations.get(vgpu.POD_GROUP_POLICY) == "spread"
        )
        return Demand(tuple(parts), spread_group=spread)

    def cards(self, node: Node) -> tuple[Card, ...]:
        register = node.annotations.get(vgpu.REGISTER)
        offered = (self._config.number, self._config.memory, self._config.cores)
        if not register or not all(node.allocatable.get(name) for name in offered):
            return ()
        return tuple(self._card(card) for card in _registered(register))

    def _card(self, card: vgpu.Card) -> Card:
        geometry = self._states.geometry_of(card.type) if card.mode == vgpu.MIG else 0
        mode = vgpu.MIG if geometry else vgpu.HAMI_CORE
        return Card(card.uuid, card.memory, card.split, 100, card.type, card.healthy, mode, geometry)

    def excluded(self, shape: Shape, card: Card) -> str:
        if not card.healthy:
            return "unhealthy"
        asked = shape.devices.annotations if shape.devices else {}
        if not _type_allowed(card.type.lower(), asked.get(vgpu.USE_TYPE), asked.get(vgpu.AVOID_TYPE)):
            return "of another type"
        if not _uuid_allowed(card.uuid, asked.get(vgpu.USE_UUID), asked.get(vgpu.AVOID_UUID)):
            return "excluded by UUID"
        if asked.get(vgpu.MODE, card.mode) != card.mode:
            return f"in mode {card.mode}"
        return ""

    def names_cards(self, shape: Shape) -> bool:
        asked = shape.devices.annotations if shape.devices else {}
        return vgpu.USE_UUID in asked or vgpu.AVOID_UUID in asked

    def shares(self, task: Task) -> Sequence[Share]:
        text = task.annotations.get(vgpu.ASSIGNED)
        if not text:
            return ()
        try:
            containers = vgpu.parse_assignment(text)
        except ValueError:
            return ()
        return [Share(share.uuid, share.memory, share.cores) for shares in containers for share in shares]

    def annotations(
        self, task: Task, node: Node, picked: Sequence[Sequence[Share]], now: float
    ) -> Mapping[str, str]:
        text = vgpu.format_assignment(
            [vgpu.DeviceShare(share.uuid, vgpu.NVIDIA, share.memory, share.cores) for share in shares]
            for shares in picked
        )
        seconds = str(int(now))
        return {
            vgpu.NODE: node.name,
            vgpu.TIME: seconds,
            vgpu.ASSIGNED: text,
            vgpu.TO_ALLOCATE: text,
            vgpu.BIND_PHASE: vgpu.ALLOCATING,
            vgpu.BIND_TIME: seconds,
        }

    def handing_out(self, task: Task) -> float:
        notes = task.annotations
        if notes.get(vgpu.BIND_PHASE) != vgpu.ALLOCATING or vgpu.ASSIGNED not in notes:
            return 0.0
        return seconds_of(notes.get(vgpu.BIND_TIME))


def seconds_of(text: str | None) -> float:
    """A time in an annotation; 1, long ago, when it is not a number."""
    return float(text) if text and text.isascii() and text.isdecimal() else 1.0


@lru_cache(maxsize=16_384)
def _registered(register: str) -> tuple[vgpu.Card, ...]:
    try:
        return tuple(vgpu.parse_register(register))
    except ValueError as error:
        log.warning("registration of cards ignored", annotation=vgpu.REGISTER, reason=error)
        return ()


def words(text: str | None) -> list[str]:
    """The parts of a comma-separated annotation, trimmed and without empty ones."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _type_allowed(card_type: str, use: str | None, avoid: str | None) -> bool:
    """Whether the type of a card contains one of the wanted words, or else none of the others."""
    if wanted := words(use):
        return any(word.lower() in card_type for word in wanted)
    return not any(word.lower() in card_type for word in words(avoid))


def _uuid_allowed(uuid: str, use: str | None, avoid: str | None) -> bool:
    wanted = words(use)
    return uuid not in words(avoid) and (not wanted or uuid in wanted)
