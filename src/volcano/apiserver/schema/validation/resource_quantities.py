"""What amounts of resources must look like: known names, sensible quantities, requests within limits."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.apiserver.schema.validation.names import qualified_name
from volcano.kube import quantity
from volcano.kube.extended import is_extended

_CONTAINER = ("cpu", "memory", "ephemeral-storage")
_STANDARD = frozenset(
    {
        *_CONTAINER, "requests.cpu", "requests.memory", "requests.ephemeral-storage", "limits.cpu", "limits.memory",
        "limits.ephemeral-storage", "pods", "resourcequotas", "services", "replicationcontrollers", "secrets",
        "persistentvolumeclaims", "configmaps", "services.nodeports", "services.loadbalancers", "storage",
        "requests.storage",
    }
)  # fmt: skip
_WHOLE = frozenset(
    {
        "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
        "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
    }
)  # fmt: skip
NEGATIVE = "must be greater than or equal to 0"
_INTEGER = "must be an integer"


def is_huge(name: str) -> bool:
    return name.startswith("hugepages-")


def is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


@lru_cache(maxsize=1024)
def _name_complaints(name: str) -> tuple[str, ...]:
    complaints = qualified_name(name)
    if complaints:
        return complaints
    if (
        "/" not in name
        and name not in _STANDARD
        and not is_huge(name)
        and not name.startswith("requests.hugepages-")
    ):
        return ("must be a standard resource type or fully qualified",)
    return ()


def container_name(name: str, path: str) -> Causes:
    """Complaints about the name of something a container asks for."""
    yield from field.each(path, name, _name_complaints(name))
    if "/" not in name and name not in _CONTAINER and not is_huge(name):
        yield field.invalid(path, name, "must be a standard resource for containers")


def quota_name(name: str, path: str) -> Causes:
    """Complaints about the name of something a quota limits."""
    yield from field.each(path, name, _name_complaints(name))
    plain = name.removeprefix("requests.").removeprefix("limits.")
    if "/" not in name and name not in _STANDARD and not is_huge(plain) and not name.startswith("count/"):
        yield field.invalid(path, name, "must be a standard resource for quota")


def amount(name: str, value: Any, path: str) -> Causes:
    """Complaints about a quantity: not negative, and whole where halves make no sense."""
    number = quantity.parse(value)
    if number < 0:
        yield field.invalid(path, str(value), NEGATIVE)
    if (name in _WHOLE or is_extended(name) or name.startswith("count/")) and number != int(number):
        yield field.invalid(path, str(value), _INTEGER)


def requirements(resources: Mapping[str, Any], path: str) -> Causes:
    """Complaints about a container's requests and limits."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, value in limits.items():
        yield from _quantity(name, value, f"{path}.limits")
    for name, value in requests.items():
        yield from _quantity(name, value, f"{path}.requests")
        limit = limits.get(name)
        if limit is not None:
            if limit == value:
                continue
            asked, most = quantity.parse(value), quantity.parse(limit)
            if asked != most and not _overcommits(name):
                yield field.invalid(
                    f"{path}.requests", str(value), f"must be equal to {name} limit of {limit}"
                )
            elif asked > most:
                text = f"must be less than or equal to {name} limit of {limit}"
                yield field.invalid(f"{path}.requests", str(value), text)
        elif not _overcommits(name):
            yield field.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
    named = limits.keys() | requests.keys()
    if any(is_huge(name) for name in named) and not named & {"cpu", "memory"}:
        yield field.forbidden(path, "HugePages require cpu or memory")


def _overcommits(name: str) -> bool:
    """Only cpu, memory and the like may be promised more than once."""
    return is_native(name) and not is_huge(name)


@lru_cache(maxsize=4096)
def _fine(name: str, value: Any) -> bool:
    """Whether there is nothing to say about one amount; most are seen again and again."""
    return not [*container_name(name, ""), *amount(name, value, "")]


def _quantity(name: str, value: Any, path: str) -> Causes:
    if not _fine(name, value):
        yield from container_name(name, f"{path}[{name}]")
        yield from amount(name, value, f"{path}[{name}]")
