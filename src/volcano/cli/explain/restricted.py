"""Explanations for users who may read their namespace only: what the scheduler wrote to the PodGroup and the pods."""

from typing import Any

from volcano.cli.errors import Missing
from volcano.cli.session import Session
from volcano.kube.api.errors import ApiError
from volcano.kube.api.fields import wall_time
from volcano.kube.api.kinds import EVENT, JOB, POD, POD_GROUP
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Query
from volcano.services.job_watch import group_of

Data = dict[str, Any]
WITHOUT_RIGHTS = "steps, position, changes and the nodes by reason are missing"


async def job_of_namespace(session: Session, key: Key, why: str) -> Data:
    """The condition of the job's PodGroup."""
    job = await _get(session, JOB, key)
    group = await group_of(session.client, job) if job is not None else await _get(session, POD_GROUP, key)
    if group is None:
        if job is None:
            raise Missing(f"job {key.name!r} not found in namespace {key.namespace!r}")
        phase = ((job.get("status") or {}).get("state") or {}).get("phase") or "Pending"
        return _found(key, f"{key.name} has no PodGroup: the Job is {phase}.", why)
    name, status = group["metadata"]["name"], group.get("status") or {}
    condition = _true(status, "Unschedulable")
    found = _found(key, "", why)
    found |= {"podGroup": f"{key.namespace}/{name}", "queue": (group.get("spec") or {}).get("queue", "")}
    found["phase"] = status.get("phase") or "Pending"
    found["history"] = await _events(session, key.namespace, name)
    if condition is None:
        found["state"] = "running" if status.get("running") else found["phase"].lower()
        found["summary"] = f"{key.name} is {found['phase']}; the scheduler reports no obstacle."
        return found
    code = _code(condition)
    found["state"] = "waiting"
    found["diagnosis"] = {
        "code": condition.get("reason", ""),
        "class": str(code.diagnosis_class) if code is not None else "",
        "message": condition.get("message", ""),
        "since": wall_time(condition.get("lastTransitionTime")) or 0.0,
    }
    found["summary"] = _summary(key.name, code, condition)
    return found


def _summary(name: str, code: Any, condition: Manifest) -> str:
    from volcano.analysis.explain.sentences import BEGINNINGS, meaning

    if code is None:
        return f"{name} waits: {condition.get('message', '')}"
    text = meaning(code)
    return f"{name} {BEGINNINGS[code.diagnosis_class]}: {text[0].lower()}{text[1:]}"


def _code(condition: Manifest) -> Any:
    """The code that is the reason of a condition; None for a reason of another scheduler."""
    from volcano.scheduler.engine.diagnosis.codes import Code

    try:
        return Code(condition.get("reason", ""))
    except ValueError:
        return None


async def pod_of_namespace(session: Session, key: Key, why: str) -> Data:
    """The PodScheduled condition of the pod."""
    pod = await _get(session, POD, key)
    if pod is None:
        raise Missing(f"pod {key.name!r} not found in namespace {key.namespace!r}")
    node = (pod.get("spec") or {}).get("nodeName", "")
    found: Data = {"kind": "PodExplanation", "pod": f"{key.namespace}/{key.name}", "node": node}
    conditions = (pod.get("status") or {}).get("conditions") or []
    waits = next(
        (c for c in conditions if c.get("type") == "PodScheduled" and c.get("status") == "False"), None
    )
    if node:
        found["summary"] = f"{key.name} runs on {node}."
    elif waits is not None:
        found["summary"] = f"{key.name} waits: {waits.get('message', '')}"
    else:
        found["summary"] = f"{key.name} has no node; the scheduler reports no obstacle."
    found["notes"] = [f"{why}; scores and the nodes by reason are missing"]
    found["history"] = await _events(session, key.namespace, key.name)
    return found


def entry_of_event(event: Manifest) -> Data:
    """An event as an entry of the history."""
    at = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")
    return {
        "number": 0,
        "at": wall_time(at) or 0.0,
        "what": "event",
        "code": event.get("reason", ""),
        "text": event.get("message", ""),
    }


async def _events(session: Session, namespace: str, name: str) -> list[Data]:
    try:
        found = await session.client.list(EVENT, Query(namespace, fields=f"involvedObject.name={name}"))
    except ApiError:
        return []
    return sorted(map(entry_of_event, found.items), key=lambda entry: entry["at"])


async def _get(session: Session, kind: Any, key: Key) -> Manifest | None:
    try:
        return await session.client.get(kind, key)
    except ApiError:
        return None


def _found(key: Key, summary: str, why: str) -> Data:
    return {
        "kind": "JobExplanation",
        "job": f"{key.namespace}/{key.name}",
        "state": "unknown",
        "summary": summary,
        "notes": [f"{why}; {WITHOUT_RIGHTS}"],
    }


def _true(status: Manifest, kind: str) -> Manifest | None:
    found = status.get("conditions") or []
    return next((each for each in found if each.get("type") == kind and each.get("status") == "True"), None)
