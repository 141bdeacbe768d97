"""Inputs: data that plugins declare to need beside the objects of the cluster, and that the scheduler then reads."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from volcano.accounting.api import DecayedUsage
from volcano.scheduler.engine.arguments import Arguments


@dataclass(frozen=True, slots=True)
class ConfigMapInput:
    """Informer: a ConfigMap is watched while the arguments name one; its text is in `snapshot.device_configs`."""

    named: Callable[[Arguments], tuple[str, str] | None]  # its namespace and name


@dataclass(frozen=True, slots=True)
class LoadInput:
    """Poller: the measured load of nodes, in `snapshot.usage`; the section `metrics` says where it comes from."""


@dataclass(frozen=True, slots=True)
class UsageInput:
    """History: recorded usage, read once when the scheduler starts, replaces the memory of the plugin."""

    half_life: Callable[[Arguments], float]  # seconds
    memory: Callable[[DecayedUsage], Any]


Input = ConfigMapInput | LoadInput | UsageInput
