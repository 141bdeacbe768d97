"""Access to fields of manifests that may be missing or of another type."""

from collections.abc import Mapping
from typing import Any

from volcano.base.clock import parse_timestamp
from volcano.kube.api.manifest import Manifest


def at(value: Any, *path: str, default: Any = None) -> Any:
    """Returns the value at a path of field names; `default` if any part of it is missing or null."""
    for step in path:
        if not isinstance(value, Mapping):
            return default
        value = value.get(step)
    return default if value is None else value


def name_of(manifest: Manifest) -> str:
    return str(at(manifest, "metadata", "name", default=""))


def items(value: Any, *path: str) -> list[Mapping[str, Any]]:
    """Returns the objects in the list at a path."""
    found = at(value, *path, default=())
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []


def count(value: Any, *path: str) -> int:
    """Returns the number of entries of the list or map at a path."""
    found = at(value, *path, default=())
    return len(found) if isinstance(found, list | dict) else 0


def number(value: Any, *path: str) -> int:
    """Returns the integer at a path, 0 if there is none."""
    found = at(value, *path, default=0)
    return int(found) if isinstance(found, int | float) else 0


def is_true(manifest: Any, condition: str) -> bool:
    """Whether a status condition is present and True."""
    return any(
        entry.get("type") == condition and entry.get("status") == "True"
        for entry in items(manifest, "status", "conditions")
    )


def wall_time(timestamp: Any) -> float | None:
    """Parses a timestamp; None for anything else."""
    if not isinstance(timestamp, str) or not timestamp:
        return None
    try:
        return parse_timestamp(timestamp)
    except ValueError:
        return None
