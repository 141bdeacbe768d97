"""Explanations from conditions and events: what the scheduler wrote to PodGroups and pods, for users who may read their
namespace only."""

from volcano.analysis.explain.explanations import (
    Diagnosis,
    JobExplanation,
    JobWithoutGroup,
    RestrictedJob,
    RestrictedPod,
)
from volcano.analysis.explain.sentences import BEGINNINGS, meaning
from volcano.kube.api.errors import ApiError
from volcano.kube.api.fields import at, items, wall_time
from volcano.kube.api.kinds import EVENT, JOB, POD, POD_GROUP, Kind
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Client, Query
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.history.queries import Entry
from volcano.services.errors import NotFoundError
from volcano.services.job_watch import group_of

WITHOUT_RIGHTS = "steps, position, changes and the nodes by reason are missing"


async def job_of_namespace(client: Client, key: Key, why: str) -> JobExplanation:
    """The condition of the job's PodGroup; `why` says what rights are missing."""
    job = await find_any(client, JOB, key)
    group = await group_of(client, job) if job is not None else await find_any(client, POD_GROUP, key)
    notes = (f"{why}; {WITHOUT_RIGHTS}",)
    if group is None:
        if job is None:
            raise NotFoundError(f"job {key.name!r} not found in namespace {key.namespace!r}")
        phase = at(job, "status", "state", "phase", default="") or "Pending"
        summary = f"{key.name} has no PodGroup: the Job is {phase}."
        return JobWithoutGroup(job=str(key), state="unknown", summary=summary, notes=notes)
    name, phase = group["metadata"]["name"], at(group, "status", "phase", default="") or "Pending"
    diagnosis = _diagnosis(group)
    if diagnosis is None:
        state = "running" if at(group, "status", "running", default=0) else phase.lower()
        summary = f"{key.name} is {phase}; the scheduler reports no obstacle."
    else:
        state, summary = "waiting", _summary(key.name, diagnosis)
    return RestrictedJob(
        job=str(key),
        state=state,
        summary=summary,
        notes=notes,
        pod_group=f"{key.namespace}/{name}",
        queue=at(group, "spec", "queue", default=""),
        phase=phase,
        history=await events_about(client, key.namespace, name),
        diagnosis=diagnosis,
    )


async def pod_of_namespace(client: Client, key: Key, why: str) -> RestrictedPod:
    """The PodScheduled condition of the pod."""
    pod = await find_any(client, POD, key)
    if pod is None:
        raise NotFoundError(f"pod {key.name!r} not found in namespace {key.namespace!r}")
    node, waits = at(pod, "spec", "nodeName", default=""), _condition(pod, "PodScheduled", "False")
    if node:
        summary = f"{key.name} runs on {node}."
    elif waits is not None:
        summary = f"{key.name} waits: {waits.get('message', '')}"
    else:
        summary = f"{key.name} has no node; the scheduler reports no obstacle."
    return RestrictedPod(
        pod=str(key),
        node=node,
        summary=summary,
        notes=(f"{why}; scores and the nodes by reason are missing",),
        history=await events_about(client, key.namespace, key.name),
    )


async def events_about(client: Client, namespace: str, name: str) -> tuple[Entry, ...]:
    """Events about an object as entries of a history, the oldest first; none without the right to list them."""
    try:
        found = await client.list(EVENT, Query(namespace, fields=f"involvedObject.name={name}"))
    except ApiError:
        return ()
    return tuple(sorted(map(_entry, found.items), key=lambda entry: entry.at))


async def find_any(client: Client, kind: Kind, key: Key) -> Manifest | None:
    """The object; None where it does not exist or may not be read."""
    try:
        return await client.get(kind, key)
    except ApiError:
        return None


def _entry(event: Manifest) -> Entry:
    moment = (
        event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")
    )
    return Entry(0, wall_time(moment) or 0.0, "event", event.get("reason", ""), event.get("message", ""))


def _condition(manifest: Manifest, kind: str, status: str) -> Manifest | None:
    conditions = items(manifest, "status", "conditions")
    return next((dict(c) for c in conditions if c.get("type") == kind and c.get("status") == status), None)


def _diagnosis(group: Manifest) -> Diagnosis | None:
    """What the condition of a PodGroup says about why it waits."""
    condition = _condition(group, "Unschedulable", "True")
    if condition is None:
        return None
    code = condition.get("reason", "")
    return Diagnosis(
        code=code,
        class_=str(Code(code).diagnosis_class) if code in set(Code) else "",
        message=condition.get("message", ""),
        since=wall_time(condition.get("lastTransitionTime")) or 0.0,
    )


def _summary(name: str, diagnosis: Diagnosis) -> str:
    if not diagnosis.class_:  # the code is one of another scheduler
        return f"{name} waits: {diagnosis.message}"
    code = Code(diagnosis.code)
    text = meaning(code)
    return f"{name} {BEGINNINGS[code.diagnosis_class]}: {text[0].lower()}{text[1:]}"
