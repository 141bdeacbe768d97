"""The device ConfigMap: names of resources, geometries of MIG, and models of Ascend."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from volcano.base.log import Log
from volcano.base.yaml_loader import YamlError, load_yaml
from volcano.kube.devices import vgpu
from volcano.scheduler.plugins.deviceshare.mig import Geometry, Group, Instance

log = Log("deviceshare")

# Keys that only device plugins read.
OF_THE_PLUGIN = frozenset(
    (
        "resourcePriorityName", "overwriteEnv", "defaultMemory", "defaultCores", "defaultGPUNum", "deviceSplitCount",
        "deviceMemoryScaling", "deviceCoreScaling", "disableCoreLimit",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class VgpuConfig:
    """Section `nvidia`."""

    number: str = vgpu.NUMBER
    memory: str = vgpu.MEMORY
    cores: str = vgpu.CORES
    percentage: str = vgpu.MEMORY_PERCENTAGE
    factor: int = 1  # MiB in one unit of memory
    geometries: tuple[Geometry, ...] = ()


@dataclass(frozen=True, slots=True)
class Template:
    """A fixed part of an Ascend device."""

    name: str
    memory: int
    cores: int


@dataclass(frozen=True, slots=True)
class AscendConfig:
    """One entry of the section `vnpus`: a model of Ascend devices."""

    word: str
    resource: str
    memory: str
    allocatable: int  # MiB that containers can use of a device
    capacity: int
    cores: int
    templates: tuple[Template, ...]  # by memory

    @property
    def core_resource(self) -> str:
        return f"{self.resource}-core"


ASCEND_310P = AscendConfig(
    "Ascend310P",
    "huawei.com/Ascend310P",
    "huawei.com/Ascend310P-memory",
    21527,
    24576,
    8,
    (Template("vir01", 3072, 1), Template("vir02", 6144, 2), Template("vir04", 12288, 4)),
)


@dataclass(frozen=True, slots=True)
class DeviceConfig:
    """Content of a device ConfigMap; defaults where it has nothing."""

    vgpu: VgpuConfig = field(default_factory=VgpuConfig)
    ascend: tuple[AscendConfig, ...] = (ASCEND_310P,)
    soft_partitions: bool = (
        False  # whether Ascend devices may be partitioned by software, unless a node says otherwise
    )


class DeviceConfigError(Exception):
    """A device ConfigMap that cannot be used; the message says what would be right."""


DEFAULT = DeviceConfig()


@lru_cache(maxsize=8)
def read_config(text: str | None) -> DeviceConfig:
    """The configuration in a text; the defaults, with a warning in the log, when it cannot be used."""
    if text is None:
        return DEFAULT
    try:
        return parse_config(text)
    except DeviceConfigError as error:
        log.warning("device ConfigMap cannot be used, defaults apply", reason=error)
        return DEFAULT


def parse_config(text: str) -> DeviceConfig:
    """Parses the text. Raises DeviceConfigError."""
    try:
        document = load_yaml(text).value
    except YamlError as error:
        raise DeviceConfigError(f"device-config.yaml is not YAML: {error}") from None
    top = _mapping("device-config.yaml", document if document is not None else {})
    vnpus = top.get("vnpus")
    soft = isinstance(vnpus, dict) and vnpus.get("hamiVnpuCore") is True
    entries = vnpus.get("configs") if isinstance(vnpus, dict) else vnpus
    return DeviceConfig(
        _vgpu(_mapping("nvidia", top.get("nvidia") or {})),
        tuple(_ascend(_mapping("vnpus", each)) for each in _list("vnpus", entries)) or DEFAULT.ascend,
        soft,
    )


NAMES = {
    "resourceCountName": "number",
    "resourceMemoryName": "memory",
    "resourceCoreName": "cores",
    "resourceMemoryPercentageName": "percentage",
}


def _vgpu(section: Mapping[str, Any]) -> VgpuConfig:
    known = {*NAMES, *OF_THE_PLUGIN, "gpuMemoryFactor", "knownMigGeometries"}
    if unknown := sorted(str(key) for key in section if key not in known):
        log.warning("device ConfigMap has unknown keys", section="nvidia", keys=", ".join(unknown))
    names: dict[str, Any] = {NAMES[key]: str(section[key]) for key in NAMES if section.get(key)}
    factor = _whole("nvidia.gpuMemoryFactor", section.get("gpuMemoryFactor") or 1)
    geometries = _list("nvidia.knownMigGeometries", section.get("knownMigGeometries"))
    return VgpuConfig(
        **names, factor=max(factor, 1), geometries=tuple(_geometry(each) for each in geometries)
    )


def _geometry(given: Any) -> Geometry:
    where = "nvidia.knownMigGeometries"
    entry = _mapping(where, given)
    groups = (
        _mapping(f"{where}.allowedGeometries", each) for each in _list(where, entry.get("allowedGeometries"))
    )
    return Geometry(
        tuple(str(model) for model in _list(f"{where}.models", entry.get("models"))),
        tuple(
            Group(
                str(group.get("group", "")),
                tuple(_instance(each) for each in _list(f"{where}.geometries", group.get("geometries"))),
            )
            for group in groups
        ),
    )


def _instance(given: Any) -> Instance:
    entry = _mapping("geometries", given)
    name = str(entry.get("name", ""))
    return Instance(
        name, _whole(f"memory of {name}", entry.get("memory")), _whole(f"count of {name}", entry.get("count"))
    )


def _ascend(entry: Mapping[str, Any]) -> AscendConfig:
    word = entry.get("commonWord")
    if not isinstance(word, str) or not word:
        raise DeviceConfigError(f"an entry of vnpus needs a commonWord such as Ascend310P, not {word!r}")
    resource = str(entry.get("resourceName") or f"huawei.com/{word}")
    templates = [
        Template(
            str(each.get("name", "")),
            _whole(f"memory of {word}", each.get("memory")),
            int(each.get("aiCore") or 0),
        )
        for each in _list(f"templates of {word}", entry.get("templates"))
    ]
    allocatable = _whole(f"memoryAllocatable of {word}", entry.get("memoryAllocatable"))
    return AscendConfig(
        word,
        resource,
        str(entry.get("resourceMemoryName") or f"{resource}-memory"),
        allocatable,
        _whole(f"memoryCapacity of {word}", entry.get("memoryCapacity") or allocatable),
        _whole(f"aiCore of {word}", entry.get("aiCore") or 0),
        tuple(sorted(templates, key=lambda template: template.memory)),
    )


def _mapping(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise DeviceConfigError(f"{where} should be a map, not {type(value).__name__} {value!r}")
    return value


def _list(where: str, value: Any) -> Iterable[Any]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise DeviceConfigError(f"{where} should be a list, not {type(value).__name__} {value!r}")
    return value


def _whole(where: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise DeviceConfigError(f"{where} should be a whole number, not {value!r}")
    return value
