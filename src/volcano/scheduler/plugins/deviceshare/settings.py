"""Arguments of the plugin, and what they mean together."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from volcano.scheduler.engine.arguments import Argument, Arguments, Type, is_boolean
from volcano.scheduler.plugins.deviceshare.facts import BINPACK, SPREAD

PREFIX = "deviceshare."
SHARING, NUMBER, VGPU = (f"{PREFIX}{name}" for name in ("GPUSharingEnable", "GPUNumberEnable", "VGPUEnable"))
HAMI_ASCEND, MIND_CLUSTER = f"{PREFIX}AscendHAMiVNPUEnable", f"{PREFIX}AscendMindClusterVNPUEnable"
LOCK = f"{PREFIX}NodeLockEnable"
POLICY, WEIGHT = f"{PREFIX}SchedulePolicy", f"{PREFIX}ScheduleWeight"
CONFIG_NAME, CONFIG_NAMESPACE = f"{PREFIX}KnownGeometriesCMName", f"{PREFIX}KnownGeometriesCMNamespace"
RULES = f"{PREFIX}GPUExclusiveRules"
DEFAULT_CONFIG_NAME, DEFAULT_CONFIG_NAMESPACE = "volcano-vgpu-device-config", "kube-system"


def _is_off(value: Any) -> bool:
    return not Arguments({"": value}).boolean("")


def _missing_weight(values: Mapping[str, Any]) -> str:
    if values.get(POLICY) in (BINPACK, SPREAD) and WEIGHT not in values:
        return f"{POLICY} is {values[POLICY]!r} and {WEIGHT} is not set: the weight is 1"
    return ""


def _is_rule(rule: Any) -> bool:
    return isinstance(rule, dict) and bool(rule) and all(isinstance(label, str) for label in rule.values())


ARGUMENTS = (
    Argument(SHARING, Type.BOOLEAN, excludes=(NUMBER, VGPU)),
    Argument(NUMBER, Type.BOOLEAN, excludes=(VGPU,)),
    Argument(VGPU, Type.BOOLEAN),
    Argument(
        MIND_CLUSTER,
        Type.BOOLEAN,
        lambda value: not is_boolean(value) or _is_off(value),
        f"false: vNPUs of MindCluster are not provided, because they need Ascend's own software on every node; "
        f"use {HAMI_ASCEND} for Ascend devices that HAMi shares",
    ),
    Argument(HAMI_ASCEND, Type.BOOLEAN),
    Argument(LOCK, Type.BOOLEAN),
    Argument(
        POLICY,
        Type.TEXT,
        lambda value: value in (BINPACK, SPREAD, ""),
        "binpack, spread or empty",
        _missing_weight,
    ),
    Argument(WEIGHT, Type.INTEGER, lambda value: value >= 0, "at least 0"),
    Argument(CONFIG_NAME, Type.TEXT),
    Argument(CONFIG_NAMESPACE, Type.TEXT),
    Argument(
        RULES,
        Type.LIST,
        lambda rules: all(map(_is_rule, rules)),
        "a list of maps of labels to texts, such as [{workloadType: training}]",
    ),
)


@dataclass(frozen=True, slots=True)
class Settings:
    """The arguments with their defaults."""

    sharing: bool
    number: bool
    vgpu: bool
    ascend: bool
    lock: bool
    policy: str
    weight: float
    config: tuple[str, str]  # namespace and name of the device ConfigMap
    rules: tuple[Mapping[str, str], ...]

    @classmethod
    def of(cls, arguments: Arguments) -> "Settings":
        policy = arguments.text(POLICY)
        weight = arguments.integer(WEIGHT, 1 if policy else 0)
        return cls(
            sharing=arguments.boolean(SHARING),
            number=arguments.boolean(NUMBER),
            vgpu=arguments.boolean(VGPU),
            ascend=arguments.boolean(HAMI_ASCEND),
            lock=arguments.boolean(LOCK),
            policy=policy,
            weight=float(weight),
            config=config_map(arguments),
            rules=tuple(rule for rule in arguments.value(RULES) or () if _is_rule(rule)),
        )


def device_config_map(arguments: Arguments) -> tuple[str, str] | None:
    """Namespace and name of the device ConfigMap; None when no kind of device is shared."""
    enabled = any(arguments.boolean(name) for name in (SHARING, NUMBER, VGPU, HAMI_ASCEND))
    return config_map(arguments) if enabled else None


def config_map(arguments: Arguments) -> tuple[str, str]:
    """Namespace and name of the device ConfigMap."""
    return (
        arguments.text(CONFIG_NAMESPACE) or DEFAULT_CONFIG_NAMESPACE,
        arguments.text(CONFIG_NAME) or DEFAULT_CONFIG_NAME,
    )
