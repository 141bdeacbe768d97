"""Behaviour of simulated containers: how long they run and their exit code."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from volcano.kube.api import names
from volcano.kube.api.duration import parse as parse_duration
from volcano.kube.api.manifest import Manifest, annotations_of

FOREVER = math.inf
_SLEEP = re.compile(r"\bsleep\s+(infinity|\d+(?:\.\d+)?)([smhd]?)")
_EXIT = re.compile(r"\bexit\s+(\d+)\s*;?\s*$")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
SHELLS = ("sh", "bash", "dash", "ash", "zsh")


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Duration of a container in seconds, and its exit code."""

    duration: float
    exit_code: int = 0


def behaviour_of(pod: Manifest, container: Mapping[str, Any], default: float) -> Behaviour:
    """Taken from the pod's annotations, else from a `sleep N` in the command, else from `default`."""
    annotations = annotations_of(pod)
    arguments = [*(container.get("command") or ()), *(container.get("args") or ())]
    sleep_seconds, exit_code = _read(arguments)
    duration = _annotated_duration(annotations.get(names.SIM_DURATION))
    if duration is None:
        duration = default if sleep_seconds is None else sleep_seconds
    annotated_code = annotations.get(names.SIM_EXIT_CODE, "")
    if annotated_code.strip().isdigit():
        exit_code = int(annotated_code) & 0xFF
    return Behaviour(duration, exit_code)


def init_behaviour_of(container: Mapping[str, Any]) -> Behaviour:
    """An init container runs for its `sleep N`, otherwise it completes immediately."""
    sleep_seconds, exit_code = _read([*(container.get("command") or ()), *(container.get("args") or ())])
    return Behaviour(sleep_seconds or 0.0, exit_code)


def _read(arguments: list[str]) -> tuple[float | None, int]:
    """The seconds slept and the exit code in a command line."""
    if not arguments:
        return None, 0
    command = arguments[0].rsplit("/", 1)[-1]
    if command == "sleep":
        text = "sleep " + " ".join(arguments[1:2])
    elif command in SHELLS and "-c" in arguments[:-1]:
        text = arguments[arguments.index("-c") + 1]
    elif command in ("true", "false"):
        return 0.0, int(command == "false")
    else:
        return None, 0
    sleeps = [
        FOREVER if amount == "infinity" else float(amount) * _UNITS[unit]
        for amount, unit in _SLEEP.findall(text)
    ]
    ended = _EXIT.search(text)
    code = int(ended.group(1)) & 0xFF if ended else 0
    if not sleeps and ended:
        return 0.0, code
    return (sum(sleeps) if sleeps else None), code


def _annotated_duration(text: str | None) -> float | None:
    if text is None:
        return None
    if text.strip().lower() in ("forever", "infinity", "inf"):
        return FOREVER
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return parse_duration(text)
    except ValueError:
        return None
