"""Summary of a job as plain data, from its manifest and related objects."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from volcano.kube.api.fields import at, items, name_of, number
from volcano.kube.api.kinds import POD_GROUP
from volcano.kube.api.manifest import Manifest, annotations_of, labels_of, uid_of
from volcano.kube.api.names import ALLOCATED_HYPERNODE, JOB_RETRY_COUNT, SCHEDULER_NAME, TASK_INDEX, TASK_SPEC
from volcano.kube.resources.pod_status import pod_status
from volcano.services.job_watch import message_of
from volcano.services.jobs import phase_of
from volcano.views.jobs import WAITING, queue_of, why_waiting

SPEC_FIELDS = (
    "minSuccess", "priorityClassName", "ttlSecondsAfterFinished", "runningEstimate", "networkTopology", "volumes",
)  # fmt: skip


def summarise(
    job: Manifest,
    group: Manifest | None,
    pods: Sequence[Manifest],
    events: Iterable[Manifest],
    queue: Manifest | None,
) -> Manifest:
    """Builds the summary; parts without content are empty."""
    return {
        "name": name_of(job),
        "namespace": at(job, "metadata", "namespace", default=""),
        "created": at(job, "metadata", "creationTimestamp", default=""),
        "phase": phase_of(job),
        "message": message_of(job),
        "spec": _spec(job, queue),
        "retries": {"count": number(job, "status", "retryCount"), "max": number(job, "spec", "maxRetry")},
        "runningDuration": at(job, "status", "runningDuration", default=""),
        "gang": _gang(job, group, pods),
        "tasks": [_task(task, pods) for task in items(job, "spec", "tasks")],
        "policies": _policies(job),
        "conditions": [
            {"phase": condition.get("status", ""), "since": condition.get("lastTransitionTime", "")}
            for condition in items(job, "status", "conditions")
        ],
        "events": _events(job, group, pods, events),
    }


def _spec(job: Manifest, queue: Manifest | None) -> Manifest:
    spec = job.get("spec") or {}
    return {
        "queue": {
            "name": queue_of(job),
            "state": str(at(queue, "status", "state", default="")) if queue else "not found",
            "weight": number(queue, "spec", "weight"),
        },
        "schedulerName": spec.get("schedulerName") or SCHEDULER_NAME,
        "minAvailable": number(job, "spec", "minAvailable"),
        "replicas": sum(number(task, "replicas") for task in items(job, "spec", "tasks")),
        "plugins": {name: arguments or [] for name, arguments in (spec.get("plugins") or {}).items()},
        **{field: spec[field] for field in SPEC_FIELDS if spec.get(field) not in (None, "", [])},
    }


def _gang(job: Manifest, group: Manifest | None, pods: Sequence[Manifest]) -> Manifest:
    """Gang state: required and present members, and the reason for waiting."""
    ready = sum(at(pod, "status", "phase") in ("Running", "Succeeded") for pod in pods)
    gang: Manifest = {
        "podGroup": name_of(group) if group else "",
        "phase": str(at(group, "status", "phase", default="Pending")) if group else "",
        "minimum": number(job, "spec", "minAvailable"),
        "ready": ready,
        "minResources": {
            name: amount
            for name, amount in at(group, "spec", "minResources", default={}).items()
            if not name.startswith(("requests.", "limits.", "count/")) and name != "pods"
        },
        "hyperNode": annotations_of(group).get(ALLOCATED_HYPERNODE, "") if group else "",
        "waitsFor": why_waiting(group) if group and phase_of(job) in WAITING else "",
        "conditions": [
            {
                "type": condition.get("type", ""),
                "status": condition.get("status", ""),
                "reason": condition.get("reason", ""),
                "message": condition.get("message", ""),
                "since": condition.get("lastTransitionTime", ""),
            }
            for condition in items(group, "status", "conditions")
        ],
    }
    return gang


def _task(task: Mapping[str, Any], pods: Iterable[Manifest]) -> Manifest:
    containers = items(task, "template", "spec", "containers")
    first = containers[0] if containers else {}
    mine = [pod for pod in pods if _label(pod, TASK_SPEC) == task.get("name")]
    return {
        "name": task.get("name", ""),
        "replicas": number(task, "replicas"),
        "minAvailable": task.get("minAvailable", number(task, "replicas")),
        "maxRetry": number(task, "maxRetry"),
        "images": [str(container.get("image", "")) for container in containers],
        "command": shlex.join(
            [str(word) for word in (*(first.get("command") or ()), *(first.get("args") or ()))]
        ),
        "requests": _requested(first),
        **({"dependsOn": task["dependsOn"]} if task.get("dependsOn") else {}),
        "pods": sorted((_pod(pod) for pod in mine), key=lambda pod: (pod["index"], pod["name"])),
    }


def _requested(container: Mapping[str, Any]) -> Manifest:
    """Requests of a container; a resource with a limit only is requested as much, as the API server defaults it."""
    requests, limits = (at(container, "resources", name) or {} for name in ("requests", "limits"))
    return {**requests, **{name: limit for name, limit in limits.items() if name not in requests}}


def _pod(pod: Manifest) -> Manifest:
    index = _label(pod, TASK_INDEX)
    statuses = items(pod, "status", "containerStatuses")
    codes = [at(status, "state", "terminated", "exitCode") for status in statuses]
    ended = [code for code in codes if code is not None]
    return {
        "name": name_of(pod),
        "index": int(index) if index.isdecimal() else 0,
        "status": pod_status(pod) or "Pending",
        "node": str(at(pod, "spec", "nodeName", default="")),
        "ip": str(at(pod, "status", "podIP", default="")),
        "restarts": sum(number(status, "restartCount") for status in statuses),
        "retry": int(annotations_of(pod).get(JOB_RETRY_COUNT) or 0),
        "created": at(pod, "metadata", "creationTimestamp", default=""),
        **({"exitCode": max(ended)} if ended else {}),
    }


def _label(pod: Manifest, name: str) -> str:
    return labels_of(pod).get(name) or annotations_of(pod).get(name) or ""


def _policies(job: Manifest) -> list[Manifest]:
    """Lifecycle policies, the job's own first."""
    found = [_policy("", policy) for policy in items(job, "spec", "policies")]
    for task in items(job, "spec", "tasks"):
        found += [_policy(str(task.get("name", "")), policy) for policy in items(task, "policies")]
    return found


