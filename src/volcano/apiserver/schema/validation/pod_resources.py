"""Validation of the resources of a pod as a whole (`spec.resources`) against themselves and those of its containers."""

from collections.abc import Mapping
from typing import Any

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.devices.pods import container_claims
from volcano.apiserver.schema.validation.field import Causes
from volcano.apiserver.schema.validation.resource_quantities import (
    amount,
    is_huge,
    name_errors,
    requirements,
)
from volcano.kube.api import quantity
from volcano.kube.resources.pod_requests import container_requests

_SUPPORTED = ("cpu", "hugepages-", "memory")


def pod_resources(spec: Mapping[str, Any], path: str) -> Causes:
    """Validates pod-level resources."""
    resources, here = spec["resources"], f"{path}.resources"
    if (spec.get("os") or {}).get("name") == "windows":
        yield field.forbidden(here, "may not be set for a windows pod")
    yield from _claims(spec, here)
    yield from requirements(resources, here, _quantity)
    yield from _against_containers(spec, here)


def _claims(spec: Mapping[str, Any], path: str) -> Causes:
    claims = spec["resources"].get("claims") or ()
    if not claims:
        return
    yield field.forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level")
    known = [claim.get("name") for claim in spec.get("resourceClaims") or ()]
    yield from container_claims(claims, f"{path}.claims", known)


def _quantity(name: str, value: Any, path: str) -> Causes:
    where = f"{path}[{name}]"
    errors = name_errors(name)
    yield from field.each(where, name, errors)
    if not errors and name not in ("cpu", "memory") and not is_huge(name):
        yield field.unsupported(where, name, _SUPPORTED)
    yield from amount(name, value, where)


def _against_containers(spec: Mapping[str, Any], path: str) -> Causes:
    """The pod's requests cover those of its containers together, its limits those of each."""
    resources = spec["resources"]
    together = container_requests(spec)
    for name, value in (resources.get("requests") or {}).items():
        if name in together and quantity.parse(together[name]) > quantity.parse(value):
            text = f"must be greater than or equal to aggregate container requests of {together[name]}"
            yield field.invalid(f"{path}.requests[{name}]", str(value), text)
    limits = resources.get("limits") or {}
    for part in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(part) or ()):
            for name, value in ((container.get("resources") or {}).get("limits") or {}).items():
                if name in limits and quantity.parse(value) > quantity.parse(limits[name]):
                    text = f"must be less than or equal to pod limits of {limits[name]}"
                    yield field.invalid(f"{path}.{part}[{index}][{name}].limits", str(value), text)
