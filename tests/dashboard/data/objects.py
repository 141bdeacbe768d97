"""Objects of a small cluster, for pages that are computed from them."""

from collections.abc import Mapping, Sequence
from typing import Any

from volcano.base.clock import timestamp
from volcano.dashboard.objects import Objects
from volcano.dashboard.rights import Scopes
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest

NOW = 1_800_000_000.0


def objects(found: Mapping[Kind, Sequence[Manifest]], now: float = NOW) -> Objects:
    return Objects(1, now, found, Scopes())


def queue(name: str, parent: str = "") -> Manifest:
    return {"metadata": {"name": name}, "spec": {"weight": 1, **({"parent": parent} if parent else {})}}


def job(
    name: str, *, namespace: str = "default", queue: str = "default", phase: str = "Running", user: str = "",
    tasks: Mapping[str, int] | None = None, created: float = NOW - 60,
) -> Manifest:  # fmt: skip
    replicas = tasks or {"worker": 1}
    return {
        "metadata": {
            "name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}",
            "creationTimestamp": timestamp(created), "annotations": {"volcano.sh/user": user} if user else {},
        },
        "spec": {
            "queue": queue, "minAvailable": sum(replicas.values()),
            "tasks": [{"name": each, "replicas": count} for each, count in replicas.items()],
        },
        "status": {"state": {"phase": phase}},
    }  # fmt: skip


def group(
    name: str, *, namespace: str = "default", owner: Manifest | None = None, code: str = "", message: str = "",
    phase: str = "Pending", user: str = "",
) -> Manifest:  # fmt: skip
    """A PodGroup, of a Job if there is an owner."""
    condition = {"type": "Unschedulable", "status": "True", "reason": code, "message": message}
    metadata: dict[str, Any] = {
        "name": name, "namespace": namespace, "uid": f"group-{name}", "creationTimestamp": timestamp(NOW - 60),
        "annotations": {"volcano.sh/user": user} if user else {},
    }  # fmt: skip
    if owner is not None:
        reference = {"uid": owner["metadata"]["uid"], "name": owner["metadata"]["name"], "controller": True}
        metadata["ownerReferences"] = [
            {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", **reference}
        ]
    return {
        "metadata": metadata,
        "spec": {"queue": "default", "minMember": 1},
        "status": {"phase": phase, "conditions": [condition] if code else []},
    }


def pod(
    job: str, task: str, index: int, *, namespace: str = "default", phase: str = "Running", node: str = "node-0",
    created: float = NOW - 60, scheduled: float | None = None, started: float | None = None,
    finished: float | None = None, group: str = "",
) -> Manifest:  # fmt: skip
    """A pod of a Job, or with `group` one of a PodGroup without a Job."""
    state: dict[str, Any] = {"waiting": {"reason": "ContainerCreating"}}
    if started is not None:
        state = {"running": {"startedAt": timestamp(started)}}
    if finished is not None:
        state = {
            "terminated": {"startedAt": timestamp(started or finished), "finishedAt": timestamp(finished)}
        }
    marks = {"volcano.sh/task-spec": task, "volcano.sh/task-index": str(index)}
    scheduled_condition = {
        "type": "PodScheduled", "status": "True", "lastTransitionTime": timestamp(scheduled or created)
    }  # fmt: skip
    return {
        "metadata": {
            "name": f"{job}-{task}-{index}", "namespace": namespace, "creationTimestamp": timestamp(created),
            "resourceVersion": "1",
            "labels": {} if group else {"volcano.sh/job-name": job, **marks},
            "annotations": {"scheduling.k8s.io/group-name": group} if group else {},
        },
        "spec": {"nodeName": node, "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {
            "phase": phase,
            "conditions": [scheduled_condition] if node else [],
            "containerStatuses": [{"name": "main", "state": state, "restartCount": 0}] if node else [],
        },
    }  # fmt: skip
