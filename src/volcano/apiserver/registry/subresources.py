"""Subresources: POST to them, scale, and the parts of a pod that have a path of their own."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from volcano.apiserver.errors import conflict, invalid, not_allowed
from volcano.apiserver.interfaces import Attributes, Lookup, Served
from volcano.apiserver.registry import binding, eviction
from volcano.apiserver.registry.result import Reply
from volcano.kube.api import type_info
from volcano.kube.api.errors import BadRequest, Cause
from volcano.kube.api.kinds import CRD, Kind
from volcano.kube.api.manifest import Key, Manifest

if TYPE_CHECKING:
    from volcano.apiserver.registry.registry import Registry

EVICTION = Kind("policy", "v1", "Eviction", "evictions")
SCALE = Kind("autoscaling", "v1", "Scale", "scales")


async def post(registry: "Registry", request: Attributes, served: Served, manifest: Manifest) -> Reply:
    """A POST to a subresource of a pod, or for a token of a ServiceAccount."""
    match (served.storage.resource, request.subresource):
        case ("pods", "binding"):
            return await binding.bind(registry, request, served, manifest)
        case ("pods", "eviction"):
            return await eviction.evict(registry, request, served, manifest)
        case ("serviceaccounts", "token") if registry.issue_token is not None:
            _check_token_request(manifest)
            body = await registry.pipeline.admit_body(request, manifest)
            return Reply(orjson.dumps(registry.issue_token(request.key, body)), created=True)
    raise not_allowed(served.kind, "create", request.subresource)


def _check_token_request(body: Any) -> None:
    """Rejects the body of a TokenRequest with values of the wrong type."""
    expected = type_info.type_named("authentication.k8s.io/v1", "TokenRequest")
    assert expected is not None
    if not isinstance(body, dict):
        raise BadRequest("the body must be a TokenRequest")
    wrong = type_info.inspect(expected, body).wrong
    if wrong:
        raise BadRequest(f'TokenRequest in version "v1" cannot be handled as a TokenRequest: {wrong[0]}')


def restrict(subresource: str, new: Manifest, old: Manifest) -> None:
    """Restricts an update through `ephemeralcontainers` or `resize` to the fields that it may change, in
    place."""
    part = _PARTS.get(subresource)
    if part is None:
        return
    spec = part(new.get("spec") or {}, old["spec"])
    metadata = {**old["metadata"], **_only(new["metadata"], ("resourceVersion", "managedFields"))}
    new.update(metadata=metadata, spec=spec, status=old.get("status") or {})


def _debuggers(new: Manifest, old: Manifest) -> Manifest:
    kept = {field: value for field, value in old.items() if field != "ephemeralContainers"}
    return kept | _only(new, ("ephemeralContainers",))


def _resized(new: Manifest, old: Manifest) -> Manifest:
    """The old pod with the new resources; a different set of containers is left for validation to reject."""
    spec = dict(old)
    for field in ("containers", "initContainers"):
        asked, present = new.get(field) or [], old.get(field) or []
        if [_name(container) for container in asked] != [_name(container) for container in present]:
            spec[field] = asked
        elif present:
            spec[field] = [
                {**before, **_only(after, ("resources", "resizePolicy"))}
                for before, after in zip(present, asked, strict=True)
            ]
    return spec


_PARTS = {"ephemeralcontainers": _debuggers, "resize": _resized}


def _only(holder: Mapping[str, Any], fields: tuple[str, ...]) -> Manifest:
    return {field: holder[field] for field in fields if field in holder}


def _name(container: Any) -> Any:
    return container.get("name") if isinstance(container, dict) else container


def scale_of(served: Served, manifest: Manifest, lookup: Lookup) -> Manifest:
    """The autoscaling/v1 Scale of an object."""
    paths = _scale_paths(served, lookup)
    metadata = {
        field: manifest["metadata"][field]
        for field in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if field in manifest["metadata"]
    }
    replicas = _read(manifest, paths["specReplicasPath"])
    scale: Manifest = {
        "kind": SCALE.kind,
        "apiVersion": SCALE.api_version,
        "metadata": metadata,
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": _read(manifest, paths["statusReplicasPath"]) or 0},
    }
    selector = _selector_text(manifest, paths)
    if selector:
        scale["status"]["selector"] = selector
    return scale


def rescaled(
    served: Served, manifest: Manifest, before: Manifest, scale: Manifest, lookup: Lookup
) -> Manifest:
    """The object with the replicas of a changed Scale."""
    spec, metadata = scale.get("spec") or {}, scale.get("metadata") or {}
    if not isinstance(spec, dict) or not isinstance(metadata, dict):
        raise BadRequest("not a Scale object: metadata and spec must be objects")
    replicas = spec.get("replicas") or 0
    name = manifest["metadata"]["name"]
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise BadRequest(f"not a Scale object: spec.replicas must be an integer, not {replicas!r}")
    if metadata.get("name", name) != name:
        raise BadRequest(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
        )
    if replicas < 0:
        message = f"Invalid value: {replicas}: must be greater than or equal to 0"
        raise invalid(SCALE, name, [Cause("FieldValueInvalid", message, "spec.replicas")])
    for field in ("resourceVersion", "uid"):
        given = metadata.get(field)
        if given and given != before["metadata"].get(field):
            raise conflict(served.kind, name)
    _write(manifest, _scale_paths(served, lookup)["specReplicasPath"], replicas)
    return manifest


_BUILT_IN_PATHS = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


def _scale_paths(served: Served, lookup: Lookup) -> Mapping[str, str]:
    if not served.crd:
        return _BUILT_IN_PATHS
    crd = lookup.find(CRD, Key("", served.crd)) or {}
    for version in crd.get("spec", {}).get("versions", ()):
        if version["name"] == served.kind.version:
            paths: Mapping[str, str] = (version.get("subresources") or {}).get("scale") or {}
            return paths
    return _BUILT_IN_PATHS


def _selector_text(manifest: Manifest, paths: Mapping[str, str]) -> str:
    if "labelSelectorPath" in paths:
        return str(_read(manifest, paths["labelSelectorPath"]) or "")
    selector = _read(manifest, ".spec.selector")
    if not isinstance(selector, dict) or not selector:
        return ""
    if manifest["kind"] == "ReplicationController":
        selector = {"matchLabels": selector}
    return _printed(selector)


def _printed(selector: Mapping[str, Any]) -> str:
    """A LabelSelector object as the text of a labelSelector parameter, keys in order."""
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, values = expression["key"], ",".join(sorted(expression.get("values") or ()))
        text = _OPERATORS[expression["operator"]].format(key=key, values=values)
        terms.append((key, text))
    return ",".join(text for _, text in sorted(terms))


_OPERATORS = {
    "In": "{key} in ({values})",
    "NotIn": "{key} notin ({values})",
    "Exists": "{key}",
    "DoesNotExist": "!{key}",
}


def _read(manifest: Manifest, path: str) -> Any:
    found: Any = manifest
    for step in path.strip(".").split("."):
        found = found.get(step) if isinstance(found, dict) else None
    return found


def _write(manifest: Manifest, path: str, value: Any) -> None:
    *steps, last = path.strip(".").split(".")
    holder = manifest
    for step in steps:
        holder = holder.setdefault(step, {})
    holder[last] = value
