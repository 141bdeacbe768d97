"""JobFlow and JobTemplate controllers: create jobs from templates, each after those it depends on."""

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field

from volcano.base.clock import Instant, parse_timestamp, timestamp
from volcano.base.http.dialer import Dial, connect_to
from volcano.base.metrics import CollectorRegistry
from volcano.base.workqueue import Backoff
from volcano.controllers.metrics import ENDINGS, JobFlowMetrics
from volcano.controllers.probes import PERIOD, Probe, missing_phase, probe_of, requests_of
from volcano.kube.api import type_info
from volcano.kube.api.duration import parse as parse_duration
from volcano.kube.api.kinds import JOB, JOB_FLOW, JOB_TEMPLATE
from volcano.kube.api.manifest import (
    Key,
    Manifest,
    annotations_of,
    is_deleting,
    key_of,
    labels_of,
    owner_reference,
    uid_of,
    user_annotation,
    whole_number,
)
from volcano.kube.client.operations import Concurrent, Create, Delete, Operation, Patch, is_rejected
from volcano.kube.client.protocol import Event, Options, Watch
from volcano.kube.controllers.controller import NOTHING, ObjectReconciler, Plan, WorkResult
from volcano.kube.controllers.events import OnceRecorder
from volcano.kube.patches.patch import merge_diff, merge_patch
from volcano.kube.patches.strategic import strategic_merge

BY_TEMPLATE = "volcano.sh/createdByJobTemplate"
BY_FLOW = "volcano.sh/createdByJobFlow"
# On JobTemplates: how often a failed job is created again. On jobs: the number of the retry.
RETRIES = "volcano.sh/retries"
RETRY_NUMBER = "volcano.sh/retry-number"
SOURCE = "jobflow-controller"
# Delays before a failed job is created again, and before a rejected creation is tried again.
RETRY_DELAYS = Backoff(first=10.0, longest=300.0)
REJECTION_DELAYS = Backoff(first=1.0, longest=300.0)
# Job phase → the list of the status it appears in.
LISTS = {
    "Pending": "pendingJobs",
    "Running": "runningJobs",
    "Failed": "failedJobs",
    "Completed": "completedJobs",
    "Terminated": "terminatedJobs",
}
# Phases of a job whose tasks may be probed.
STARTED = ("Pending", "Running", "Restarting")
UNLISTED = ("Completing", "Terminating")
LONGEST_LABEL = 63


