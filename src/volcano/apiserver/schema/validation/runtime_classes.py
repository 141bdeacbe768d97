"""Validation of RuntimeClasses."""

from collections.abc import Mapping
from typing import Any

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.apiserver.schema.validation.metadata import labels
from volcano.apiserver.schema.validation.resource_quantities import requirements
from volcano.apiserver.schema.validation.scheduling import tolerations
from volcano.kube.api.formats.names import dns_label
from volcano.kube.api.manifest import Manifest

_TOLERATION_KEYS = ("key", "operator", "value", "effect")


def runtime_class(manifest: Manifest) -> Causes:
    """Validates a RuntimeClass."""
    handler = manifest.get("handler") or ""
    if not handler:
        yield field.required("handler")
    yield from field.each("handler", handler, dns_label(handler) if handler else ())
    if overhead := manifest.get("overhead"):
        yield from requirements({"limits": overhead.get("podFixed") or {}}, "overhead")
    if scheduling := manifest.get("scheduling"):
        yield from labels(scheduling.get("nodeSelector") or {}, "scheduling.nodeSelector")
        yield from tolerations(scheduling, "scheduling")
        yield from _unique(scheduling)


def runtime_class_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    yield from field.immutable("handler", new.get("handler"), old.get("handler"))


def _unique(scheduling: Mapping[str, Any]) -> Causes:
    seen: set[tuple[Any, ...]] = set()
    for path, toleration in field.items(scheduling, "tolerations", "scheduling"):
        key = tuple(toleration.get(name) or "" for name in _TOLERATION_KEYS)
        if key in seen:
            yield field.duplicate(path, toleration)
        seen.add(key)
