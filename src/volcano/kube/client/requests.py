"""Paths, query parameters and bodies of API requests."""

from typing import Any
from urllib.parse import quote, urlencode

from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Options, PatchType, Query

# Bodies of these subresources are of another kind than their object.
SUBRESOURCE_KINDS: dict[str, tuple[str, str]] = {
    "binding": ("v1", "Binding"),
    "eviction": ("policy/v1", "Eviction"),
    "scale": ("autoscaling/v1", "Scale"),
    "token": ("authentication.k8s.io/v1", "TokenRequest"),
}


def path_of(kind: Kind, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Returns the percent-encoded path of a collection, an object or a subresource."""
    parts = ["/apis", kind.group, kind.version] if kind.group else ["/api", kind.version]
    if namespace and kind.namespaced:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(kind.plural)
    if name:
        parts.append(quote(name, safe=""))
    if subresource:
        parts += [quote(part, safe="") for part in subresource.split("/")]
    return "/".join(parts)


def with_query(path: str, parameters: dict[str, str]) -> str:
    """Appends query parameters to a path, without empty ones."""
    given = {name: value for name, value in parameters.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


def write_parameters(options: Options, *, applying: bool = False) -> dict[str, str]:
    return {
        "dryRun": "All" if options.dry_run else "",
        "fieldManager": options.field_manager,
        "fieldValidation": options.field_validation,
        "force": "true" if options.force and applying else "",
    }


def list_parameters(query: Query) -> dict[str, str]:
    return {
        "labelSelector": query.labels,
        "fieldSelector": query.fields,
        "limit": str(query.limit or ""),
        "continue": query.continue_token,
        "resourceVersion": query.resource_version,
        "resourceVersionMatch": query.resource_version_match,
    }


def watch_parameters(query: Query, timeout_seconds: int) -> dict[str, str]:
    """Returns the query parameters of a watch; a streaming list needs resourceVersionMatch."""
    match = query.resource_version_match or ("NotOlderThan" if query.send_initial_events else "")
    return {
        "watch": "true",
        "labelSelector": query.labels,
        "fieldSelector": query.fields,
        "resourceVersion": query.resource_version,
        "resourceVersionMatch": match,
        "sendInitialEvents": "true" if query.send_initial_events else "",
        "allowWatchBookmarks": "true" if query.bookmarks or query.send_initial_events else "",
        "timeoutSeconds": str(timeout_seconds or ""),
    }


def delete_body(options: Options) -> Manifest:
    """Returns the DeleteOptions of a delete."""
    body: Manifest = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if options.grace_seconds is not None:
        body["gracePeriodSeconds"] = options.grace_seconds
    if options.propagation:
        body["propagationPolicy"] = options.propagation
    if preconditions := _preconditions(options):
        body["preconditions"] = preconditions
    if options.dry_run:
        body["dryRun"] = ["All"]
    return body


def write_body(kind: Kind, manifest: Manifest, subresource: str, options: Options) -> Manifest:
    """Returns the body of a create or update: the manifest with apiVersion, kind and preconditions."""
    api_version, name = SUBRESOURCE_KINDS.get(subresource, (kind.api_version, kind.kind))
    body: Manifest = {"apiVersion": api_version, "kind": name, **manifest}
    if preconditions := _preconditions(options):
        body["metadata"] = {**body.get("metadata", {}), **preconditions}
    return body


def patch_body(patch: Any, options: Options) -> Any:
    """Returns a patch with the preconditions in the options, if any."""
    preconditions = _preconditions(options)
    if not preconditions:
        return patch
    if options.patch_type is PatchType.JSON:
        tests = [
            {"op": "test", "path": f"/metadata/{field}", "value": value}
            for field, value in preconditions.items()
        ]
        return [*tests, *patch]
    return {**patch, "metadata": {**patch.get("metadata", {}), **preconditions}}


def _preconditions(options: Options) -> dict[str, str]:
    wanted = {"uid": options.uid, "resourceVersion": options.resource_version}
    return {field: value for field, value in wanted.items() if value}
