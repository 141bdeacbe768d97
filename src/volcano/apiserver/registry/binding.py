"""The binding subresource: assigns a pod to a node, once; the rest of the pod is shared, not copied."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from volcano.apiserver.errors import conflict, invalid, not_found
from volcano.apiserver.interfaces import Attributes, Served
from volcano.apiserver.registry.result import Reply, success
from volcano.apiserver.storage.store import Stale
from volcano.base.clock import Instant
from volcano.kube.api.errors import BadRequest, Cause
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest

if TYPE_CHECKING:
    from volcano.apiserver.registry.registry import Registry

BINDING = Kind("", "v1", "Binding", "bindings")
_MERGED = ("annotations", "labels")


async def bind(registry: "Registry", request: Attributes, served: Served, binding: Manifest) -> Reply:
    """A POST to the `binding` of a pod."""
    key, target = request.key, _checked_target(request, binding)
    store, name = registry.store, served.storage.resource
    while True:
        record = store.get(name, key)
        if record is None:
            raise not_found(served.kind, key.name)
        admitted = await registry.pipeline.admit_body(request, binding)
        pod = store.manifest(record)
        why = unbindable(pod, key.name)
        if why:
            raise conflict(served.kind, key.name, why, subresource="binding")
        _check_preconditions(served.kind, key.name, binding["metadata"], pod["metadata"])
        if request.options.dry_run:
            return success(created=True)
        try:
            written = store.put(name, bound(pod, target, admitted["metadata"], registry.clock.now()), record)
        except Stale:
            continue
        await store.durable(written.version)
        return success(created=True)


def unbindable(pod: Manifest, name: str) -> str:
    """Why a pod cannot be bound to a node; empty when it can."""
    spec = pod["spec"]
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def bound(pod: Manifest, node: str, asked: Mapping[str, Any], now: Instant) -> Manifest:
    """The pod on its node, with the annotations and labels of the binding's metadata.

    It shares unchanged parts with the previous version; both are read-only.
    """
    metadata = dict(pod["metadata"])
    for field in _MERGED:
        if asked.get(field):
            metadata[field] = {**(metadata.get(field) or {}), **asked[field]}
    status = dict(pod.get("status") or {})
    status.pop("nominatedNodeName", None)
    status["conditions"] = _scheduled(status.get("conditions") or (), now)
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": node}, "status": status}


def _scheduled(conditions: "list[Manifest] | tuple[()]", now: Instant) -> list[Manifest]:
    """The conditions of a pod that has a node."""
    before = next((each for each in conditions if each.get("type") == "PodScheduled"), None)
    since = {"lastProbeTime": None, "lastTransitionTime": now.timestamp()}
    if before is None:
        return [*conditions, {"type": "PodScheduled", "status": "True", **since}]
    after = {field: value for field, value in before.items() if field not in ("reason", "message")}
    if after.get("status") != "True":
        after.update(status="True", **since)
    return [after if each is before else each for each in conditions]


def _checked_target(request: Attributes, binding: Any) -> str:
    metadata = binding.get("metadata") if isinstance(binding, dict) else None
    target = binding.get("target") if isinstance(binding, dict) else None
    if not isinstance(metadata, dict) or not isinstance(target, dict | None):
        raise BadRequest("not a Binding object: metadata and target must be objects")
    if metadata.setdefault("name", request.key.name) != request.key.name:
        raise BadRequest("name in URL does not match name in Binding object")
    for field in _MERGED:
        if field in metadata and not _is_text_map(metadata[field] or {}):
            raise BadRequest(f"not a Binding object: metadata.{field} must map text to text")
    target = target or {}
    causes = []
    if target.get("kind") not in (None, "", "Node"):
        message = f'Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"'
        causes.append(Cause("FieldValueNotSupported", message, "target.kind"))
    node = target.get("name")
    if not node or not isinstance(node, str):
        causes.append(Cause("FieldValueRequired", "Required value", "target.name"))
    if causes:
        raise invalid(BINDING, request.key.name, causes)
    return str(node)


def _is_text_map(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _check_preconditions(kind: Kind, name: str, asked: Mapping[str, Any], pod: Mapping[str, Any]) -> None:
    for field, word in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if asked.get(field) and asked[field] != pod[field]:
            why = f"Precondition failed: {word} in precondition: {asked[field]}, {word} in object meta: {pod[field]}"
            raise conflict(kind, name, why)
