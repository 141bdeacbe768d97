"""Printers, and the formatting that print handlers share."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from volcano.apiserver.interfaces import Column
from volcano.kube.api.duration import since
from volcano.kube.api.fields import at, items
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
