"""JobFlow and JobTemplate controllers: create jobs from templates, each after those it depends on."""

import copy
from collections.abc import Iterable

from volcano.clock import Instant, parse_timestamp, timestamp
from volcano.controllers.events import OnceRecorder
from volcano.controllers.metrics import ENDINGS, JobFlowMetrics
from volcano.kube import type_info
from volcano.kube.client import Event, Options
from volcano.kube.controller import NOTHING, ObjectReconciler, Plan, Watch
from volcano.kube.duration import parse as parse_duration
from volcano.kube.kinds import JOB, JOB_FLOW, JOB_TEMPLATE
from volcano.kube.manifest import (
    Key,
    Manifest,
    is_deleting,
    key_of,
    labels_of,
    owner_reference,
    uid_of,
    user_annotation,
)
from volcano.kube.operations import Create, Delete, Operation, Patch
from volcano.kube.patches.patch import merge_diff, merge_patch
from volcano.kube.patches.strategic import strategic_merge
from volcano.metrics import CollectorRegistry

BY_TEMPLATE = "volcano.sh/createdByJobTemplate"
BY_FLOW = "volcano.sh/createdByJobFlow"
SOURCE = "jobflow-controller"
# Job phase → the list of the status it appears in.
LISTS = {
    "Pending": "pendingJobs",
    "Running": "runningJobs",
    "Failed": "failedJobs",
    "Completed": "completedJobs",
    "Terminated": "terminatedJobs",
}
UNLISTED = ("Completing", "Terminating")
LONGEST_LABEL = 63


class JobFlowController(ObjectReconciler):
    """Creates a flow's jobs in the order of their dependencies and aggregates their status."""

    name = SOURCE
    kind, owns = JOB_FLOW, (JOB,)
    watches = (Watch(JOB_FLOW), Watch(JOB_TEMPLATE), Watch(JOB))

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        super().__init__()
        self._recorder = OnceRecorder(SOURCE)
        self._metrics = JobFlowMetrics(registry or CollectorRegistry())
        self._ending: dict[Key, str] = {}  # flows whose final phase is being written
        self.indexer.add_index(JOB_FLOW, "template", _templates)
        self.indexer.add_index(JOB_FLOW, "job", _jobs)

    def keys(self, event: Event) -> Iterable[Key]:
        if event.kind == JOB_FLOW:
            return super().keys(event)
        index, own = ("template", ()) if event.kind == JOB_TEMPLATE else ("job", super().keys(event))
        flows = self.indexer.by_index(JOB_FLOW, index, event.object_key())
        return [*own, *map(key_of, flows)]

    def reconcile_object(self, flow: Manifest, now: Instant) -> Plan:
        phase = _phase(flow)
        jobs = {key_of(job).name: job for job in self.indexer.owned(JOB, flow)}
        if phase in ("Failed", "Terminating"):
            return NOTHING
        if phase == "Succeed" and (flow.get("spec") or {}).get("jobRetainPolicy") == "delete":
            return Plan([_removal(job) for job in jobs.values() if not is_deleting(job)])
        creations = list(self._create(flow, jobs, now)) if phase != "Succeed" else []
        coming = {operation.key.name for operation in creations if operation.kind == JOB}
        status = _status(flow, jobs, coming, now)
        change = merge_diff(flow.get("status") or {}, status)
        # The status is not delayed by jobs that may be rejected; a new flow has none to write yet.
        if not change or (creations and not flow.get("status")):
            return Plan(creations)
        if status["state"]["phase"] != phase and status["state"]["phase"] in ENDINGS:
            self._ending[key_of(flow)] = status["state"]["phase"]
        return Plan([Patch(JOB_FLOW, key_of(flow), {"status": change}, "status"), *creations])

    def on_written(self, operation: Operation, result: Manifest) -> None:
        if operation.kind == JOB_FLOW and operation.key in self._ending:
            self._metrics.ended(self._ending.pop(operation.key), operation.key.namespace)

    def _create(self, flow: Manifest, jobs: dict[str, Manifest], now: Instant) -> Iterable[Operation]:
        prefix = key_of(flow).name
        for step in _steps(flow):
            name = f"{prefix}-{step['name']}"
            targets = (step.get("dependsOn") or {}).get("targets") or ()
            ready = all(_phase(jobs.get(f"{prefix}-{target}") or {}) == "Completed" for target in targets)
            if name in jobs or not ready:
                continue
            other = self.indexer.get(JOB, Key(key_of(flow).namespace, name))
            if other is not None:
                # A job of the same name that is being deleted, or of another owner: its deletion triggers
                # another reconciliation.
                text = (
                    f"Job {name} exists and is not of this flow; flow {step['name']} waits until it is gone"
                )
                yield from self._recorder.once(flow, JOB_FLOW, "ForeignJob", text, now, warning=True)
                continue
            template = self.indexer.get(JOB_TEMPLATE, Key(key_of(flow).namespace, step["name"]))
            if template is None:
                text = f"JobTemplate {step['name']} is not there; flow {step['name']} waits for it"
                yield from self._recorder.once(flow, JOB_FLOW, "TemplateNotFound", text, now, warning=True)
                continue
            yield Create(JOB, _job(flow, step, template, name), if_absent=True)
            yield from self._recorder.once(flow, JOB_FLOW, "Created", f"create a job named {name}!", now)


