"""Defaults and validation of PodGroups, pods, JobFlows and CronJobs."""

import copy
import re
from collections.abc import Iterable, Mapping
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from volcano.kube.api import cron
from volcano.kube.api.kinds import NAMESPACE, QUEUE
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.api.names import (
    DEFAULT_QUEUE,
    JDB_MAX_UNAVAILABLE,
    JDB_MIN_AVAILABLE,
    POD_QUEUE_NAME,
    QUEUE_GATE,
)
from volcano.kube.api.quantity import parse
from volcano.webhooks.job.validation import check_topology, find_cycle, tasks_of
from volcano.webhooks.names import LONGEST, QUALIFIED, check_names
from volcano.webhooks.numbers import check_time_annotations
from volcano.webhooks.review import AdmissionRequest, Violation, annotations_in
from volcano.webhooks.users import set_user

RUN_DIGITS = 8  # of the minute of a run, at the end of a job's name
RESOURCE_GROUP = "volcano.sh/resource-group"
ZONE_PART = re.compile(r"^[A-Za-z0-9._+][A-Za-z0-9._+-]{0,13}$")


def default_pod_group(request: AdmissionRequest) -> Manifest:
    """Sets the user of a PodGroup, and the queue of one without from its namespace's annotation."""
    assert request.new is not None
    group = copy.deepcopy(set_user(request))
    spec = group["spec"] = group.get("spec") or {}
    if (spec.get("queue") or DEFAULT_QUEUE) == DEFAULT_QUEUE:
        namespace = request.lookup.find(NAMESPACE, Key("", request.key.namespace))
        spec["queue"] = annotations_in(namespace).get(POD_QUEUE_NAME) or DEFAULT_QUEUE
    return group


def check_pod_group(request: AdmissionRequest) -> Iterable[Violation]:
    """The queue exists and is open, and tiers are given by number or by name."""
    assert request.new is not None
    spec = request.new.get("spec") or {}
    name = spec.get("queue")
    if name:
        queue = request.lookup.find(QUEUE, Key("", name))
        state = ((queue or {}).get("status") or {}).get("state", "")
        if queue is None:
            missing = f'queues.scheduling.volcano.sh "{name}" not found'
            yield Violation("spec.queue", f"unable to find queue: {missing}; create it first")
        elif state in ("Closed", "Closing", "Unknown"):
            text = f"can only submit PodGroup to queue with state `Open`, queue `{name}` status is `{state}`"
            yield Violation("spec.queue", text)
    yield from check_time_annotations(request.new)
    yield from _check_min_resources(spec.get("minResources") or {})
    yield from check_topology(spec.get("networkTopology"), "spec.networkTopology")
    for index, policy in enumerate(spec.get("subGroupPolicy") or ()):
        path = f"spec.subGroupPolicy[{index}].networkTopology"
        yield from check_topology((policy or {}).get("networkTopology"), path)


def _check_min_resources(resources: Mapping[str, Any]) -> Iterable[Violation]:
    for name, value in resources.items():
        try:
            is_valid = parse(value) >= 0
        except ValueError:
            is_valid = False
        if not is_valid:
            text = f"{value!r} must be a quantity of at least 0, such as 4, 500m or 16Gi"
            yield Violation(f"spec.minResources[{name}]", text)


def default_pod(request: AdmissionRequest) -> Manifest:
    """Sets the user of a pod, gates it on request, and applies the first resource group that matches it."""
    assert request.new is not None
    is_ours = (request.new.get("spec") or {}).get("schedulerName") in request.options.scheduler_names
    pod = set_user(request) if is_ours else request.new
    gated = request.options.gate_queue_admission and QUEUE_GATE in annotations_in(pod)
    groups = request.options.resource_groups()
    group = next((g for g in groups if _matches(pod, request.key.namespace, g)), None)
    if not gated and group is None:
        return pod
    pod = copy.deepcopy(pod)
    spec = pod["spec"] = pod.get("spec") or {}
    if gated and all((gate or {}).get("name") != QUEUE_GATE for gate in spec.get("schedulingGates") or ()):
        spec["schedulingGates"] = [*(spec.get("schedulingGates") or ()), {"name": QUEUE_GATE}]
    if group is not None:
        if group.get("labels"):
            spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **group["labels"]}
        if group.get("affinity") and not spec.get("affinity"):
            spec["affinity"] = group["affinity"]
        if group.get("tolerations"):
            spec["tolerations"] = [*(spec.get("tolerations") or ()), *group["tolerations"]]
        if group.get("schedulerName"):
            spec["schedulerName"] = group["schedulerName"]
    return pod


def _matches(pod: Manifest, namespace: str, group: Mapping[str, Any]) -> bool:
    match, annotations = group.get("object") or {}, annotations_in(pod)
    key, values = match.get("key", ""), match.get("value") or ()
    if key == "namespace":
        return namespace in values
    if key not in ("", "annotation"):
        return False
    for line in values:
        name, _, value = str(line).partition(":")
        if annotations.get(name.strip()) == value.strip():
            return True
    return (
        key == ""
        and bool(group.get("resourceGroup"))
        and annotations.get(RESOURCE_GROUP) == group["resourceGroup"]
    )


