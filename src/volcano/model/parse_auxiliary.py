"""Parsers of volumes, budgets, quotas, namespaces, priority classes, hypernodes and NUMA topologies."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from volcano.kube.api import kinds, quantity, selectors
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest, annotations_of, key_of, labels_of
from volcano.kube.devices.numa import topology as numa_topology
from volcano.model.hypernodes.hypernode import HyperNode, Member
from volcano.model.pod_owners import PodOwner
from volcano.model.reservations import parse_reservation
from volcano.model.storage import (
    Claim,
    CsiDriver,
    CsiNode,
    DisruptionBudget,
    Quota,
    StorageCapacity,
    StorageClass,
    Volume,
)

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
DEVICE_CONFIG = "device-config.yaml"
SELECTED_NODE = "volume.kubernetes.io/selected-node"


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A PriorityClass."""

    name: str
    value: int = 0
    default: bool = False
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class Namespace:
    """A Namespace."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class AuxiliaryObject:
    """A parsed object of one of these kinds with its key; `value` is None when it is malformed."""

    namespace: str
    name: str
    value: Any
    resource_version: str = ""


def _spec(manifest: Manifest) -> Mapping[str, Any]:
    return manifest.get("spec") or {}


def _status(manifest: Manifest) -> Mapping[str, Any]:
    return manifest.get("status") or {}


def priority_class(manifest: Manifest) -> PriorityClass:
    key = key_of(manifest)
    return PriorityClass(key.name, int(manifest.get("value") or 0), bool(manifest.get("globalDefault")))


def namespace(manifest: Manifest) -> Namespace:
    return Namespace(key_of(manifest).name, dict(labels_of(manifest)))


def claim(manifest: Manifest) -> Claim:
    key, spec = key_of(manifest), _spec(manifest)
    request = ((spec.get("resources") or {}).get("requests") or {}).get("storage", 0)
    selector = spec.get("selector")
    return Claim(
        key.namespace,
        key.name,
        storage_class=spec.get("storageClassName")
        or annotations_of(manifest).get("volume.beta.kubernetes.io/storage-class", ""),
        volume=spec.get("volumeName") or "",
        bound=_status(manifest).get("phase") == "Bound" and bool(spec.get("volumeName")),
        request=quantity.units(request),
        access_modes=tuple(spec.get("accessModes") or ()),
        selector=selectors.from_object(selector) if selector is not None else None,
        selected_node=annotations_of(manifest).get(SELECTED_NODE, ""),
        volume_mode=spec.get("volumeMode") or "Filesystem",
        deleting=bool(manifest["metadata"].get("deletionTimestamp")),
    )


def volume(manifest: Manifest) -> Volume:
    spec = _spec(manifest)
    reference = spec.get("claimRef") or {}
    required = (spec.get("nodeAffinity") or {}).get("required")
    csi = spec.get("csi") or {}
    return Volume(
        key_of(manifest).name,
        capacity=quantity.units((spec.get("capacity") or {}).get("storage", 0)),
        access_modes=tuple(spec.get("accessModes") or ()),
        storage_class=spec.get("storageClassName") or "",
        claim=f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else "",
        claim_uid=reference.get("uid") or "",
        phase=_status(manifest).get("phase") or "Available",
        nodes=selectors.node_selector(required) if required else None,
        driver=csi.get("driver") or "",
        handle=csi.get("volumeHandle") or "",
        labels=dict(labels_of(manifest)),
        volume_mode=spec.get("volumeMode") or "Filesystem",
    )


def storage_class(manifest: Manifest) -> StorageClass:
    return StorageClass(
        key_of(manifest).name,
        provisioner=manifest.get("provisioner") or "",
        waits=manifest.get("volumeBindingMode") == "WaitForFirstConsumer",
        default=annotations_of(manifest).get(DEFAULT_CLASS) == "true",
        parameters=manifest.get("parameters") or {},
        allowed_topologies=tuple(
            tuple(
                (expression.get("key", ""), frozenset(expression.get("values") or ()))
                for expression in term.get("matchLabelExpressions") or ()
            )
            for term in manifest.get("allowedTopologies") or ()
        ),
    )


def csi_node(manifest: Manifest) -> CsiNode:
    drivers = {
        driver.get("name", ""): (driver.get("allocatable") or {}).get("count")
        for driver in _spec(manifest).get("drivers") or ()
    }
    return CsiNode(key_of(manifest).name, drivers)


def csi_driver(manifest: Manifest) -> CsiDriver:
    return CsiDriver(key_of(manifest).name, bool(_spec(manifest).get("storageCapacity")))


def storage_capacity(manifest: Manifest) -> StorageCapacity:
    """A capacity without a size is none; without a topology, it is not reachable from any node."""
    key, topology = key_of(manifest), manifest.get("nodeTopology")
    largest = manifest.get("maximumVolumeSize") or manifest.get("capacity") or 0
    return StorageCapacity(
        key.namespace,
        key.name,
        manifest.get("storageClassName") or "",
        selectors.from_object(topology) if topology is not None else selectors.NOTHING,
        quantity.units(largest),
    )


def pod_owner(manifest: Manifest) -> PodOwner:
    key, selector = key_of(manifest), _spec(manifest).get("selector")
    plain = manifest.get("kind") in (kinds.SERVICE.kind, kinds.REPLICATION_CONTROLLER.kind)
    return PodOwner(
        key.namespace,
        key.name,
        manifest["metadata"].get("uid", ""),
        selectors.from_object(
            {"matchLabels": selector} if plain and selector else None if plain else selector
        ),
    )


def budget(manifest: Manifest) -> DisruptionBudget:
    key, status = key_of(manifest), _status(manifest)
    return DisruptionBudget(
        key.namespace,
        key.name,
        selectors.from_object(_spec(manifest).get("selector")),
        allowed=int(status.get("disruptionsAllowed") or 0),
        disrupted=frozenset(status.get("disruptedPods") or ()),
    )


def quota(manifest: Manifest) -> Quota:
    key, status = key_of(manifest), _status(manifest)
    hard = status.get("hard") or _spec(manifest).get("hard") or {}
    return Quota(
        key.namespace,
        key.name,
        {name: float(quantity.parse(value)) for name, value in hard.items()},
        {name: float(quantity.parse(value)) for name, value in (status.get("used") or {}).items()},
    )


def hyper_node(manifest: Manifest) -> HyperNode:
    spec = _spec(manifest)
    return HyperNode(
        key_of(manifest).name,
        int(spec.get("tier") or 0),
        spec.get("tierName") or "",
        tuple(_member(member) for member in spec.get("members") or ()),
    )


def device_config_map(manifest: Manifest) -> str | None:
    """The description of devices in a ConfigMap; None when it has none."""
    found = (manifest.get("data") or {}).get(DEVICE_CONFIG)
    return found if isinstance(found, str) else None


def _member(member: Mapping[str, Any]) -> Member:
    selector = member.get("selector") or {}
    labels = selector.get("labelMatch")
    return Member(
        member.get("type", "Node"),
        (selector.get("exactMatch") or {}).get("name", ""),
        (selector.get("regexMatch") or {}).get("pattern", ""),
        _node_labels(labels) if labels is not None else None,
    )


def _node_labels(labels: Mapping[str, Any]) -> selectors.LabelSelector:
    """The selector; one that is not valid selects nothing, and the other members still do."""
    try:
        return selectors.from_object(labels)
    except ValueError:
        return selectors.NOTHING


def _decoder(parse: Callable[[Manifest], Any]) -> Callable[[bytes], AuxiliaryObject]:
    def decode(data: bytes) -> AuxiliaryObject:
        manifest = orjson.loads(data)
        key = key_of(manifest)
        try:
            value = parse(manifest)
        except (ValueError, TypeError, AttributeError, KeyError):
            value = None  # ignored, as if it did not exist
        return AuxiliaryObject(
            key.namespace, key.name, value, manifest["metadata"].get("resourceVersion", "")
        )

    return decode


AUXILIARY_DECODERS: Mapping[Kind, Callable[[bytes], AuxiliaryObject]] = {
    kind: _decoder(parse)
    for kind, parse in {
        kinds.PRIORITY_CLASS: priority_class,
        kinds.NAMESPACE: namespace,
        kinds.PERSISTENT_VOLUME_CLAIM: claim,
        kinds.PERSISTENT_VOLUME: volume,
        kinds.STORAGE_CLASS: storage_class,
        kinds.CSI_NODE: csi_node,
        kinds.POD_DISRUPTION_BUDGET: budget,
        kinds.RESOURCE_QUOTA: quota,
        kinds.HYPER_NODE: hyper_node,
        kinds.CONFIG_MAP: device_config_map,
        kinds.NUMATOPOLOGY: numa_topology.parse,
        kinds.CSI_DRIVER: csi_driver,
        kinds.CSI_STORAGE_CAPACITY: storage_capacity,
        kinds.SERVICE: pod_owner,
        kinds.REPLICATION_CONTROLLER: pod_owner,
        kinds.REPLICA_SET: pod_owner,
        kinds.STATEFUL_SET: pod_owner,
        kinds.NODE_RESERVATION: parse_reservation,
    }.items()
}
