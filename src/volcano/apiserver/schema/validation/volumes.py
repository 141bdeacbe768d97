"""Validation of the volumes of a pod."""

from collections.abc import Callable, Mapping
from typing import Any

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.containers import (
    FILE_FIELDS,
    descending_path,
    field_reference,
    no_parent_references,
    resource_reference,
)
from volcano.apiserver.schema.validation.field import Causes
from volcano.apiserver.schema.validation.storage import claim_spec
from volcano.kube.api import quantity
from volcano.kube.api.formats.names import dns_label
from volcano.kube.api.manifest import Manifest

_HOST_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
# In the order in which kube-apiserver reports a second volume type.
SOURCES = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc",
    "flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk",
    "storageos", "projected", "scaleIO", "csi", "ephemeral", "image",
)  # fmt: skip
# Required fields of volume types.
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "gitRepo": ("repository",),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "nfs": ("server", "path"),
    "iscsi": ("targetPortal", "iqn"),
    "glusterfs": ("endpoints", "path"),
    "persistentVolumeClaim": ("claimName",),
    "rbd": ("monitors", "image"),
    "cinder": ("volumeID",),
    "cephfs": ("monitors",),
    "quobyte": ("registry", "volume"),
    "flexVolume": ("driver",),
    "azureFile": ("secretName", "shareName"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "scaleIO": ("gateway", "system", "volumeName"),
    "csi": ("driver",),
}


def volumes(spec: Mapping[str, Any], path: str) -> Causes:
    """Validates the volumes of a pod spec."""
    names: set[str] = set()
    for where, volume in field.items(spec, "volumes", path):
        name = volume.get("name")
        yield from field.unique_name(f"{where}.name", name, names, dns_label)
        yield from _source(volume, where)


def _source(volume: Manifest, path: str) -> Causes:
    given = [name for name in SOURCES if volume.get(name) is not None]
    if not given:
        yield field.required(path, "must specify a volume type")
    for name in given[1:]:
        yield field.forbidden(f"{path}.{name}", "may not specify more than 1 volume type")
    for name in given[:1]:
        source, where = volume[name], f"{path}.{name}"
        for needed in REQUIRED.get(name, ()):
            if not source.get(needed):
                yield field.required(f"{where}.{needed}")
        if name in _CHECKS:
            yield from _CHECKS[name](source, where)


def _empty_dir(source: Manifest, path: str) -> Causes:
    if source.get("sizeLimit") is not None and quantity.parse(source["sizeLimit"]) < 0:
        yield field.forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def host_path(source: Manifest, path: str) -> Causes:
    """Validates a hostPath volume."""
    target = source.get("path")
    if not target:
        yield field.required(f"{path}.path")
    else:
        yield from no_parent_references(target, f"{path}.path")
    kind = source.get("type")
    if kind is not None and kind not in _HOST_TYPES:
        yield field.unsupported(f"{path}.type", kind, _HOST_TYPES)


def _mode(value: Any, path: str) -> Causes:
    if value is not None and not 0 <= value <= 0o777:
        yield field.invalid(path, value, _MODE)


def _keys(source: Manifest, path: str) -> Causes:
    for where, item in field.items(source, "items", path):
        if not item.get("key"):
            yield field.required(f"{where}.key")
        if not item.get("path"):
            yield field.required(f"{where}.path")
        else:
            yield from descending_path(item["path"], f"{where}.path")
        yield from _mode(item.get("mode"), f"{where}.mode")


def _secret(source: Manifest, path: str) -> Causes:
    if not source.get("secretName"):
        yield field.required(f"{path}.secretName")
    yield from _mode(source.get("defaultMode"), f"{path}.defaultMode")
    yield from _keys(source, path)


def _config_map(source: Manifest, path: str) -> Causes:
    if not source.get("name"):
        yield field.required(f"{path}.name")
    yield from _mode(source.get("defaultMode"), f"{path}.defaultMode")
    yield from _keys(source, path)


def _downward(source: Manifest, path: str) -> Causes:
    yield from _mode(source.get("defaultMode"), f"{path}.defaultMode")
    for item in source.get("items") or ():
        yield from _downward_file(item, path)


def _downward_file(item: Manifest, path: str) -> Causes:
    if not item.get("path"):
        yield field.required(f"{path}.path")
    else:
        yield from descending_path(item["path"], f"{path}.path")
    if item.get("fieldRef") is not None:
        yield from field_reference(item["fieldRef"], f"{path}.fieldRef", FILE_FIELDS)
        if item.get("resourceFieldRef") is not None:
            yield field.invalid(
                path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"
            )
    elif item.get("resourceFieldRef") is not None:
        yield from resource_reference(item["resourceFieldRef"], f"{path}.resourceFieldRef")
    else:
        yield field.required(path, "one of fieldRef and resourceFieldRef is required")
    yield from _mode(item.get("mode"), f"{path}.mode")


def _projected(source: Manifest, path: str) -> Causes:
    yield from _mode(source.get("defaultMode"), f"{path}.defaultMode")
    for where, part in field.items(source, "sources", path):
        for name in ("secret", "configMap"):
            if (reference := part.get(name)) is not None:
                if not reference.get("name"):
                    yield field.required(f"{where}.{name}.name")
                yield from _keys(reference, f"{where}.{name}")
        for item in (part.get("downwardAPI") or {}).get("items") or ():
            yield from _downward_file(item, f"{where}.downwardAPI")
        if (token := part.get("serviceAccountToken")) is not None:
            yield from _token(token, f"{where}.serviceAccountToken", path)


def _token(token: Manifest, path: str, volume: str) -> Causes:
    seconds = token.get("expirationSeconds")
    if seconds is not None and seconds < 600:
        yield field.invalid(
            f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"
        )
    if not token.get("path"):
        yield field.required(f"{volume}.path")  # parity: the path is that of kube-apiserver
    else:
        yield from descending_path(token["path"], f"{path}.path")


def _ephemeral(source: Manifest, path: str) -> Causes:
    template = source.get("volumeClaimTemplate")
    if template is None:
        yield field.required(f"{path}.volumeClaimTemplate")
    else:
        yield from claim_spec(template.get("spec") or {}, f"{path}.volumeClaimTemplate.spec")


_CHECKS: Mapping[str, Callable[[Manifest, str], Causes]] = {
    "emptyDir": _empty_dir,
    "hostPath": host_path,
    "secret": _secret,
    "configMap": _config_map,
    "downwardAPI": _downward,
    "projected": _projected,
    "ephemeral": _ephemeral,
}
