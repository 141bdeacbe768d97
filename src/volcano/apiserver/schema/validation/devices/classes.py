"""Validation of DeviceClasses."""

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.devices import common
from volcano.apiserver.schema.validation.field import Causes
from volcano.kube.api.manifest import Manifest
from volcano.kube.resources.extended import is_extended


def device_class(manifest: Manifest) -> Causes:
    """Validates a DeviceClass."""
    spec = manifest.get("spec") or {}
    yield from common.items(spec.get("selectors"), "spec.selectors", common.MOST_SELECTORS, common.selector)
    yield from common.items(
        spec.get("config"), "spec.config", common.MOST_CONFIGURATIONS, common.configuration
    )
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended(name):
        yield field.invalid("spec.extendedResourceName", name, "must be a valid extended resource name")
