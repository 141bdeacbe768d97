"""Print handlers for storage, RBAC, priority classes, webhook configurations and other cluster-scoped kinds."""

from typing import Any

from volcano.apiserver.endpoints.tables.cells import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Printer,
    age,
    integers,
    text,
    wide,
)
from volcano.apiserver.interfaces import Column
from volcano.kube.api.duration import human_duration
from volcano.kube.api.fields import at, count, items, name_of, number
from volcano.kube.api.manifest import Manifest

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _modes(modes: Any) -> str:
    return ",".join(short for mode, short in ACCESS_MODES.items() if mode in (modes or ()))


def _phase(manifest: Manifest) -> str:
    if at(manifest, "metadata", "deletionTimestamp"):
        return "Terminating"
    return str(at(manifest, "status", "phase", default=""))


def print_volume(volume: Manifest, now: float) -> list[Any]:
    claim = at(volume, "spec", "claimRef")
    return [
        name_of(volume),
        at(volume, "spec", "capacity", "storage", default="0"),
        _modes(at(volume, "spec", "accessModes")),
        at(volume, "spec", "persistentVolumeReclaimPolicy", default=""),
        _phase(volume),
        f"{at(claim, 'namespace', default='')}/{at(claim, 'name', default='')}" if claim else "",
        at(volume, "spec", "storageClassName", default=""),
        at(volume, "spec", "volumeAttributesClassName", default=UNSET),
        at(volume, "status", "reason", default=""),
        age(volume, now),
        at(volume, "spec", "volumeMode", default=UNSET),
    ]


def print_claim(claim: Manifest, now: float) -> list[Any]:
    bound = at(claim, "spec", "volumeName", default="")
    return [
        name_of(claim),
        _phase(claim),
        bound,
        at(claim, "status", "capacity", "storage", default="0") if bound else "",
        _modes(at(claim, "status", "accessModes")) if bound else "",
        at(claim, "spec", "storageClassName", default=""),
        at(claim, "spec", "volumeAttributesClassName", default=UNSET),
        age(claim, now),
        at(claim, "spec", "volumeMode", default=UNSET),
    ]


def print_storage_class(storage_class: Manifest, now: float) -> list[Any]:
    is_default = at(storage_class, "metadata", "annotations", DEFAULT_CLASS) == "true"
    return [
        f"{name_of(storage_class)} (default)" if is_default else name_of(storage_class),
        at(storage_class, "provisioner", default=""),
        at(storage_class, "reclaimPolicy", default="Delete"),
        at(storage_class, "volumeBindingMode", default="Immediate"),
        at(storage_class, "allowVolumeExpansion", default=False),
        age(storage_class, now),
    ]


def print_csi_node(node: Manifest, now: float) -> list[Any]:
    return [name_of(node), count(node, "spec", "drivers"), age(node, now)]


def print_csi_driver(driver: Manifest, now: float) -> list[Any]:
    audiences = at(driver, "spec", "tokenRequests")
    return [
        name_of(driver),
        at(driver, "spec", "attachRequired", default=True),
        at(driver, "spec", "podInfoOnMount", default=False),
        at(driver, "spec", "storageCapacity", default=False),
        UNSET if audiences is None else ",".join(str(at(entry, "audience")) for entry in audiences),
        at(driver, "spec", "requiresRepublish", default=False),
        ",".join(str(mode) for mode in at(driver, "spec", "volumeLifecycleModes", default=())) or NONE,
        age(driver, now),
    ]


def print_volume_attachment(attachment: Manifest, now: float) -> list[Any]:
    return [
        name_of(attachment),
        at(attachment, "spec", "attacher", default=""),
        at(attachment, "spec", "source", "persistentVolumeName", default=""),
        at(attachment, "spec", "nodeName", default=""),
        at(attachment, "status", "attached", default=False),
        age(attachment, now),
    ]


def print_binding(binding: Manifest, now: float) -> list[Any]:
    subjects = items(binding, "subjects")
    accounts = [
        f"{subject.get('namespace', '')}/{subject.get('name', '')}"
        for subject in subjects
        if subject.get("kind") == "ServiceAccount"
    ]
    named = {
        kind: [str(subject.get("name", "")) for subject in subjects if subject.get("kind") == kind]
        for kind in ("User", "Group")
    }
    return [
        name_of(binding),
        f"{at(binding, 'roleRef', 'kind', default='')}/{at(binding, 'roleRef', 'name', default='')}",
        age(binding, now),
        ", ".join(named["User"]),
        ", ".join(named["Group"]),
        ", ".join(accounts),
    ]


