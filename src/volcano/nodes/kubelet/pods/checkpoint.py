"""Checkpoint of a pod: the state needed after a restart that neither its status nor the runtime has."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

FILE = "agent.json"


@dataclass(frozen=True, slots=True)
class PodCheckpoint:
    """By container: the current and the next restart delay, and its GPUs."""

    back_offs: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def save(directory: Path, checkpoint: PodCheckpoint) -> None:
    """Replaces the file atomically."""
    content = {"backOffs": dict(checkpoint.back_offs), "devices": dict(checkpoint.devices)}
    path = directory / FILE
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(content))
    os.replace(fresh, path)


def load(directory: Path) -> PodCheckpoint:
    """The saved checkpoint; an empty one if there is none or it cannot be read."""
    try:
        content = json.loads((directory / FILE).read_text())
        return PodCheckpoint(
            {name: (float(now), float(then)) for name, (now, then) in content["backOffs"].items()},
            {name: tuple(map(str, gpus)) for name, gpus in content["devices"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return PodCheckpoint()
