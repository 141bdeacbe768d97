"""Admission of ResourceClaims: admin access needs a label of the namespace, binding them a right of its own."""

from collections.abc import Iterable, Mapping
from typing import Any

from volcano.apiserver.authz.actions import Action
from volcano.apiserver.authz.rbac import MASTERS, Authorizer
from volcano.apiserver.errors import invalid
from volcano.apiserver.interfaces import Attributes, Lookup
from volcano.apiserver.schema.validation import field
from volcano.kube.api.kinds import NAMESPACE, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, Kind
from volcano.kube.api.manifest import Key, Manifest, labels_of

ADMIN_LABEL = "resource.kubernetes.io/admin-access"


class DeviceClaims:
    """Admission plugin for claims and their templates."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, kind: Kind) -> bool:
        return kind in (RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE)

    async def __call__(
        self, request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        if new is None:
            return new
        if old is None:
            spec = new.get("spec") or {}
            spec = spec.get("spec") or {} if request.kind == RESOURCE_CLAIM_TEMPLATE else spec
            requests = (spec.get("devices") or {}).get("requests") or ()
            exactly = (each.get("exactly") or {} for each in requests)
            self._check_admin(request, exactly, "spec.devices.requests", lookup)
        elif request.subresource == "status":
            if not any(result.get("adminAccess") for result in _results(old)):
                self._check_admin(request, _results(new), "status.allocation.devices.results", lookup)
            self._check_binding(request, new.get("status") or {}, old.get("status") or {})
        return new

    def _check_admin(
        self, request: Attributes, entries: Iterable[Mapping[str, Any]], path: str, lookup: Lookup
    ) -> None:
        index = next((index for index, each in enumerate(entries) if each.get("adminAccess")), None)
        if index is None:
            return
        namespace = lookup.find(NAMESPACE, Key("", request.key.namespace))
        if namespace is None or labels_of(namespace).get(ADMIN_LABEL) != "true":
            detail = f"admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
            cause = field.forbidden(f"{path}[{index}].adminAccess", detail)
            raise invalid(request.kind, request.key.name, [cause])

    def _check_binding(
        self, request: Attributes, status: Mapping[str, Any], before: Mapping[str, Any]
    ) -> None:
        same = all(
            (status.get(name) or None) == (before.get(name) or None) for name in ("allocation", "reservedFor")
        )
        if same or MASTERS in request.user.groups:
            return
        action = Action(request.verb, RESOURCE_CLAIM.group, RESOURCE_CLAIM.plural, subresource="binding")
        if not self._authorizer.allowed(request.user, action):
            detail = (
                "changing status.allocation or status.reservedFor requires "
                f'resource="resourceclaims/binding", verb="{request.verb}" permission: not allowed'
            )
            cause = field.forbidden("status.allocation", detail)
            raise invalid(request.kind, request.key.name, [cause])


def _results(claim: Manifest) -> list[Mapping[str, Any]]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or []