class JobFlowController(ObjectReconciler):
    """Creates a flow's jobs in the order of their dependencies and aggregates their status."""

    name = SOURCE
    kind, owns = JOB_FLOW, (JOB,)
    watches = (Watch(JOB_FLOW), Watch(JOB_TEMPLATE), Watch(JOB))

    def __init__(self, registry: CollectorRegistry | None = None, *, dial: Dial = connect_to) -> None:
        """`dial` connects to pods, for probes."""
        super().__init__()
        self._dial = dial
        self._recorder = OnceRecorder(SOURCE)
        self._metrics = JobFlowMetrics(registry or CollectorRegistry())
        self._ending: dict[Key, str] = {}  # flows whose final phase is being written
        self._created: dict[Key, list[str]] = {}  # jobs of flows, to be recorded as events
        self._rejections: dict[Key, dict[str, _Rejection]] = {}  # by flow and job
        self._answers: dict[
            Key, dict[str, tuple[float, str]]
        ] = {}  # of probes, by flow and step: time and failure
        self.indexer.add_index(JOB_FLOW, "template", _templates)
        self.indexer.add_index(JOB_FLOW, "job", _jobs)

    def keys(self, event: Event) -> Iterable[Key]:
        if event.kind == JOB_FLOW:
            return super().keys(event)
        index, own = ("template", ()) if event.kind == JOB_TEMPLATE else ("job", super().keys(event))
        flows = self.indexer.by_index(JOB_FLOW, index, event.object_key())
        return [*own, *map(key_of, flows)]

    def on_gone(self, key: Key) -> None:
        for known in (self._created, self._rejections, self._answers):
            known.pop(key, None)

    def reconcile_object(self, flow: Manifest, now: Instant) -> Plan:
        phase, key = _phase(flow), key_of(flow)
        jobs = {key_of(job).name: job for job in self.indexer.owned(JOB, flow)}
        if phase in ("Failed", "Terminating"):
            return NOTHING
        if phase == "Succeed" and (flow.get("spec") or {}).get("jobRetainPolicy") == "delete":
            return Plan([_removal(job) for job in jobs.values() if not is_deleting(job)])
        progress = _Progress()
        for name in self._created.pop(key, ()):
            progress.events += self._event(flow, "Created", f"create a job named {name}!", now, warning=False)
        for step in _steps(flow) if phase != "Succeed" else ():
            self._advance(flow, step, jobs, progress, now)
        creations = [Concurrent(tuple(progress.creations))] if progress.creations else []
        writes = [*progress.events, *progress.removals, *progress.probes, *creations]
        status = _status(flow, jobs, progress, now)
        change = merge_diff(flow.get("status") or {}, status)
        wait = min(progress.waits, default=None)
        # The status is not delayed by jobs that may be rejected; a new flow has none to write yet.
        if not change or (creations and not flow.get("status")):
            return Plan(writes, wait)
        if status["state"]["phase"] != phase and status["state"]["phase"] in ENDINGS:
            self._ending[key] = status["state"]["phase"]
        return Plan([Patch(JOB_FLOW, key, {"status": change}, "status"), *writes], wait)

    def on_done(self, key: Key, done: WorkResult, now: Instant) -> None:
        for operation, result in zip(done.work.operations, done.results, strict=False):
            if isinstance(operation, Probe):
                answer = now.monotonic, str(result.get("failed", ""))
                self._answers.setdefault(key, {})[operation.step] = answer
            elif isinstance(operation, Create) and operation.kind == JOB:
                rejections, name = self._rejections.setdefault(key, {}), operation.key.name
                known = rejections.pop(name, None)
                if is_rejected(result):
                    failures = known.failures + 1 if known is not None else 0
                    due = now.monotonic + REJECTION_DELAYS.delay(failures)
                    text = str(result.get("message", ""))
                    rejections[name] = _Rejection(operation.manifest, text, failures, due)
                else:
                    self._created.setdefault(key, []).append(name)

    def on_written(self, operation: Operation, result: Manifest) -> None:
        if operation.kind == JOB_FLOW and operation.key in self._ending:
            self._metrics.ended(self._ending.pop(operation.key), operation.key.namespace)

    def _advance(
        self, flow: Manifest, step: Manifest, jobs: dict[str, Manifest], progress: "_Progress", now: Instant
    ) -> None:
        """Creates the job of a step when it may start, and again after a failure."""
        name = _job_name(flow, step)
        template = self.indexer.get(JOB_TEMPLATE, Key(key_of(flow).namespace, step["name"]))
        if name in jobs:
            _retry(flow, jobs[name], template, progress, now)
        elif not self._may_start(flow, step, jobs, progress, now):
            return
        elif self.indexer.get(JOB, Key(key_of(flow).namespace, name)) is not None:
            # A job of the same name that is being deleted, or of another owner: its deletion triggers another
            # reconciliation.
            text = f"Job {name} exists and is not of this flow; flow {step['name']} waits until it is gone"
            progress.events += self._event(flow, "ForeignJob", text, now)
        elif template is None:
            text = f"JobTemplate {step['name']} is not there; flow {step['name']} waits for it"
            progress.events += self._event(flow, "TemplateNotFound", text, now)
        else:
            self._create(flow, _job(flow, step, template, name), progress, now)

    def _create(self, flow: Manifest, job: Manifest, progress: "_Progress", now: Instant) -> None:
        """Creates a job; one that was rejected is created again after a back-off, or when it has changed."""
        name = key_of(job).name
        rejection = self._rejections.get(key_of(flow), {}).get(name)
        if rejection is not None:
            text = f"Error creating job {name}: {rejection.message}"
            progress.notes[name] = "FailedCreate", text
            progress.events += self._event(flow, "FailedCreate", text, now)
            if rejection.job == job and now.monotonic < rejection.due:
                progress.waits.append(rejection.due - now.monotonic)
                return
        progress.creations.append(Create(JOB, job, if_absent=True))

    def _may_start(
        self, flow: Manifest, step: Manifest, jobs: dict[str, Manifest], progress: "_Progress", now: Instant
    ) -> bool:
        """Whether each target is completed or, with a probe, its tasks answer."""
        depends = step.get("dependsOn") or {}
        targets = [jobs.get(f"{key_of(flow).name}-{target}") or {} for target in depends.get("targets") or ()]
        left = [job for job in targets if _phase(job) != "Completed"]
        probe = depends.get("probe")
        if not left or not probe or any(_phase(job) not in STARTED for job in left):
            return not left
        failure = missing_phase(probe, left)
        requests = requests_of(probe, left)
        if not failure and requests:
            at, failure = self._answers.get(key_of(flow), {}).get(step["name"], (float("-inf"), "unknown"))
            if failure and now.monotonic >= at + PERIOD:
                progress.probes.append(probe_of(flow, step["name"], requests, self._dial))
                return False
            progress.waits += [at + PERIOD - now.monotonic] if failure else []
        if failure:
            progress.notes[_job_name(flow, step)] = "ProbePending", f"waits for {failure}"
        return not failure

    def _event(
        self, flow: Manifest, reason: str, text: str, now: Instant, *, warning: bool = True
    ) -> Iterable[Create]:
        return self._recorder.once(flow, JOB_FLOW, reason, text, now, warning=warning)


@dataclass(frozen=True, slots=True)
class _Rejection:
    """A job that the API server has rejected, and the monotonic time from which it is created again."""

    job: Manifest
    message: str
    failures: int
    due: float


