"""Builders of pods in their states."""

from typing import Any

from volcano.base.clock import timestamp
from volcano.kube.api.kinds import POD, Kind
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Event, EventType

CREATED = 1_800_000_000.0
STARTED = CREATED + 30
LATER = CREATED + 500


def pod(uid: str = "u1", phase: str = "Running", **fields: Any) -> Manifest:
    """A pod of a job on node n1; a Pending one is not accepted by a kubelet yet."""
    resources = fields.pop("resources", {"requests": {"cpu": "2", "memory": "1Gi"}})
    annotations = {"volcano.sh/task-spec": "worker", "scheduling.k8s.io/group-name": "train-x"}
    status: Manifest = {"phase": phase, **fields.pop("status", {})}
    if phase != "Pending":
        status.setdefault("startTime", timestamp(STARTED))
    return {
        "metadata": {
            "name": f"train-{uid}",
            "namespace": "team",
            "uid": uid,
            "creationTimestamp": timestamp(CREATED),
            "labels": {"volcano.sh/job-name": "train", "volcano.sh/queue-name": "research"},
            "annotations": {**annotations, **fields.pop("annotations", {})},
            "ownerReferences": [{"kind": "Job", "name": "train", "uid": "job-1", "controller": True}],
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": resources}], **fields},
        "status": status,
    }


def terminated(seconds: float, exit_code: int = 0) -> Manifest:
    """The status of a container that ended some seconds after the start."""
    ended = {
        "finishedAt": timestamp(STARTED + seconds),
        "exitCode": exit_code,
        "reason": "Error" if exit_code else "Completed",
    }
    return {"containerStatuses": [{"name": "c", "state": {"terminated": ended}}]}


def disrupted(reason: str, message: str = "") -> Manifest:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    return {"conditions": [condition]}


def added(manifest: Manifest, kind: Kind = POD) -> Event:
    return Event(EventType.ADDED, kind, manifest)


def modified(manifest: Manifest, kind: Kind = POD) -> Event:
    return Event(EventType.MODIFIED, kind, manifest)


def deleted(manifest: Manifest, kind: Kind = POD) -> Event:
    return Event(EventType.DELETED, kind, manifest)
