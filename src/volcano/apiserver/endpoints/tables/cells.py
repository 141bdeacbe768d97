"""Printers, and the access to manifest fields and the formatting that print handlers share."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from volcano.apiserver.interfaces import Column
from volcano.base.clock import parse_timestamp
from volcano.kube.api.manifest import Manifest

NONE, UNSET, UNKNOWN = "<none>", "<unset>", "<unknown>"

# Returns the cells of one object, in the order of the columns, at wall time `now`.
PrintHandler = Callable[[Manifest, float], list[Any]]


@dataclass(frozen=True, slots=True)
class Printer:
    """Printer columns and print handler of one kind."""

    columns: tuple[Column, ...]
    handler: PrintHandler


NAME = Column("Name", format="name")
AGE = Column("Age")


def wide(*names: str) -> tuple[Column, ...]:
    """String columns that only `-o wide` shows."""
    return tuple(Column(name, priority=1) for name in names)


def text(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name) for name in names)


def integers(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, type="integer") for name in names)


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


def human_duration(seconds: float) -> str:
    """Formats a duration with two or three significant figures: 90s, 5m30s, 3h, 2d4h, 1y200d."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 120:
        return f"{max(whole, 0)}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 10:
        return _pair(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _pair(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        return _pair(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _pair(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def wall_time(timestamp: Any) -> float | None:
    """Parses a timestamp; None for anything else."""
    if not isinstance(timestamp, str) or not timestamp:
        return None
    try:
        return parse_timestamp(timestamp)
    except ValueError:
        return None


def since(timestamp: Any, now: float) -> str:
    """Formats the time since a timestamp."""
    wall = wall_time(timestamp)
    return UNKNOWN if wall is None else human_duration(now - wall)


def age(manifest: Manifest, now: float) -> str:
    return since(at(manifest, "metadata", "creationTimestamp"), now)


def labels_text(labels: Any) -> str:
    """Formats labels as `a=1,b=2`, or <none>."""
    pairs = labels.items() if isinstance(labels, Mapping) else ()
    return ",".join(f"{key}={value}" for key, value in sorted(pairs)) or NONE


def selector_text(selector: Any) -> str:
    """Formats a label selector on one line, or <none>."""
    terms = [(key, f"{key}={value}") for key, value in (at(selector, "matchLabels", default={})).items()]
    terms += [
        (str(at(expression, "key", default="")), _requirement(expression))
        for expression in items(selector, "matchExpressions")
    ]
    return ",".join(term for _, term in sorted(terms)) or NONE


def _requirement(expression: Mapping[str, Any]) -> str:
    key = at(expression, "key", default="")
    values = ",".join(sorted(str(value) for value in at(expression, "values", default=())))
    match at(expression, "operator"):
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "DoesNotExist":
            return f"!{key}"
        case _:
            return str(key)


def containers_text(pod_spec: Any) -> list[str]:
    """Formats the names and the images of the containers of a pod, comma separated."""
    containers = items(pod_spec, "containers")
    return [
        ",".join(str(container.get(field, "")) for container in containers) for field in ("name", "image")
    ]


def first_few(entries: Iterable[str], empty: str) -> str:
    """Formats the first three entries and the number of the others."""
    shown = list(entries)
    if len(shown) > 3:
        return f"{','.join(shown[:3])} + {len(shown) - 3} more..."
    return ",".join(shown) or empty


def is_true(manifest: Any, condition: str) -> bool:
    """Whether a status condition is present and True."""
    return any(
        entry.get("type") == condition and entry.get("status") == "True"
        for entry in items(manifest, "status", "conditions")
    )