@dataclass(slots=True)
class _Progress:
    """The writes for the steps of a flow, in the order in which they are done."""

    events: list[Operation] = field(default_factory=list)
    removals: list[Operation] = field(default_factory=list)
    probes: list[Operation] = field(default_factory=list)
    creations: list[Operation] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    # By job: reason and message while it is not created.
    notes: dict[str, tuple[str, str]] = field(default_factory=dict)
    # By failed job that is created again: the number of the retry.
    retries: dict[str, int] = field(default_factory=dict)


def _retry(
    flow: Manifest, job: Manifest, template: Manifest | None, progress: _Progress, now: Instant
) -> None:
    """Deletes a failed job that has retries left after a back-off, so that it is created again.

    The number of the retry is written to the status first: a controller that starts meanwhile continues.
    """
    if _phase(job) != "Failed":
        return
    name, number = key_of(job).name, whole_number(annotations_of(job).get(RETRY_NUMBER, "")) or 0
    limit = whole_number(annotations_of(template or {"metadata": {}}).get(RETRIES, "")) or 0
    recorded = _histories(flow).get(name, {}).get("retries", 0)
    if recorded <= number:
        if number >= limit:
            return
        delay = RETRY_DELAYS.delay(number)
        failed_at = ((job.get("status") or {}).get("state") or {}).get("lastTransitionTime")
        # The clock may have been set back since.
        left = min(parse_timestamp(failed_at) + delay - now.wall, delay) if failed_at else 0.0
        if left > 0:
            progress.retries[name] = recorded
            progress.waits.append(left)
            return
    progress.retries[name] = max(recorded, number + 1)
    if not is_deleting(job):
        progress.removals.append(_removal(job))


def _templates(flow: Manifest) -> Iterable[Key]:
    namespace = key_of(flow).namespace
    return [Key(namespace, step["name"]) for step in _steps(flow)]


def _jobs(flow: Manifest) -> Iterable[Key]:
    """The names of a flow's jobs, created or not."""
    return [Key(key_of(flow).namespace, _job_name(flow, step)) for step in _steps(flow)]


def _job_name(flow: Manifest, step: Manifest) -> str:
    return f"{key_of(flow).name}-{step['name']}"


def _histories(flow: Manifest) -> dict[str, Manifest]:
    return {entry["name"]: entry for entry in (flow.get("status") or {}).get("jobStatusList") or ()}


def _steps(flow: Manifest) -> list[Manifest]:
    """The flows of a JobFlow; of two with the same name the last counts, in the place of the first."""
    return list({step["name"]: step for step in (flow.get("spec") or {}).get("flows") or ()}.values())


def _removal(job: Manifest) -> Delete:
    return Delete(JOB, key_of(job), Options(propagation="Background", uid=uid_of(job)), if_present=True)


def _job(flow: Manifest, step: Manifest, template: Manifest, name: str) -> Manifest:
    namespace = key_of(flow).namespace
    retry = _histories(flow).get(name, {}).get("retries", 0)
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
            "annotations": {
                **user_annotation(flow),
                **marks,
                **({RETRY_NUMBER: str(retry)} if retry else {}),
            },
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


def _status(flow: Manifest, jobs: dict[str, Manifest], progress: _Progress, now: Instant) -> Manifest:
    """The status of a flow. Jobs that may be created again keep their last entry."""
    status: Manifest = {name: [] for name in [*LISTS.values(), "unKnowJobs"]}
    for name in sorted(jobs):
        phase = _phase(jobs[name]) or "Pending"
        if phase not in UNLISTED:
            status[LISTS.get(phase, "unKnowJobs")].append(name)
    histories, steps = _histories(flow), {key.name for key in _jobs(flow)}
    status["jobStatusList"] = [
        _job_status(jobs[name], histories.get(name), progress.retries.get(name, 0), now)
        if name in jobs
        else histories[name]
        for name in sorted(jobs.keys() | (steps & histories.keys()))
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
    for name, (reason, message) in sorted(progress.notes.items()):
        status["conditions"][name] = {"reason": reason, "message": message}
    status["state"] = {"phase": _next_phase(flow, status, progress)}
    return {name: value for name, value in status.items() if value}


def _next_phase(flow: Manifest, status: Manifest, progress: _Progress) -> str:
    phase = _phase(flow) or "Pending"
    broken = {*status["failedJobs"], *status["terminatedJobs"]} - progress.retries.keys()
    wanted = {key.name for key in _jobs(flow)}
    if phase == "Succeed":
        return phase
    if broken:
        return "Failed"
    if wanted and wanted <= set(status["completedJobs"]):
        return "Succeed"
    started = status["runningJobs"] or status["completedJobs"] or progress.retries
    return "Running" if started or phase == "Running" else "Pending"


def _job_status(job: Manifest, known: Manifest | None, retries: int, now: Instant) -> Manifest:
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
    if retries := max(retries, (known or {}).get("retries", 0)):
        status["retries"] = retries
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
