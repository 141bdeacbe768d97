"""Validation of PersistentVolumes, PersistentVolumeClaims, StorageClasses and CSI kinds."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.apiserver.schema.validation.metadata import label_selector
from volcano.apiserver.schema.validation.resource_quantities import NEGATIVE
from volcano.apiserver.schema.validation.scheduling import node_selector
from volcano.kube.api import quantity
from volcano.kube.api.formats.names import dns_subdomain, qualified_name
from volcano.kube.api.manifest import Manifest

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
_PV_SOURCES = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte",
    "cephfs", "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk",
    "portworxVolume", "azureDisk", "scaleIO", "local", "storageos", "csi",
)  # fmt: skip
_PV_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "hostPath": ("path",),
    "nfs": ("server", "path"),
    "local": ("path",),
    "csi": ("driver", "volumeHandle"),
}


def volume(manifest: Manifest) -> Causes:
    """Validates a PersistentVolume."""
    spec = manifest.get("spec") or {}
    yield from _modes(spec, "spec", "")
    capacity = spec.get("capacity")
    if not capacity:
        yield field.required("spec.capacity")
    if not capacity or set(capacity) != {"storage"}:
        yield field.unsupported("spec.capacity", capacity, ["storage"])
    for name, amount in (capacity or {}).items():
        if quantity.parse(amount) <= 0:
            yield field.invalid(f"spec.capacity[{name}]", str(amount), "must be greater than zero")
    yield from _volume_source(spec)
    policy = spec.get("persistentVolumeReclaimPolicy")
    yield from field.one_of("spec.persistentVolumeReclaimPolicy", policy, ("Delete", "Recycle", "Retain"))
    yield from _class_and_mode(spec, "spec")


def _volume_source(spec: Manifest) -> Causes:
    given = [name for name in _PV_SOURCES if spec.get(name) is not None]
    if not given:
        yield field.required("spec", "must specify a volume type")
    for name in given[1:]:
        yield field.forbidden(f"spec.{name}", "may not specify more than 1 volume type")
    for name in given[:1]:
        for needed in _PV_REQUIRED.get(name, ()):
            if not spec[name].get(needed):
                yield field.required(f"spec.{name}.{needed}")
    affinity = (spec.get("nodeAffinity") or {}).get("required")
    if "local" in given and affinity is None:
        yield field.required("spec.nodeAffinity", "Local volume requires node affinity")
    if affinity is not None:
        yield from node_selector(affinity, "spec.nodeAffinity.required")


def claim(manifest: Manifest) -> Causes:
    """Validates a PersistentVolumeClaim."""
    return claim_spec(manifest.get("spec") or {}, "spec")


def claim_spec(spec: Mapping[str, Any], path: str) -> Causes:
    """Validates the spec of a claim or claim template."""
    yield from _modes(spec, path, "at least 1 access mode is required")
    yield from label_selector(spec.get("selector"), f"{path}.selector")
    amount = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if amount is None:
        yield field.required(f"{path}.resources[storage]")
    elif quantity.parse(amount) <= 0:
        yield field.invalid(f"{path}.resources[storage]", str(amount), "must be greater than zero")
    yield from _class_and_mode(spec, path)


def _modes(spec: Mapping[str, Any], path: str, detail: str) -> Causes:
    modes = spec.get("accessModes") or []
    if not modes:
        yield field.required(f"{path}.accessModes", detail)
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield field.unsupported(f"{path}.accessModes", mode, ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        yield field.forbidden(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes")


def _class_and_mode(spec: Mapping[str, Any], path: str) -> Causes:
    if name := spec.get("storageClassName"):
        yield from field.each(f"{path}.storageClassName", name, dns_subdomain(name))
    yield from field.one_of(f"{path}.volumeMode", spec.get("volumeMode"), _VOLUME_MODES)


def claim_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    """Validates a claim update: nearly all of the spec is immutable."""
    if subresource == "status":
        return
    bound = (old.get("status") or {}).get("phase") == "Bound"
    after, before = _immutable_part(new["spec"], bound=bound), _immutable_part(old["spec"], bound=bound)
    for name in ("volumeName", "storageClassName"):  # may be set once
        if not before.get(name):
            after.pop(name, None)
            before.pop(name, None)
    if after != before:
        yield field.forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        )
    if bound and _storage(new["spec"]) < _storage(old["spec"]):
        text = "field can not be less than status.capacity"
        yield field.forbidden("spec.resources.requests.storage", text)


def _storage(spec: Manifest) -> Decimal:
    return quantity.parse(((spec.get("resources") or {}).get("requests") or {}).get("storage") or 0)


def _immutable_part(spec: Manifest, *, bound: bool) -> Manifest:
    """Immutable part of a claim spec; the requests of a bound claim may change."""
    if not bound:
        return dict(spec)
    immutable = {
        name: value for name, value in spec.items() if name not in ("resources", "volumeAttributesClassName")
    }
    return {**immutable, "limits": (spec.get("resources") or {}).get("limits")}


def volume_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    """Validates that the volume source has not changed."""
    after, before = new.get("spec") or {}, old.get("spec") or {}
    if any(after.get(name) != before.get(name) for name in _PV_SOURCES):
        yield field.forbidden(
            "spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation"
        )
    yield from field.immutable("volumeMode", after.get("volumeMode"), before.get("volumeMode"))


def storage_class(manifest: Manifest) -> Causes:
    """Validates a StorageClass."""
    provisioner = manifest.get("provisioner") or ""
    if not provisioner:
        yield field.required("provisioner")
    else:
        yield from field.each("provisioner", provisioner, qualified_name(provisioner.lower()))
    for name in manifest.get("parameters") or {}:
        if not name:
            yield field.invalid("parameters", name, "field can not be empty.")
    yield from field.one_of("reclaimPolicy", manifest.get("reclaimPolicy"), ("Delete", "Retain"), needed=True)
    yield from field.one_of(
        "volumeBindingMode",
        manifest.get("volumeBindingMode"),
        ("Immediate", "WaitForFirstConsumer"),
        needed=True,
    )


def storage_class_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    for name in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        yield from field.immutable(name, new.get(name), old.get(name))


def csi_driver(manifest: Manifest) -> Causes:
    """Validates a CSIDriver."""
    spec = manifest.get("spec") or {}
    yield from field.one_of(
        "spec.fsGroupPolicy", spec.get("fsGroupPolicy"), ("File", "None", "ReadWriteOnceWithFSType")
    )
    for mode in spec.get("volumeLifecycleModes") or ():
        if mode not in ("Persistent", "Ephemeral"):
            yield field.unsupported("spec.volumeLifecycleModes", mode, ("Persistent", "Ephemeral"))


def storage_capacity(manifest: Manifest) -> Causes:
    """Validates a CSIStorageCapacity."""
    name = manifest.get("storageClassName") or ""
    yield from field.each("storageClassName", name, dns_subdomain(name))
    for amount in ("capacity", "maximumVolumeSize"):
        if manifest.get(amount) is not None and quantity.parse(manifest[amount]) < 0:
            yield field.invalid(amount, str(manifest[amount]), NEGATIVE)


def csi_node(manifest: Manifest) -> Causes:
    """Validates a CSINode."""
    for where, driver in field.items(manifest.get("spec") or {}, "drivers", "spec"):
        name = driver.get("name") or ""
        yield from field.each(f"{where}.name", name, dns_subdomain(name))
        if not driver.get("nodeID"):
            yield field.required(f"{where}.nodeID")


def volume_attachment(manifest: Manifest) -> Causes:
    """Validates a VolumeAttachment."""
    spec = manifest.get("spec") or {}
    node = spec.get("nodeName") or ""
    if not spec.get("attacher"):
        yield field.required("spec.attacher")
    yield from field.each("spec.nodeName", node, dns_subdomain(node))
    source = spec.get("source") or {}
    if name := source.get("persistentVolumeName"):
        yield from field.each("spec.source.persistentVolumeName", name, dns_subdomain(name))
    elif source.get("inlineVolumeSpec") is None:
        yield field.required(
            "spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        )
