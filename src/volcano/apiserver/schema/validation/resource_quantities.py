"""Validation of resource names and quantities, and of requests against limits."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.kube.api import quantity
from volcano.kube.api.formats.names import qualified_name
from volcano.kube.resources.extended import is_extended

_CONTAINER = ("cpu", "memory", "ephemeral-storage")
_STANDARD = frozenset(
    {
        *_CONTAINER, "requests.cpu", "requests.memory", "requests.ephemeral-storage", "limits.cpu", "limits.memory",
        "limits.ephemeral-storage", "pods", "resourcequotas", "services", "replicationcontrollers", "secrets",
        "persistentvolumeclaims", "configmaps", "services.nodeports", "services.loadbalancers", "storage",
        "requests.storage",
    }
)  # fmt: skip
_INTEGER_RESOURCES = frozenset(
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
def name_errors(name: str) -> tuple[str, ...]:
    errors = qualified_name(name)
    if errors:
        return errors
    if (
        "/" not in name
        and name not in _STANDARD
        and not is_huge(name)
        and not name.startswith("requests.hugepages-")
    ):
        return ("must be a standard resource type or fully qualified",)
    return ()


def container_name(name: str, path: str) -> Causes:
    """Validates the name of a container resource."""
    yield from field.each(path, name, name_errors(name))
    if "/" not in name and name not in _CONTAINER and not is_huge(name):
        yield field.invalid(path, name, "must be a standard resource for containers")


def quota_name(name: str, path: str) -> Causes:
    """Validates the name of a resource in a quota."""
    yield from field.each(path, name, name_errors(name))
    plain = name.removeprefix("requests.").removeprefix("limits.")
    if "/" not in name and name not in _STANDARD and not is_huge(plain) and not name.startswith("count/"):
        yield field.invalid(path, name, "must be a standard resource for quota")


def amount(name: str, value: Any, path: str) -> Causes:
    """Validates a quantity: not negative, and an integer for countable resources."""
    number = quantity.parse(value)
    if number < 0:
        yield field.invalid(path, str(value), NEGATIVE)
    if (name in _INTEGER_RESOURCES or is_extended(name) or name.startswith("count/")) and number != int(
        number
    ):
        yield field.invalid(path, str(value), _INTEGER)


def requirements(
    resources: Mapping[str, Any], path: str, check: Callable[[str, Any, str], Causes] | None = None
) -> Causes:
    """Validates requests and limits, by default those of a container; `check` validates a name and its amount."""
    check = check or _quantity
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, value in limits.items():
        yield from check(name, value, f"{path}.limits")
    for name, value in requests.items():
        yield from check(name, value, f"{path}.requests")
        limit = limits.get(name)
        if limit is not None:
            if limit == value:
                continue
            request, most = quantity.parse(value), quantity.parse(limit)
            if request != most and not _is_overcommitable(name):
                yield field.invalid(
                    f"{path}.requests", str(value), f"must be equal to {name} limit of {limit}"
                )
            elif request > most:
                text = f"must be less than or equal to {name} limit of {limit}"
                yield field.invalid(f"{path}.requests", str(value), text)
        elif not _is_overcommitable(name):
            yield field.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
    named = limits.keys() | requests.keys()
    if any(is_huge(name) for name in named) and not named & {"cpu", "memory"}:
        yield field.forbidden(path, "HugePages require cpu or memory")


def _is_overcommitable(name: str) -> bool:
    """Whether a resource can be overcommitted."""
    return is_native(name) and not is_huge(name)


@lru_cache(maxsize=4096)
def _is_valid(name: str, value: Any) -> bool:
    """Whether a resource name and quantity are valid; cached, because most occur again."""
    return not [*container_name(name, ""), *amount(name, value, "")]


def _quantity(name: str, value: Any, path: str) -> Causes:
    if not _is_valid(name, value):
        yield from container_name(name, f"{path}[{name}]")
        yield from amount(name, value, f"{path}[{name}]")