def _templates(flow: Manifest) -> Iterable[Key]:
    namespace = key_of(flow).namespace
    return [Key(namespace, step["name"]) for step in _steps(flow)]


def _jobs(flow: Manifest) -> Iterable[Key]:
    """The names of a flow's jobs, created or not."""
    key = key_of(flow)
    return [Key(key.namespace, f"{key.name}-{step['name']}") for step in _steps(flow)]


def _steps(flow: Manifest) -> list[Manifest]:
    """The flows of a JobFlow; of two with the same name the last counts, in the place of the first."""
    return list({step["name"]: step for step in (flow.get("spec") or {}).get("flows") or ()}.values())


def _removal(job: Manifest) -> Delete:
    return Delete(JOB, key_of(job), Options(propagation="Background", uid=uid_of(job)), if_present=True)


def _job(flow: Manifest, step: Manifest, template: Manifest, name: str) -> Manifest:
    namespace = key_of(flow).namespace
    marks = {BY_TEMPLATE: f"{namespace}.{key_of(template).name}", BY_FLOW: f"{namespace}.{key_of(flow).name}"}
    spec = copy.deepcopy(template.get("spec") or {})
    changes = (step.get("patch") or {}).get("jobSpec") or {}
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {name: value for name, value in marks.items() if len(value) <= LONGEST_LABEL},
            "annotations": {**user_annotation(flow), **marks},
            "ownerReferences": [owner_reference(flow)],
        },
        "spec": _patched(spec, changes),
    }


def _patched(spec: Manifest, changes: Manifest) -> Manifest:
    """A template's spec with a flow's changes: tasks are merged by name, their pod templates as `kubectl patch` does,
    other lists are replaced."""
    merged: Manifest = merge_patch(spec, {name: value for name, value in changes.items() if name != "tasks"})
    tasks = {_task_name(task, index): task for index, task in enumerate(spec.get("tasks") or ())}
    for index, change in enumerate(changes.get("tasks") or ()):
        name = _task_name(change, index)
        task = tasks.get(name)
        tasks[name] = change if task is None else _patched_task(task, change)
    return {**merged, "tasks": list(tasks.values())}


def _patched_task(task: Manifest, change: Manifest) -> Manifest:
    merged: Manifest = merge_patch(
        task, {name: value for name, value in change.items() if name != "template"}
    )
    if change.get("template"):
        pod_template = type_info.named("core.v1.PodTemplateSpec")
        merged["template"] = strategic_merge(pod_template, task.get("template") or {}, change["template"])
    return merged


def _task_name(task: Manifest, index: int) -> str:
    """The name of a task, by default as admission sets it."""
    return task.get("name") or f"default{index}"


