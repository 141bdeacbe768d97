"""Snapshot files, for bug reports and simulations; a replayed snapshot gives the same decisions."""

import base64
import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from volcano.kube.api import kinds
from volcano.kube.api.kinds import Kind
from volcano.kube.client.protocol import Event, EventType
from volcano.kube.devices.numa import topology as numa_topology
from volcano.model.cluster import Cluster
from volcano.model.hypernodes.hypernode import HyperNode
from volcano.model.job import PodGroup
from volcano.model.node import Node
from volcano.model.numa import NumaRequest
from volcano.model.parse_auxiliary import AuxiliaryObject, Namespace, PriorityClass
from volcano.model.pod_owners import PodOwner
from volcano.model.queue import Queue
from volcano.model.reservations import NodeReservation
from volcano.model.resources import ResourceIndex
from volcano.model.snapshot import Snapshot
from volcano.model.status import Status
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
from volcano.model.task import Constraints, DeviceRequest, Shape, Task

FORMAT = "volcano-snapshot/1"
OTHERS: dict[str, tuple[Kind, type]] = {
    "namespaces": (kinds.NAMESPACE, Namespace),
    "claims": (kinds.PERSISTENT_VOLUME_CLAIM, Claim),
    "volumes": (kinds.PERSISTENT_VOLUME, Volume),
    "classes": (kinds.STORAGE_CLASS, StorageClass),
    "csi_nodes": (kinds.CSI_NODE, CsiNode),
    "drivers": (kinds.CSI_DRIVER, CsiDriver),
    "capacities": (kinds.CSI_STORAGE_CAPACITY, StorageCapacity),
    "services": (kinds.SERVICE, PodOwner),
    "workloads": (kinds.REPLICA_SET, PodOwner),
    "budgets": (kinds.POD_DISRUPTION_BUDGET, DisruptionBudget),
    "quotas": (kinds.RESOURCE_QUOTA, Quota),
    "hypernodes": (kinds.HYPER_NODE, HyperNode),
    "node_reservations": (kinds.NODE_RESERVATION, NodeReservation),
}


class SnapshotError(Exception):
    """A file that is not a snapshot, or of an unknown format."""


def save(snapshot: Snapshot, config: str) -> bytes:
    """Encodes a snapshot and the configuration it was scheduled with, as compressed JSON."""
    shapes: dict[Shape, int] = {}
    tasks = {task.uid: task for row in snapshot.tasks_on for task in row.values()}
    for job in snapshot.jobs.values():
        tasks.update(job.tasks)
    document = {
        "format": FORMAT,
        "config": config,
        "now": snapshot.now,
        "seed": snapshot.seed,
        "resources": snapshot.resources.names,
        "tasks": [_task(task, shapes) for task in tasks.values()],
        "shapes": [_shape(shape) for shape in shapes],
        "nodes": snapshot.nodes,
        "groups": [{"priority": job.priority, "group": job.group} for job in snapshot.jobs.values()],
        "queues": list(snapshot.queues.values()),
        "memory": _plain(snapshot.memory),
        "usage": snapshot.usage,
        **_others(snapshot),
    }
    return gzip.compress(msgspec.json.encode(document), mtime=0)


@dataclass(frozen=True, slots=True)
class SavedObjects:
    """The objects of a saved snapshot as watch events, queues first, and the columns of their requests."""

    events: tuple[Event, ...]
    resources: ResourceIndex
    config: str
    now: float
    seed: int
    memory: Mapping[str, Any]
    usage: Mapping[str, Mapping[str, float]]
    scheduler_names: frozenset[str]
    ignored_provisioners: tuple[str, ...]

    def cluster(self) -> Cluster:
        """A new cluster cache with these objects."""
        cluster = Cluster(
            scheduler_names=self.scheduler_names, ignored_provisioners=self.ignored_provisioners
        )
        cluster.parser.shapes.index = self.resources
        for event in self.events:
            cluster.apply(event)
        return cluster


def read_events(data: bytes) -> SavedObjects:
    """Decodes the objects of a saved snapshot. Raises SnapshotError."""
    document = _document(data)
    return SavedObjects(
        tuple(_events(document)),
        _resource_index(document),
        document["config"],
        document["now"],
        document["seed"],
        document["memory"],
        document.get("usage") or {},
        frozenset(task["scheduler"] for task in document["tasks"]) | {"volcano"},
        tuple(document.get("uncounted", ())),
    )


def load(data: bytes) -> tuple[Snapshot, str]:
    """Decodes a saved snapshot and its configuration. Raises SnapshotError."""
    saved = read_events(data)
    return saved.cluster().snapshot(saved.now, saved.seed, saved.memory, saved.usage), saved.config


def _document(data: bytes) -> dict[str, Any]:
    try:
        document: dict[str, Any] = msgspec.json.decode(gzip.decompress(data))
    except (OSError, EOFError, msgspec.DecodeError) as error:
        raise SnapshotError(f"this is not a snapshot: {error}") from None
    if document.get("format") != FORMAT:
        raise SnapshotError(f"format {document.get('format')!r} cannot be read; {FORMAT} can")
    return document