def _policy(task: str, policy: Mapping[str, Any]) -> Manifest:
    events = [*(policy.get("events") or ()), *([policy["event"]] if policy.get("event") else ())]
    return {
        "task": task,
        "events": events,
        **({"exitCode": policy["exitCode"]} if policy.get("exitCode") is not None else {}),
        "action": policy.get("action", ""),
        **({"timeout": policy["timeout"]} if policy.get("timeout") else {}),
    }


def _events(
    job: Manifest, group: Manifest | None, pods: Sequence[Manifest], events: Iterable[Manifest]
) -> list[Manifest]:
    """Events of the job, its PodGroup and its pods, oldest first."""
    uids = {uid_of(thing) for thing in (job, *([group] if group else ()), *pods)}
    # The scheduler names PodGroups without their uid; the PodGroup may be deleted by now.
    groups = {name_of(group) if group else "", f"{name_of(job)}-{uid_of(job)}"}
    about = [
        event
        for event in events
        if (involved := event.get("involvedObject") or {}).get("uid") in uids
        or (
            involved.get("kind") == POD_GROUP.kind
            and not involved.get("uid")
            and involved.get("name") in groups
        )
    ]
    listed = [
        {
            "type": event.get("type", ""),
            "reason": event.get("reason", ""),
            "object": _subject(event),
            "count": number(event, "count") or number(event, "series", "count") or 1,
            "first": event.get("firstTimestamp") or event.get("eventTime") or "",
            "last": at(event, "series", "lastObservedTime")
            or event.get("lastTimestamp")
            or event.get("eventTime")
            or "",
            "message": event.get("message", ""),
        }
        for event in about
    ]
    return sorted(listed, key=lambda event: (event["last"], event["first"]))


def _subject(event: Manifest) -> str:
    about = event.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"
