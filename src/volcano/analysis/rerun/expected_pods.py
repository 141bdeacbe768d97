"""Pods that the job controller creates once a job is admitted."""

from collections.abc import Callable
from typing import Any

import orjson

from volcano.base.clock import timestamp
from volcano.controllers.job.pods import pod_maker
from volcano.controllers.job.spec import Job, SpecError, parse_job
from volcano.controllers.job.status import Status
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.names import SCHEDULER_NAME


def waiting_job(data: bytes) -> Manifest | None:
    """Decodes a job that is not admitted yet; None for others, whose pods exist."""
    job: Manifest = orjson.loads(data)
    phase = ((job.get("status") or {}).get("state") or {}).get("phase") or "Pending"
    return job if phase == "Pending" else None


def expected_pods(
    manifest: Manifest, priority: Callable[[str], int], now: float
) -> tuple[str, list[Manifest]]:
    """The name of a job's PodGroup, and its first pods; none of a job that the controller rejects."""
    try:
        job = parse_job(manifest, scheduler_name=SCHEDULER_NAME)
    except SpecError:
        return "", []
    return job.group_name, pods_of(job, priority, now)


def pods_of(job: Job, priority: Callable[[str], int], now: float) -> list[Manifest]:
    """The pods that are created when a job is admitted; tasks that wait for others come later."""
    pods = []
    for task in job.tasks:
        if task.waits_for:
            continue
        make = pod_maker(job, task, Status(), ())
        pods += [as_created(make(index), priority, now) for index in range(task.replicas)]
    return pods


def as_created(pod: Manifest, priority: Callable[[str], int], now: float) -> Manifest:
    """A pod with the fields that the API server sets."""
    metadata: dict[str, Any] = {"creationTimestamp": timestamp(now), **pod["metadata"]}
    metadata.setdefault("uid", f"{metadata['namespace']}/{metadata['name']}")
    spec = {**(pod.get("spec") or {})}
    if spec.get("priority") is None:
        spec["priority"] = priority(spec.get("priorityClassName") or "")
    return {**pod, "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