def print_priority_class(priority_class: Manifest, now: float) -> list[Any]:
    return [
        name_of(priority_class),
        number(priority_class, "value"),
        bool(at(priority_class, "globalDefault")),
        age(priority_class, now),
        at(priority_class, "preemptionPolicy", default=""),
    ]


def print_runtime_class(runtime_class: Manifest, now: float) -> list[Any]:
    return [name_of(runtime_class), at(runtime_class, "handler", default=""), age(runtime_class, now)]


def print_certificate_request(request: Manifest, now: float) -> list[Any]:
    seconds = at(request, "spec", "expirationSeconds")
    types = {condition.get("type") for condition in items(request, "status", "conditions")}
    decision = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    failed = ",Failed" if "Failed" in types else ""
    issued = ",Issued" if at(request, "status", "certificate") else ""
    return [
        name_of(request),
        age(request, now),
        at(request, "spec", "signerName", default=NONE),
        at(request, "spec", "username", default=""),
        NONE if seconds is None else human_duration(seconds),
        decision + failed + issued,
    ]


def print_webhook(configuration: Manifest, now: float) -> list[Any]:
    return [name_of(configuration), count(configuration, "webhooks"), age(configuration, now)]


def print_created_at(manifest: Manifest, now: float) -> list[Any]:
    """Default print handler of kube-apiserver, for kinds without printer columns."""
    return [name_of(manifest), at(manifest, "metadata", "creationTimestamp", default="")]


def print_name_and_age(manifest: Manifest, now: float) -> list[Any]:
    return [name_of(manifest), age(manifest, now)]


def print_scale(scale: Manifest, now: float) -> list[Any]:
    return [
        name_of(scale),
        number(scale, "spec", "replicas"),
        number(scale, "status", "replicas"),
        age(scale, now),
    ]


VOLUME_PRINTER = Printer(
    (
        NAME,
        *text("Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim", "StorageClass"),
        *text("VolumeAttributesClass", "Reason"),
        AGE,
        *wide("VolumeMode"),
    ),
    print_volume,
)
CLAIM_PRINTER = Printer(
    (
        NAME,
        *text("Status", "Volume", "Capacity", "Access Modes", "StorageClass", "VolumeAttributesClass"),
        AGE,
        *wide("VolumeMode"),
    ),
    print_claim,
)
STORAGE_CLASS_PRINTER = Printer(
    (NAME, *text("Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion"), AGE),
    print_storage_class,
)
CSI_NODE_PRINTER = Printer((NAME, *integers("Drivers"), AGE), print_csi_node)
CSI_DRIVER_PRINTER = Printer(
    (
        NAME,
        *(Column(name, type="boolean") for name in ("AttachRequired", "PodInfoOnMount", "StorageCapacity")),
        *text("TokenRequests"),
        Column("RequiresRepublish", type="boolean"),
        *text("Modes"),
        AGE,
    ),
    print_csi_driver,
)
VOLUME_ATTACHMENT_PRINTER = Printer(
    (NAME, Column("Attacher", format="name"), *text("PV", "Node"), Column("Attached", type="boolean"), AGE),
    print_volume_attachment,
)
BINDING_PRINTER = Printer(
    (NAME, *text("Role"), AGE, *wide("Users", "Groups", "ServiceAccounts")), print_binding
)
PRIORITY_CLASS_PRINTER = Printer(
    (
        NAME,
        *integers("Value"),
        Column("Global-Default", type="boolean"),
        AGE,
        *text("PreemptionPolicy"),
    ),
    print_priority_class,
)
RUNTIME_CLASS_PRINTER = Printer((NAME, *text("Handler"), AGE), print_runtime_class)
CERTIFICATE_REQUEST_PRINTER = Printer(
    (NAME, AGE, *text("SignerName", "Requestor", "RequestedDuration", "Condition")),
    print_certificate_request,
)
WEBHOOK_PRINTER = Printer((NAME, *integers("Webhooks"), AGE), print_webhook)
CREATED_AT_PRINTER = Printer((NAME, Column("Created At", type="date")), print_created_at)
NAME_AND_AGE_PRINTER = Printer((NAME, AGE), print_name_and_age)
SCALE_PRINTER = Printer((NAME, *integers("Desired", "Available"), AGE), print_scale)