def check_pod(request: AdmissionRequest) -> Iterable[Violation]:
    """The disruption budget in a pod's annotations is a positive number or a percentage, and only one of the
    two."""
    assert request.new is not None
    if (request.new.get("spec") or {}).get("schedulerName") not in request.options.scheduler_names:
        return
    annotations = annotations_in(request.new)
    present = [name for name in (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE) if name in annotations]
    if len(present) > 1:
        text = f"not allow configure multiple annotations <[{' '.join(present)}]> at same time; keep one"
        yield Violation("metadata.annotations", text)
    for name in present:
        text = str(annotations[name])
        here = f"metadata.annotations[{name}]"
        if text.endswith("%"):
            if not re.fullmatch("[1-9][0-9]?", text[:-1]):
                rule = "it must be a valid percentage which between 1% ~ 99%"
                yield Violation(here, f'invalid value <"{text}"> for {name}, {rule}')
        elif not re.fullmatch("0*[1-9][0-9]*", text):
            rule = "it must be a positive integer or a percentage such as 25%"
            yield Violation(here, f'invalid value <"{text}"> for {name}, {rule}')


def check_job_flow(request: AdmissionRequest) -> Iterable[Violation]:
    """Flows depend on existing flows, without cycles."""
    assert request.new is not None
    flows = [flow or {} for flow in (request.new.get("spec") or {}).get("flows") or ()]
    if not flows and _spec_changed(request):
        yield Violation("spec.flows", "a JobFlow needs at least one flow, such as {name: <JobTemplate>}")
    graph = {
        str(flow.get("name") or ""): list((flow.get("dependsOn") or {}).get("targets") or ())
        for flow in flows
    }
    for index, flow in enumerate(flows):
        job = f"{request.key.name}-{flow.get('name') or ''}"
        if request.key.name and len(job) > LONGEST and _spec_changed(request):
            text = (
                f"the job {job} of this flow would have {len(job)} characters; at most {LONGEST} are allowed"
            )
            yield Violation(f"spec.flows[{index}].name", text)
        for target in graph[str(flow.get("name") or "")]:
            if target not in graph:
                text = f"jobflow Flow is not DAG: vertex is not defined: {target}; the flows are {', '.join(graph)}"
                yield Violation(f"spec.flows[{index}].dependsOn.targets", text)
    loop = find_cycle(graph)
    if loop:
        yield Violation("spec.flows", f"jobflow Flow is not DAG: {' -> '.join(loop)}")


def check_cron_job(request: AdmissionRequest) -> Iterable[Violation]:
    """The schedule parses, the time zone exists, and the names of its jobs are short enough."""
    assert request.new is not None
    spec, name = request.new.get("spec") or {}, request.key.name
    schedule = spec.get("schedule") or ""
    if not schedule:
        yield Violation("spec.schedule", "schedule must not be empty; such as '*/5 * * * *'")
    elif "TZ" in schedule:
        yield Violation("spec.schedule", "must not contain TZ or CRON_TZ; use spec.timeZone instead")
    else:
        try:
            cron.parse(schedule)
        except ValueError as error:
            yield Violation("spec.schedule", f"invalid schedule: {error}")
    zone = spec.get("timeZone")
    if zone is not None:
        yield from _check_zone(zone)
    if len(name) > 52 or (name and not QUALIFIED.fullmatch(name)):
        text = (
            f"{name!r} must be at most 52 lower-case letters, digits or '-': its jobs' names are longer by 11"
        )
        yield Violation("metadata.name", text)
    elif name and _spec_changed(request):
        yield from _check_jobs_of_cron_job(name, (spec.get("jobTemplate") or {}).get("spec") or {})


def _check_jobs_of_cron_job(name: str, spec: Mapping[str, Any]) -> Iterable[Violation]:
    """The jobs have the time of their run in their names, and their pods and Services too."""
    tasks = [{**task, "name": task.get("name") or f"default{i}"} for i, task in enumerate(tasks_of(spec))]
    for violation in check_names(f"{name}-{'0' * RUN_DIGITS}", spec, tasks):
        path = violation.field.replace("spec.", "spec.jobTemplate.spec.", 1)
        yield Violation(path, f"{violation.message}; the digits are the time of a run")


def _spec_changed(request: AdmissionRequest) -> bool:
    return request.old is None or (request.old.get("spec") or {}) != ((request.new or {}).get("spec") or {})


def _check_zone(zone: str) -> Iterable[Violation]:
    parts = zone.split("/")
    if (
        not zone
        or any(not ZONE_PART.match(part) or part in (".", "..") for part in parts)
        or zone.lower() == "local"
    ):
        yield Violation("spec.timeZone", f"unknown timeZone {zone!r}; such as Europe/Berlin")
        return
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        yield Violation("spec.timeZone", f"invalid timeZone {zone!r}: no such zone is known here")
