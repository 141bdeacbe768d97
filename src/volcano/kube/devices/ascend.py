"""Ascend vNPU: names and text formats shared with the device plugin of HAMi.

Names contain the chip's common word, such as Ascend310P. A node registers its devices as JSON; a pod is assigned
`uuid,<word>,memory,cores:` per device, each container followed by `;`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from volcano.kube.devices import vgpu
from volcano.kube.devices.vgpu import DeviceShare

MODE: Final = "huawei.com/vnpu-mode"  # of pods, set by users
HAMI_CORE: Final = "hami-core"  # value of MODE: partitioned by software
SOFT_PARTITIONS: Final = "hami-vnpu-core"  # of nodes: "true" when devices may be partitioned by software
LOCK: Final = "hami.io/mutex.lock"  # of nodes: RFC 3339 time

# Annotations of pods set by the scheduler with the Binding.
NODE: Final = "hami.io/vgpu-node"
TIME: Final = "hami.io/vgpu-time"  # unix seconds
BIND_PHASE: Final = "hami.io/bind-phase"
BIND_TIME: Final = "hami.io/bind-time"
PREDICATE_TIME: Final = "predicate-time"  # unix seconds


@dataclass(frozen=True, slots=True)
class Npu:
    """A device as its node registers it; memory in MiB."""

    uuid: str
    index: int
    count: int  # how many containers may share it
    memory: int
    cores: int
    type: str
    healthy: bool = True
    numa: int = 0
    mode: str = ""
    network: int | None = None  # devices with the same NetworkID are connected


class Part(NamedTuple):
    """What the runtime of a node gives a container of one device: a template, or memory and cores."""

    uuid: str
    template: str = ""
    memory: int = 0
    cores: int = 0


class _Entry(msgspec.Struct):
    id: str
    count: int
    devmem: int
    devcore: int
    type: str
    index: int = 0
    health: bool = False
    numa: int = 0
    mode: str = ""
    devicevendor: str = ""
    custominfo: dict[str, Any] | None = None


def register_name(word: str) -> str:
    """Annotation of nodes with the devices of one chip."""
    return f"hami.io/node-register-{word}"


def to_allocate_name(word: str) -> str:
    """Annotation of pods; the device plugin removes what it handed out."""
    return f"hami.io/{word}-devices-to-allocate"


def allocated_name(word: str) -> str:
    return f"hami.io/{word}-devices-allocated"


def parts_name(word: str) -> str:
    """Annotation of pods with what the runtime reads, see `format_parts`."""
    return f"huawei.com/{word}"


def use_uuid_name(word: str) -> str:
    return f"hami.io/use-{word}-uuid"


def avoid_uuid_name(word: str) -> str:
    return f"hami.io/no-use-{word}-uuid"


def parse_register(text: str) -> list[Npu]:
    """Returns the devices of a node. Raises ValueError."""
    try:
        entries = msgspec.json.decode(text, type=list[_Entry])
    except msgspec.DecodeError as error:
        raise ValueError(
            f"register should be a JSON list of objects with id, count, devmem, devcore and type: {error}"
        ) from error
    for entry in entries:
        if not entry.id or not all(
            0 <= n <= vgpu.LARGEST for n in (entry.count, entry.devmem, entry.devcore)
        ):
            raise ValueError(
                f"device {entry.id!r} should have an id, and count, devmem and devcore of at least 0"
            )
    return [
        Npu(e.id, e.index, e.count, e.devmem, e.devcore, e.type, e.health, e.numa, e.mode, _network(e))
        for e in entries
    ]


def format_register(devices: Iterable[Npu]) -> str:
    return msgspec.json.encode([_entry(device) for device in devices]).decode()


def parse_assignment(text: str) -> list[list[DeviceShare]]:
    """Returns the shares of each container. Raises ValueError."""
    return vgpu.parse_assignment(text.removesuffix(";")) if text != ";" else [[]]


def format_assignment(containers: Iterable[Sequence[DeviceShare]]) -> str:
    return "".join(f"{vgpu.format_shares(shares)};" for shares in containers)


def format_parts(parts: Iterable[Part]) -> str:
    return msgspec.json.encode(
        [
            {"UUID": part.uuid, "temp": part.template}
            if part.template
            else {"UUID": part.uuid, "memory": part.memory, "core": part.cores}
            if part.memory
            else {"UUID": part.uuid}
            for part in parts
        ]
    ).decode()


def _network(entry: _Entry) -> int | None:
    network = (entry.custominfo or {}).get("NetworkID")
    return int(network) if isinstance(network, int | float) else None


def _entry(device: Npu) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": device.uuid,
        "index": device.index,
        "count": device.count,
        "devmem": device.memory,
        "devcore": device.cores,
        "type": device.type,
        "numa": device.numa,
        "mode": device.mode,
        "health": device.healthy,
    }
    return entry if device.network is None else entry | {"custominfo": {"NetworkID": device.network}}
