"""Validation of the claims that pods and their containers refer to."""

from collections.abc import Collection, Mapping
from typing import Any

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.kube.api.errors import Cause
from volcano.kube.api.formats.names import dns_label, dns_subdomain
from volcano.kube.api.manifest import Manifest

_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


def pod_claims(spec: Mapping[str, Any], path: str) -> Causes:
    """Validates `resourceClaims` of a pod and `resources.claims` of its containers."""
    names: list[str] = []
    for where, claim in field.items(spec, "resourceClaims", path):
        name = claim.get("name") or ""
        if not name:
            yield field.required(f"{where}.name")
        elif name in names:
            yield field.duplicate(f"{where}.name", name)
        else:
            yield from field.each(f"{where}.name", name, dns_label(name))
            names.append(name)
        yield from _source(claim, where)
    for part in _CONTAINERS:
        for where, container in field.items(spec, part, path):
            claims = (container.get("resources") or {}).get("claims")
            if claims:
                yield from container_claims(claims, f"{where}.resources.claims", names)


def _source(claim: Manifest, path: str) -> Causes:
    fields = ("resourceClaimName", "resourceClaimTemplateName")
    given = [name for name in fields if claim.get(name) is not None]
    if len(given) == 2:
        both = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        yield field.invalid(path, claim, both)
    elif not given:
        yield field.invalid(
            path, claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        )
    for name in given:
        yield from field.each(f"{path}.{name}", claim[name], dns_subdomain(claim[name]))


def container_claims(claims: list[Manifest], path: str, known: Collection[str]) -> Causes:
    """Validates the claims of a container: each, or each request of it, once, and all known to the pod."""
    listed = f": {', '.join(sorted(known))}" if known else " which is empty"
    detail = f"must be one of the names in pod.spec.resourceClaims{listed}"
    seen: set[tuple[str, str]] = set()
    for index, claim in enumerate(claims):
        where, name, request = f"{path}[{index}]", claim.get("name") or "", claim.get("request") or ""
        if not name:
            yield field.required(where)
            continue
        if (name, "") in seen:
            yield field.duplicate(where, name)
        else:
            yield from field.each(f"{where}.request", request, dns_label(request) if request else ())
            if (name, request) in seen:
                yield field.duplicate(where, f"{name}/{request}")
            elif not request and any(other == name for other, _ in seen):
                yield field.duplicate(where, name)
            seen.add((name, request))
        if name not in known:
            yield Cause("FieldValueNotFound", f"Not found: {field.shown(name)}: {detail}", where)


def claim_statuses(pod: Manifest) -> Causes:
    """Validates `resourceClaimStatuses` of a pod: names of generated claims."""
    known = {claim.get("name") for claim in pod["spec"].get("resourceClaims") or ()}
    seen: set[str] = set()
    for where, entry in field.items(pod.get("status") or {}, "resourceClaimStatuses", "status"):
        name = entry.get("name") or ""
        if name not in known:
            detail = "must match the name of an entry in `spec.resourceClaims`"
            yield field.invalid(f"{where}.name", name, detail)
        yield from field.unique(f"{where}.name", name, seen)
        if (claim := entry.get("resourceClaimName")) is not None:
            yield from field.each(f"{where}.resourceClaimName", claim, dns_subdomain(claim))
