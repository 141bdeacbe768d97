"""Effects of a cycle's decisions on the objects of a cluster, as if the server had carried them out at once."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec

from volcano.kube.api import kinds
from volcano.kube.api.names import QUEUE_GATE
from volcano.kube.client.protocol import Event, EventType
from volcano.model.cluster import Cluster
from volcano.model.decisions import (
    Bind,
    ClaimVolume,
    Decision,
    Evict,
    Nominate,
    RemoveGate,
    ReserveClaim,
    SetPodGroup,
)
from volcano.model.parse_auxiliary import AuxiliaryObject
from volcano.model.parse_devices import parse_allocation
from volcano.model.snapshot import Snapshot
from volcano.model.task import Task


def carry_out(cluster: Cluster, snapshot: Snapshot, decisions: tuple[Decision, ...]) -> None:
    """Applies decisions about a snapshot of the cluster; evicted pods are gone."""
    tasks = _tasks(snapshot, decisions)
    for decision in decisions:
        match decision:
            case Bind():
                cluster.assume((decision,))
                for event in _claim_events(snapshot, decision):
                    cluster.apply(event)
                if decision.node_annotations:
                    cluster.apply(_annotated(cluster, decision))
            case Evict(task=uid) if uid in tasks:
                for event in _released(snapshot, tasks[uid]):
                    cluster.apply(event)
            case Nominate(task=uid, node=node) if uid in tasks:
                cluster.apply(_modified(msgspec.structs.replace(tasks[uid], nominated=node)))
            case RemoveGate(task=uid) if uid in tasks:
                gates = tuple(gate for gate in tasks[uid].gates if gate != QUEUE_GATE)
                cluster.apply(_modified(msgspec.structs.replace(tasks[uid], gates=gates)))
            case SetPodGroup():
                cluster.assume((decision,))
            case _:
                pass  # status and events, which decide nothing


def matters(decision: Decision) -> bool:
    """Whether carrying out a decision could change what the next cycle decides."""
    return isinstance(decision, Bind | Evict | Nominate | RemoveGate) or (
        isinstance(decision, SetPodGroup) and decision.phase is not None
    )


def _tasks(snapshot: Snapshot, decisions: tuple[Decision, ...]) -> dict[str, Task]:
    """The pods that decisions are about, by uid."""
    wanted = {d.task for d in decisions if isinstance(d, Evict | Nominate | RemoveGate)}
    if not wanted:
        return {}
    found = {task.uid: task for row in snapshot.tasks_on for task in row.values() if task.uid in wanted}
    for uid in snapshot.active:
        job = snapshot.jobs.get(uid)
        found |= {} if job is None else {task: job.tasks[task] for task in job.tasks if task in wanted}
    return found


def _modified(task: Task) -> Event:
    return Event(EventType.MODIFIED, kinds.POD, task)


def _annotated(cluster: Cluster, decision: Bind) -> Event:
    node = cluster.nodes()[decision.node]
    annotations = {**node.annotations, **decision.node_annotations}
    return Event(EventType.MODIFIED, kinds.NODE, replace(node, annotations=annotations))


def _claim_events(snapshot: Snapshot, bind: Bind) -> Iterator[Event]:
    """Claims of a pod that are bound with it."""
    for claim in bind.claims:
        key = (claim.namespace, claim.name)
        if isinstance(claim, ClaimVolume) and key in snapshot.storage.claims:
            known = snapshot.storage.claims[key]
            bound = bool(claim.volume)
            value: Any = replace(known, volume=claim.volume, bound=bound, selected_node=bind.node)
            yield _changed(kinds.PERSISTENT_VOLUME_CLAIM, *key, value)
            if bound and claim.volume in snapshot.storage.volumes:
                volume = replace(snapshot.storage.volumes[claim.volume], claim="/".join(key))
                yield _changed(kinds.PERSISTENT_VOLUME, "", volume.name, volume)
        elif isinstance(claim, ReserveClaim) and key in snapshot.devices.claims:
            held = snapshot.devices.claims[key]
            allocation = held.allocation if claim.allocation is None else parse_allocation(claim.allocation)
            reserved = (*held.reserved_for, claim.pod_uid)
            value = replace(held, allocation=allocation, reserved_for=reserved)
            yield _changed(kinds.RESOURCE_CLAIM, *key, value)


def _released(snapshot: Snapshot, task: Task) -> Iterator[Event]:
    """The end of a pod, and of what its resource claims hold for it alone."""
    yield Event(EventType.DELETED, kinds.POD, task)
    for name in task.device_claims:
        claim = snapshot.devices.claims.get((task.namespace, name))
        if claim is None or task.uid not in claim.reserved_for:
            continue
        others = tuple(uid for uid in claim.reserved_for if uid != task.uid)
        value = replace(claim, reserved_for=others, allocation=claim.allocation if others else None)
        yield _changed(kinds.RESOURCE_CLAIM, task.namespace, name, value)


def _changed(kind: kinds.Kind, namespace: str, name: str, value: Any) -> Event:
    return Event(EventType.MODIFIED, kind, AuxiliaryObject(namespace, name, value))
