"""Validation of nodes, namespaces, events and RuntimeClasses."""

from collections.abc import Mapping
from typing import Any

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.apiserver.schema.validation.metadata import labels
from volcano.apiserver.schema.validation.resource_quantities import requirements
from volcano.apiserver.schema.validation.scheduling import taints, tolerations
from volcano.kube.api.formats.names import cidr, dns_label, qualified_name
from volcano.kube.api.manifest import Manifest

_TOLERATION_KEYS = ("key", "operator", "value", "effect")


def node(manifest: Manifest) -> Causes:
    """Validates a node."""
    spec = manifest.get("spec") or {}
    if spec.get("taints"):
        yield from taints(spec["taints"], "metadata.taints")  # parity: the path is that of kube-apiserver
    for index, value in enumerate(spec.get("podCIDRs") or ()):
        yield from field.each(f"spec.podCIDRs[{index}]", value, cidr(value))


def event(manifest: Manifest) -> Causes:
    """Validates a core/v1 event: its namespace is that of the involved object."""
    involved = (manifest.get("involvedObject") or {}).get("namespace") or ""
    namespace = manifest["metadata"].get("namespace") or ""
    if involved != namespace and not (not involved and namespace in ("default", "kube-system")):
        yield field.invalid("involvedObject.namespace", involved, "does not match event.namespace")


def new_event(manifest: Manifest) -> Causes:
    """Validates an event of events.k8s.io."""
    if manifest.get("type") not in ("Normal", "Warning"):
        yield field.invalid("type", "", f"has invalid value: {manifest.get('type') or ''}")
    if not manifest.get("eventTime"):
        yield field.required("eventTime")
        return
    controller = manifest.get("reportingController") or ""
    if not controller:
        yield field.required("reportingController")
    yield from field.each("reportingController", controller, qualified_name(controller))
    for name in ("reportingInstance", "action", "reason"):
        if not manifest.get(name):
            yield field.required(name)


def namespace(manifest: Manifest) -> Causes:
    """Validates the finalizers of a namespace."""
    for index, name in enumerate((manifest.get("spec") or {}).get("finalizers") or ()):
        yield from field.each(f"spec.finalizers[{index}]", name, qualified_name(name))
        if "/" not in name and name != "kubernetes":
            text = "name is neither a standard finalizer name nor is it fully qualified"
            yield field.invalid(f"spec.finalizers[{index}]", name, text)


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