def _phase(manifest: Manifest) -> str:
    return str(((manifest.get("status") or {}).get("state") or {}).get("phase", ""))


def _status(flow: Manifest, jobs: dict[str, Manifest], coming: set[str], now: Instant) -> Manifest:
    """The status of a flow. Jobs about to be created again keep their last entry."""
    known = flow.get("status") or {}
    status: Manifest = {name: [] for name in [*LISTS.values(), "unKnowJobs"]}
    for name in sorted(jobs):
        phase = _phase(jobs[name]) or "Pending"
        if phase not in UNLISTED:
            status[LISTS.get(phase, "unKnowJobs")].append(name)
    histories = {entry["name"]: entry for entry in known.get("jobStatusList") or ()}
    status["jobStatusList"] = [
        _job_status(jobs[name], histories.get(name), now) if name in jobs else histories[name]
        for name in sorted(jobs.keys() | (coming & histories.keys()))
    ]
    status["conditions"] = {
        name: {
            "phase": _phase(job),
            "createTime": job["metadata"].get("creationTimestamp"),
            **{
                part: job["status"][part]
                for part in ("runningDuration", "taskStatusCount")
                if (job.get("status") or {}).get(part)
            },
        }
        for name, job in sorted(jobs.items())
    }
    status["state"] = {"phase": _next_phase(flow, status)}
    return {name: value for name, value in status.items() if value}


def _next_phase(flow: Manifest, status: Manifest) -> str:
    phase = _phase(flow) or "Pending"
    broken = status["failedJobs"] or status["terminatedJobs"]
    wanted = {key.name for key in _jobs(flow)}
    if phase == "Succeed":
        return phase
    if broken:
        return "Failed"
    if wanted and wanted <= set(status["completedJobs"]):
        return "Succeed"
    return "Running" if status["runningJobs"] or status["completedJobs"] or phase == "Running" else "Pending"


def _job_status(job: Manifest, known: Manifest | None, now: Instant) -> Manifest:
    phase, created = _phase(job), job["metadata"].get("creationTimestamp")
    histories = [dict(entry) for entry in (known or {}).get("runningHistories") or ()]
    if phase and (not histories or histories[-1].get("state") != phase):
        if histories:
            histories[-1]["endTimestamp"] = now.timestamp()
        histories.append({"startTimestamp": now.timestamp(), "state": phase})
    status: Manifest = {"name": key_of(job).name, "state": phase, "startTimestamp": created}
    duration = (job.get("status") or {}).get("runningDuration")
    if duration and created:
        status["endTimestamp"] = timestamp(parse_timestamp(created) + parse_duration(duration))
    status["restartCount"] = (job.get("status") or {}).get("retryCount", 0)
    status["runningHistories"] = histories
    return status


class JobTemplateController(ObjectReconciler):
    """Lists the jobs created from a template in its status."""

    name = "jobtemplate-controller"
    kind = JOB_TEMPLATE
    watches = (Watch(JOB_TEMPLATE), Watch(JOB, labels=BY_TEMPLATE))

    def __init__(self) -> None:
        super().__init__()
        self.indexer.add_index(JOB, "template", _template_of)

    def keys(self, event: Event) -> Iterable[Key]:
        return super().keys(event) if event.kind == JOB_TEMPLATE else _template_of(event.object)

    def reconcile_object(self, template: Manifest, now: Instant) -> Plan:
        key = key_of(template)
        names = sorted(key_of(job).name for job in self.indexer.by_index(JOB, "template", key))
        if names == ((template.get("status") or {}).get("jobDependsOnList") or []):
            return NOTHING
        return Plan([Patch(JOB_TEMPLATE, key, {"status": {"jobDependsOnList": names}}, "status")])


def _template_of(job: Manifest) -> Iterable[Key]:
    """`<namespace>.<name>`; the name may itself contain dots."""
    namespace, dot, name = labels_of(job).get(BY_TEMPLATE, "").partition(".")
    return (Key(namespace, name),) if dot else ()
