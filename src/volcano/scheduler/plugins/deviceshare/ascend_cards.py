"""Ascend devices of HAMi: parts by fixed templates, or, where nodes allow it, any memory and cores."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from volcano.base.log import Log
from volcano.kube.devices import ascend
from volcano.kube.devices.vgpu import DeviceShare
from volcano.model.node import Node
from volcano.model.task import Shape, Task
from volcano.scheduler.plugins.deviceshare.device_config import AscendConfig
from volcano.scheduler.plugins.deviceshare.facts import UNLIMITED, Card, Demand, Kind, Part, Share, whole
from volcano.scheduler.plugins.deviceshare.vgpu_cards import seconds_of, words

log = Log("deviceshare")

SEVERAL_PARTS = "vNPU does not support partial memory allocation when requesting multiple devices"
SOFT, FIXED = ascend.HAMI_CORE, "template"  # modes of a device


class AscendKind(Kind):
    """Devices of one model."""

    noun = "NPU"
    lock = ascend.LOCK

    def __init__(self, config: AscendConfig, policy: str, *, soft_partitions: bool) -> None:
        self._config = config
        self.name = config.word
        self.policy = policy
        self.resource = config.resource
        self._soft = soft_partitions

    def demand(self, shape: Shape) -> Demand | None:
        config, parts, impossible = self._config, [], ""
        for limits in shape.devices.containers if shape.devices else ():
            if config.resource not in limits and config.memory not in limits:
                continue
            number, memory, cores = (
                whole(limits, name) for name in (config.resource, config.memory, config.core_resource)
            )
            part = self._part(shape, number or 1, memory, cores)
            if part.number > 1 and not part.percent and not _soft(shape) and part.memory < config.allocatable:
                impossible = SEVERAL_PARTS
            parts.append(part)
        if not parts:
            return None
        connected = config.word.startswith("Ascend910")
        return Demand(tuple(parts), distinct=True, connected=connected, impossible=impossible)

    def _part(self, shape: Shape, number: int, memory: int, cores: int) -> Part:
        config = self._config
        if _soft(shape):
            percent = 0 if memory else 100
            return Part(number, memory, percent, cores, alone=cores >= 100, all_cores=100)
        if not memory:
            return Part(number, percent=100, cores=0, alone=True)
        if memory > config.capacity:
            return Part(number, UNLIMITED)
        for template in config.templates:
            if template.memory >= memory:
                return Part(number, template.memory, cores=template.cores)
        return Part(number, config.allocatable, cores=config.cores, alone=True)

    def cards(self, node: Node) -> tuple[Card, ...]:
        register = node.annotations.get(ascend.register_name(self._config.word))
        if not register or not node.allocatable.get(self._config.resource):
            return ()
        text = node.annotations.get(ascend.SOFT_PARTITIONS)
        soft = self._soft if text is None else text == "true"
        return tuple(
            Card(
                device.uuid,
                device.memory,
                device.count,
                device.cores,
                device.type,
                device.healthy,
                SOFT if soft else FIXED,
                network=-1 if device.network is None else device.network,
            )
            for device in _registered(register)
        )

    def excluded(self, shape: Shape, card: Card) -> str:
        if not card.healthy:
            return "unhealthy"
        if _soft(shape) and card.mode != SOFT:
            return "without partitions by software"
        asked, word = shape.devices.annotations if shape.devices else {}, self._config.word
        wanted = words(asked.get(ascend.use_uuid_name(word)))
        if card.uuid in words(asked.get(ascend.avoid_uuid_name(word))) or (
            wanted and card.uuid not in wanted
        ):
            return "excluded by UUID"
        return ""

    def names_cards(self, shape: Shape) -> bool:
        asked, word = shape.devices.annotations if shape.devices else {}, self._config.word
        return ascend.use_uuid_name(word) in asked or ascend.avoid_uuid_name(word) in asked

    def shares(self, task: Task) -> Sequence[Share]:
        text = task.annotations.get(ascend.allocated_name(self._config.word))
        if not text:
            return ()
        try:
            containers = ascend.parse_assignment(text)
        except ValueError:
            return ()
        return [Share(share.uuid, share.memory, share.cores) for shares in containers for share in shares]

    def annotations(
        self, task: Task, node: Node, picked: Sequence[Sequence[Share]], now: float
    ) -> Mapping[str, str]:
        word, soft = self._config.word, _soft(task.shape)
        text = ascend.format_assignment(
            [DeviceShare(share.uuid, word, share.memory, share.cores) for share in shares]
            for shares in picked
        )
        parts = [
            ascend.Part(share.uuid, memory=share.memory, cores=share.cores)
            if soft
            else ascend.Part(share.uuid, template=self._template(share.memory))
            for shares in picked
            for share in shares
        ]
        seconds = str(int(now))
        return {
            ascend.to_allocate_name(word): text,
            ascend.allocated_name(word): text,
            ascend.parts_name(word): ascend.format_parts(parts),
            ascend.PREDICATE_TIME: seconds,
            ascend.NODE: node.name,
            ascend.TIME: seconds,
            ascend.BIND_PHASE: "allocating",
            ascend.BIND_TIME: seconds,
        }

    def _template(self, memory: int) -> str:
        """The template with this memory; "" for a whole device."""
        return next((each.name for each in self._config.templates if each.memory == memory), "")

    def handing_out(self, task: Task) -> float:
        notes = task.annotations
        if (
            notes.get(ascend.BIND_PHASE) != "allocating"
            or ascend.allocated_name(self._config.word) not in notes
        ):
            return 0.0
        return seconds_of(notes.get(ascend.BIND_TIME))


def _soft(shape: Shape) -> bool:
    return shape.devices is not None and shape.devices.annotations.get(ascend.MODE) == ascend.HAMI_CORE


@lru_cache(maxsize=16_384)
def _registered(register: str) -> tuple[ascend.Npu, ...]:
    try:
        return tuple(ascend.parse_register(register))
    except ValueError as error:
        log.warning("registration of Ascend devices ignored", reason=error)
        return ()