def _resource_index(document: dict[str, Any]) -> ResourceIndex:
    names = tuple(document["resources"])
    return ResourceIndex(names, {name: i for i, name in enumerate(names)})


def _events(document: dict[str, Any]) -> list[Event]:
    """Watch events for all objects in the file, queues first."""
    shapes = [_read_shape(found) for found in document["shapes"]]
    facts: list[tuple[Kind, Any]] = [(kinds.QUEUE, msgspec.convert(q, Queue)) for q in document["queues"]]
    facts += [(kinds.NODE, msgspec.convert(node, Node)) for node in document["nodes"]]
    priorities = {f"saved-{found['priority']}": found["priority"] for found in document["groups"]}
    for name, priority in {**document.get("priorities", {}), **priorities}.items():
        facts.append((kinds.PRIORITY_CLASS, AuxiliaryObject("", name, PriorityClass(name, priority))))
    for name, (kind, fact_type) in OTHERS.items():
        for found in document.get(name, ()):
            value: Any = msgspec.convert(found, fact_type)
            facts.append((kind, AuxiliaryObject(getattr(value, "namespace", ""), value.name, value)))
    for found in document.get("numa_topologies", ()):
        topology = numa_topology.parse(found)
        facts.append((kinds.NUMATOPOLOGY, AuxiliaryObject("", topology.node, topology)))
    for namespace, name, text in document.get("device_configs", ()):
        facts.append((kinds.CONFIG_MAP, AuxiliaryObject(namespace, name, text)))
    for found in document["groups"]:
        # Priorities are saved resolved: each value gets a class of its own.
        found["group"]["priority_class"] = f"saved-{found['priority']}"
        facts.append((kinds.POD_GROUP, msgspec.convert(found["group"], PodGroup)))
    facts += [(kinds.POD, _read_task(task, shapes)) for task in document["tasks"]]
    return [Event(EventType.ADDED, kind, value) for kind, value in facts]


def _task(task: Task, shapes: dict[Shape, int]) -> dict[str, Any]:
    found = msgspec.structs.asdict(task)
    found["shape"] = shapes.setdefault(task.shape, len(shapes))
    return found


def _read_task(found: dict[str, Any], shapes: list[Shape]) -> Task:
    values = dict(found)
    values["shape"] = shapes[values["shape"]]
    values["status"] = Status(values["status"])
    values["gates"] = tuple(values["gates"])
    values["device_claims"] = tuple(values["device_claims"])
    values["condition"] = tuple(values["condition"])
    return Task(**values)


def _shape(shape: Shape) -> dict[str, Any]:
    found = msgspec.structs.asdict(shape)
    found["request"] = shape.request.tolist()
    found["nonzero_request"] = shape.nonzero_request.tolist()
    found["key"] = base64.b64encode(shape.key).decode()
    return found


def _read_shape(found: dict[str, Any]) -> Shape:
    values = dict(found)
    values["request"] = np.array(values["request"])
    values["nonzero_request"] = np.array(values["nonzero_request"])
    values["key"] = base64.b64decode(values["key"])
    values["constraints"] = msgspec.convert(values["constraints"], Constraints)
    values["numa"] = msgspec.convert(values.get("numa"), NumaRequest | None)
    values["devices"] = msgspec.convert(values.get("devices"), DeviceRequest | None)
    return Shape(**values)


def _others(snapshot: Snapshot) -> dict[str, Any]:
    storage = snapshot.storage
    return {
        "namespaces": [Namespace(name, labels) for name, labels in snapshot.namespaces.items()],
        "claims": list(storage.claims.values()),
        "volumes": list(storage.volumes.values()),
        "classes": list(storage.classes.values()),
        "csi_nodes": list(storage.csi_nodes.values()),
        "drivers": list(storage.drivers.values()),
        "capacities": storage.capacities,
        "services": [owner for found in snapshot.pod_owners.services.values() for owner in found],
        "workloads": list(snapshot.pod_owners.workloads.values()),
        "uncounted": sorted(storage.uncounted),
        "budgets": snapshot.budgets,
        "priorities": dict(snapshot.priorities),
        "quotas": [quota for found in snapshot.quotas.values() for quota in found],
        "hypernodes": list(snapshot.hypernodes.values()),
        "node_reservations": snapshot.node_reservations,
        "numa_topologies": [numa_topology.manifest_of(each) for each in snapshot.numa_topologies.values()],
        "device_configs": [[*key, text] for key, text in snapshot.device_configs.items()],
    }


def _plain(memory: Any) -> Any:
    """The memory of plugins, without values that cannot be encoded as JSON."""
    plain = {}
    for name, value in memory.items():
        try:
            plain[name] = msgspec.json.decode(msgspec.json.encode(value, enc_hook=_list_of_array))
        except (TypeError, NotImplementedError, msgspec.MsgspecError):
            continue
    return plain


def _list_of_array(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise NotImplementedError(f"{type(value).__name__} cannot be encoded as JSON")
