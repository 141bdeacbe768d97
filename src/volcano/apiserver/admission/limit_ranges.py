"""LimitRanges: default requests and limits of containers, minimum and maximum of pods and claims."""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from volcano.kube.api import kinds, quantity
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest
from volcano.kube.resources.pod_requests import requests_and_limits

_ANNOTATION = "kubernetes.io/limit-ranger"


def apply_defaults(pod: Manifest, ranges: Iterable[Manifest]) -> None:
    """Sets the namespace's default requests and limits of containers that have none, and records it in an
    annotation."""
    for limits in ranges:
        for item in limits["spec"].get("limits") or ():
            if item.get("type") == "Container":
                _apply(pod, item.get("defaultRequest") or {}, item.get("default") or {})


def _apply(pod: Manifest, requests: Mapping[str, str], limits: Mapping[str, str]) -> None:
    notes = []
    for name, word in (("containers", "container"), ("initContainers", "init container")):
        for container in pod["spec"].get(name) or ():
            resources = container.setdefault("resources", {})
            for part, defaults in (("requests", requests), ("limits", limits)):
                given = resources.get(part) or {}
                added = sorted(key for key in defaults if key not in given)
                if added:
                    resources[part] = {**given, **{key: defaults[key] for key in added}}
                    notes.append(f"{', '.join(added)} {part[:-1]} for {word} {container.get('name')}")
    if notes:
        annotations = pod["metadata"].get("annotations")
        if annotations is None:
            annotations = pod["metadata"]["annotations"] = {}
        annotations[_ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"


def limit_violations(kind: Kind, manifest: Manifest, limits: Manifest) -> Iterator[str]:
    """Messages about a pod or claim that violates a LimitRange."""
    for item in limits["spec"].get("limits") or ():
        scope = item.get("type")
        if kind == kinds.PERSISTENT_VOLUME_CLAIM:
            if scope == "PersistentVolumeClaim":
                requests = (manifest["spec"].get("resources") or {}).get("requests") or {}
                yield from _check_item(item, "PersistentVolumeClaim", requests, {}, requests_only=True)
        elif scope == "Container":
            spec = manifest["spec"]
            for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
                resources = container.get("resources") or {}
                yield from _check_item(
                    item, "Container", resources.get("requests") or {}, resources.get("limits") or {}
                )
        elif scope == "Pod":
            requests, most = requests_and_limits(manifest["spec"])
            yield from _check_item(item, "Pod", requests, most)


def _check_item(
    item: Manifest,
    scope: str,
    requests: Mapping[str, Any],
    limits: Mapping[str, Any],
    *,
    requests_only: bool = False,
) -> Iterator[str]:
    for name, bound in (item.get("min") or {}).items():
        yield from _too_small(name, scope, bound, requests.get(name), limits.get(name))
    for name, bound in (item.get("max") or {}).items():
        yield from _too_big(
            name, scope, bound, requests.get(name), limits.get(name), requests_only=requests_only
        )
    for name, bound in (item.get("maxLimitRequestRatio") or {}).items():
        yield from _too_wide(name, scope, bound, requests.get(name), limits.get(name))


def _amount(value: Any) -> Decimal:
    return value if isinstance(value, Decimal) else quantity.parse(value)


def _shown(value: Any) -> str:
    return quantity.format_decimal(value) if isinstance(value, Decimal) else quantity.canonical(value)


def _too_small(name: str, scope: str, bound: Any, request: Any, limit: Any) -> Iterator[str]:
    least = _amount(bound)
    opening = f"minimum {name} usage per {scope} is {_shown(bound)}"
    if request is None:
        yield f"{opening}.  No request is specified"
    elif _amount(request) < least:
        yield f"{opening}, but request is {_shown(request)}"
    elif limit is not None and _amount(limit) < least:
        yield f"{opening}, but limit is {_shown(limit)}"


def _too_big(
    name: str, scope: str, bound: Any, request: Any, limit: Any, *, requests_only: bool
) -> Iterator[str]:
    most = _amount(bound)
    opening = f"maximum {name} usage per {scope} is {_shown(bound)}"
    if requests_only:
        if request is None:
            yield f"{opening}.  No request is specified"
        elif _amount(request) > most:
            yield f"{opening}, but request is {_shown(request)}"
    elif limit is None:
        yield f"{opening}.  No limit is specified"
    elif _amount(limit) > most:
        yield f"{opening}, but limit is {_shown(limit)}"
    elif request is not None and _amount(request) > most:
        yield f"{opening}, but request is {_shown(request)}"


def _too_wide(name: str, scope: str, bound: Any, request: Any, limit: Any) -> Iterator[str]:
    opening = f"{name} max limit to request ratio per {scope} is {_shown(bound)}"
    if request is None or _amount(request) == 0:
        yield f"{opening}, but no request is specified or request is 0"
    elif limit is None or _amount(limit) == 0:
        yield f"{opening}, but no limit is specified or limit is 0"
    else:
        ratio = _amount(limit) / _amount(request)
        if ratio > _amount(bound):
            yield f"{opening}, but provided ratio is {ratio:f}"
