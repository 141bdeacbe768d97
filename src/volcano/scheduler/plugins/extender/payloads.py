"""Request bodies for an extender, with Volcano's field names."""

from typing import Any

from volcano.model.job import Job
from volcano.model.node import Node
from volcano.model.queue import Queue
from volcano.model.resources import ResourceIndex, manifest
from volcano.model.snapshot import Snapshot
from volcano.model.task import Task


def task_info(task: Task, resources: ResourceIndex) -> dict[str, Any]:
    return {
        "UID": task.uid,
        "Job": task.job,
        "Name": task.name,
        "Namespace": task.namespace,
        "TaskRole": task.role,
        "Resreq": manifest(resources, task.request),
        "NodeName": task.node,
        "Status": str(task.status),
        "Priority": task.priority,
        "Preemptable": task.preemptable,
        "RevocableZone": task.revocable_zone,
        "BestEffort": task.best_effort,
        "Labels": dict(task.labels),
        "Annotations": dict(task.annotations),
    }


def job_info(job: Job, resources: ResourceIndex) -> dict[str, Any]:
    return {
        "UID": job.uid,
        "Name": job.name,
        "Namespace": job.namespace,
        "Queue": job.queue,
        "Priority": job.priority,
        "MinAvailable": job.min_available,
        "Phase": job.phase,
        "MinResources": manifest(resources, job.min_resources),
        "Allocated": manifest(resources, job.allocated),
        "TotalRequest": manifest(resources, job.total),
        "Tasks": sorted(job.tasks),
    }


def queue_info(queue: Queue) -> dict[str, Any]:
    return {
        "UID": queue.name,
        "Name": queue.name,
        "Weight": queue.weight,
        "State": queue.state,
        "Parent": queue.parent,
    }


def node_info(node: Node, used: dict[str, str], allocatable: dict[str, str]) -> dict[str, Any]:
    return {
        "Name": node.name,
        "Labels": dict(node.labels),
        "Allocatable": allocatable,
        "Used": used,
        "RevocableZone": node.revocable_zone,
    }


def session_info(snapshot: Snapshot) -> dict[str, Any]:
    """Returns the whole session, sent when it opens."""
    resources = snapshot.resources
    return {
        "Jobs": {uid: job_info(job, resources) for uid, job in snapshot.jobs.items()},
        "Nodes": {
            node.name: node_info(
                node, manifest(resources, snapshot.used[row]), manifest(resources, snapshot.allocatable[row])
            )
            for row, node in enumerate(snapshot.nodes)
        },
        "Queues": {name: queue_info(queue) for name, queue in snapshot.queues.items()},
        "NamespaceInfo": {name: {"Name": name} for name in snapshot.namespaces},
        "RevocableNodes": [node.name for node in snapshot.nodes if node.revocable_zone],
        "NodeList": [node.name for node in snapshot.nodes],
    }
