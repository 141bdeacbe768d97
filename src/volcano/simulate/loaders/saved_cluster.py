"""A saved snapshot, of a file or a live cluster, as a workload: its jobs go on from where they are."""

from collections.abc import Iterable

import msgspec

from volcano.kube.api import duration, kinds
from volcano.kube.api.names import SIM_DURATION
from volcano.model import resources
from volcano.model.job import PodGroup
from volcano.model.node import Node
from volcano.model.queue import Queue
from volcano.model.resources import ResourceIndex, ResourceList
from volcano.model.status import COMPLETED, ON_NODE, Status
from volcano.model.task import Task
from volcano.scheduler.snapshot_file import SavedObjects, SnapshotError, read_events
from volcano.simulate.objects import GPU, GPU_MODEL
from volcano.simulate.workload import (
    Attempt,
    Requests,
    SimNode,
    SimQueue,
    TraceError,
    TraceJob,
    TraceTask,
    Workload,
)


def read_snapshot(data: bytes, where: str, run_time: float) -> Workload:
    """Jobs of a snapshot, all present at the start. A pod runs `run_time` seconds, unless its annotation says how long;
    the time that it has run already counts."""
    try:
        saved = read_events(data)
    except SnapshotError as error:
        raise TraceError(where, str(error)) from None
    groups = {
        f"{event.object.namespace}/{event.object.name}": event.object
        for event in saved.events
        if event.kind is kinds.POD_GROUP
    }
    tasks: dict[str, list[Task]] = {}
    alone = 0
    for event in saved.events:
        if isinstance(event.object, Task) and event.object.status not in COMPLETED:
            if event.object.job in groups:
                tasks.setdefault(event.object.job, []).append(event.object)
            else:
                alone += 1
    priorities = _priorities(saved)
    jobs = [_job(groups[uid], members, saved, run_time, priorities) for uid, members in tasks.items()]
    notes = (f"{alone} pods without a PodGroup were left out",) if alone else ()
    nodes = tuple(_node(event.object) for event in saved.events if isinstance(event.object, Node))
    queues = tuple(_queue(event.object) for event in saved.events if isinstance(event.object, Queue))
    return Workload(jobs, nodes, queues, data, notes)


def _node(node: Node) -> SimNode:
    amounts = node.allocatable
    return SimNode(
        node.name,
        amounts.get("cpu", 0.0) / 1000,
        amounts.get("memory", 0.0),
        int(amounts.get(GPU, 0.0) // 1000),
        node.labels.get(GPU_MODEL, ""),
        labels=node.labels,
        template=node,
    )


def _queue(queue: Queue) -> SimQueue:
    return SimQueue(
        queue.name,
        queue.weight,
        queue.parent,
        queue.priority,
        queue.reclaimable,
        _quantities(queue.capability),
        _quantities(queue.deserved),
        _quantities(queue.guarantee),
    )


def _quantities(amounts: ResourceList) -> dict[str, str]:
    return {name: resources.shown(name, amount) for name, amount in amounts.items()}


def _priorities(saved: SavedObjects) -> dict[str, int]:
    return {
        event.object.name: event.object.value.value
        for event in saved.events
        if event.kind is kinds.PRIORITY_CLASS
    }


def _job(
    group: PodGroup, members: list[Task], saved: SavedObjects, run_time: float, priorities: dict[str, int]
) -> TraceJob:
    ordered = sorted(members, key=lambda task: (task.status not in ON_NODE, task.name))
    parts = tuple(_task(task, saved.resources) for task in ordered)
    ran = max((saved.now - task.started for task in ordered if task.started), default=0.0)
    return TraceJob(
        f"{group.namespace}.{group.name}",
        0.0,
        parts,
        (Attempt(max(_run_time(ordered, run_time) - ran, 1.0)),),
        queue=group.queue,
        priority=priorities.get(group.priority_class, 0),
        min_available=min(group.min_member, len(parts)),
        preemptable=group.preemptable is not False,
    )


def _task(task: Task, index: ResourceIndex) -> TraceTask:
    """A task whose pod is copied; the requests are for the figures only."""
    amounts = index.amounts(task.request)
    requests = Requests(
        amounts.get("cpu", 0.0) / 1000, amounts.get("memory", 0.0), int(amounts.get(GPU, 0.0) // 1000)
    )
    nodes = (task.node,) if task.node and task.status in ON_NODE else ()
    template = msgspec.structs.replace(task, status=Status.PENDING, node="", nominated="", condition=("", ""))
    return TraceTask(requests, role=task.role, template=template, nodes=nodes)


def _run_time(tasks: Iterable[Task], default: float) -> float:
    for task in tasks:
        text = task.annotations.get(SIM_DURATION, "")
        if text:
            try:
                return duration.parse(text)
            except ValueError:
                continue
    return default
