"""Closing a cycle: what was decided, and what PodGroups, pods and queues should say about it."""

from collections.abc import Iterator, Mapping

from volcano.kube import names
from volcano.model import resources
from volcano.model.decisions import (
    Bind,
    Decision,
    Evict,
    Nominate,
    RecordEvent,
    SetPodCondition,
    SetPodGroup,
    SetQueue,
)
from volcano.model.job import Condition, Job
from volcano.model.queue import Queue
from volcano.model.resources import Vector
from volcano.model.status import COMPLETED, SCHEDULED, Status
from volcano.model.task import Task
from volcano.scheduler.engine.diagnosis import Diagnosis, FitError
from volcano.scheduler.engine.ledger import Eviction, Placement
from volcano.scheduler.engine.session import Session

READY = "tasks in gang are ready to be scheduled"
NOT_ENOUGH = "NotEnoughResources"


def decisions(session: Session) -> Iterator[Decision]:
    """Everything to be written, bindings and evictions first."""
    yield from _changes(session)
    for uid in _concerned(session):
        job = session.snapshot.jobs.get(uid)
        if job is None:
            continue
        said: list[Decision] = []
        with session.inquiry(job):
            said = list(_about_job(session, job))
        # When a plugin failed on it just now, that is what is said instead.
        yield from said or (_about_job(session, job) if uid in session.faults else ())
    yield from session.gates
    yield from session.events
    yield from _queues(session)


def _changes(session: Session) -> Iterator[Decision]:
    name_of, annotations = session.nodes.name, session.ledger.annotations
    for change in session.ledger.committed:
        match change:
            case Placement(tasks, rows, Status.ALLOCATED):
                for task, row in zip(tasks, rows, strict=True):
                    yield Bind(
                        task.uid,
                        task.namespace,
                        task.name,
                        task.job,
                        name_of(row),
                        annotations.get(task.uid, {}),
                        session.policy.claims(task),
                    )
            case Placement(tasks, rows, _, evicting=True):
                for task, row in zip(tasks, rows, strict=True):
                    if task.nominated != name_of(row):
                        yield Nominate(task.uid, task.namespace, task.name, name_of(row))
            case Eviction(task, row, reason, on_behalf_of):
                yield Evict(task.uid, task.namespace, task.name, task.job, name_of(row), reason, on_behalf_of)


def _concerned(session: Session) -> list[str]:
    """The jobs whose status could have to change: what changed since the last cycle, or in this one, or waits."""
    jobs = session.snapshot.jobs
    concerned = dict.fromkeys(sorted(uid for uid in session.snapshot.changed if uid in jobs))
    concerned.update(dict.fromkeys(session.ledger.phases))
    for uid in (*session.diagnoses, *session.snapshot.active):
        # Of a gang that was let in and has no pods yet, the last cycle said all there is to say.
        if uid not in jobs or jobs[uid].tasks or jobs[uid].phase != "Inqueue" or uid in session.faults:
            concerned[uid] = None
    return list(concerned)


def _about_job(session: Session, job: Job) -> Iterator[Decision]:
    if job.group.implicit:
        yield from _about_pods(session, job)
        return
    condition = _condition(session, job)
    phase = _phase(session, job, unschedulable=condition is not None and condition.type == "Unschedulable")
    conditions = _merged(job, condition, session)
    counts = (job.count(Status.RUNNING), job.count(Status.SUCCEEDED), job.count(Status.FAILED))
    changed = SetPodGroup(
        job.uid,
        job.namespace,
        job.name,
        phase=phase if phase != job.phase else None,
        conditions=conditions if conditions != job.group.conditions else None,
        counts=counts if counts != job.group.counts else None,
    )
    if changed.phase is not None or changed.conditions is not None or changed.counts is not None:
        yield changed
    if changed.conditions is not None and condition is not None:
        unschedulable = condition.type == "Unschedulable"
        yield RecordEvent(
            job.uid,
            job.namespace,
            job.name,
            "Warning" if unschedulable else "Normal",
            condition.type,
            condition.message if unschedulable else "pod group is ready",
        )
    yield from _about_pods(session, job)


def _condition(session: Session, job: Job) -> Condition | None:
    """What the PodGroup should say about being schedulable; None when there is nothing to say."""
    ledger = session.ledger
    diagnosis = session.diagnoses.get(job.uid)
    if not job.tasks or ledger.phase(job) == "Pending":
        if diagnosis is None:
            return None
        return Condition("Unschedulable", "True", NOT_ENOUGH, diagnosis.message)
    if diagnosis is None or diagnosis.stage != "fault":
        if session.policy.job_ready(job):
            return Condition("Scheduled", "True", READY, "")
        if _going_over(session, job):
            return None
    tally = ledger.tally(job)
    lacking = max(job.min_available - ledger.ready(job), 0) or tally.counts[Status.PENDING]
    message = f"{lacking}/{len(job.tasks)} tasks in gang unschedulable: {_fit_text(session, job, diagnosis)}"
    return Condition("Unschedulable", "True", NOT_ENOUGH, message)


def _going_over(session: Session, job: Job) -> bool:
    """Whether the gang is merely being replaced: enough tasks run or are going, and none waits."""
    ledger = session.ledger
    tally = ledger.tally(job)
    if tally.counts[Status.PENDING] or tally.counts[Status.PIPELINED]:
        return False
    going = sum(1 for task in job.by_status.get(Status.RELEASING, ()) if task.node)
    return going > 0 and tally.count(SCHEDULED) + going >= job.min_available


def _fit_text(session: Session, job: Job, diagnosis: Diagnosis | None) -> str:
    """`pod group is not ready, 3 Pending, 3 minAvailable; Pending: 3 Unschedulable. Origin reason is train-0: …`"""
    tally = session.ledger.tally(job)
    parts = [f"{count} {Status(i)}" for i, count in enumerate(tally.counts) if count]
    parts.append(f"{job.min_available} minAvailable")
    text = f"pod group is not ready, {', '.join(sorted(parts))}"
    waiting = tally.counts[Status.PENDING]
    if waiting:
        text += f"; Pending: {waiting} Unschedulable"
    if diagnosis is not None:
        origin = f" {diagnosis.task}" if diagnosis.task else ""
        text += f". Origin reason is{origin}: {diagnosis.message}"
    return text


def _merged(job: Job, condition: Condition | None, session: Session) -> tuple[Condition, ...]:
    """The PodGroup's conditions with this one in its place; a job that is ready is no longer unschedulable."""
    if condition is None:
        return job.group.conditions
    now, mark = session.written_at, str(session.snapshot.seed)
    merged = []
    for known in job.group.conditions:
        if known.type == condition.type:
            continue
        if known.type == "Unschedulable" and known.status == "True":
            known = Condition(known.type, "False", known.reason, known.message, mark, now)
        merged.append(known)
    before = next((known for known in job.group.conditions if known.type == condition.type), None)
    same = before is not None and (before.status, before.reason, before.message) == (
        condition.status,
        condition.reason,
        condition.message,
    )
    if same and len(merged) + 1 == len(job.group.conditions) and set(merged) < set(job.group.conditions):
        return job.group.conditions
    merged.append(Condition(condition.type, condition.status, condition.reason, condition.message, mark, now))
    return tuple(merged)


def _phase(session: Session, job: Job, *, unschedulable: bool) -> str:
    """Pending → Inqueue → Running → Completed; Unknown while a gang runs only in part."""
    if unschedulable and job.count(Status.RUNNING):
        return "Unknown"
    scheduled = sum([len(tasks) for status, tasks in job.by_status.items() if status in SCHEDULED])
    scheduled += sum([1 for task in job.by_status.get(Status.RELEASING, ()) if task.node])
    if job.tasks and scheduled >= job.min_available and scheduled:
        completed = sum(job.count(status) for status in COMPLETED)
        return "Completed" if completed == scheduled else "Running"
    return "Inqueue" if session.ledger.phase(job) == "Inqueue" else "Pending"


def _about_pods(session: Session, job: Job) -> Iterator[Decision]:
    """PodScheduled=False on the tasks that wait, with why, where it is not said already."""
    ledger, diagnosis = session.ledger, session.diagnoses.get(job.uid)
    waiting = job.by_status.get(Status.PENDING, ())
    if not waiting or (diagnosis is not None and diagnosis.stage == "valid" and not job.group.implicit):
        return  # a gang that is not whole says so on its PodGroup; its pods have nothing to answer for
    fit_errors = session.fit_errors.get(job.uid, {})
    for task in waiting:
        if task.gates or ledger.is_committed(task):
            continue
        said = _said(session, task, ledger.status(task), fit_errors, diagnosis)
        if said is not None and said != task.condition:
            yield SetPodCondition(task.uid, task.namespace, task.name, said[0], said[1])


def _said(
    session: Session,
    task: Task,
    status: Status,
    fit_errors: Mapping[str, FitError],
    diagnosis: Diagnosis | None,
) -> tuple[str, str] | None:
    """Reason and message for one waiting task; None when it is being bound or nothing is known."""
    ledger = session.ledger
    row = ledger.row(task)
    if status is Status.ALLOCATED and row is not None:
        node = session.nodes.name(row)
        return (
            "Schedulable",
            f"Pod {task.key} can possibly be assigned to {node}, once minAvailable is satisfied",
        )
    if status is Status.PIPELINED and row is not None:
        node = session.nodes.name(row)
        return (
            "Unschedulable",
            f"Pod {task.key} can possibly be assigned to {node}, "
            "once resource is released and minAvailable is satisfied",
        )
    fit_error = fit_errors.get(task.uid)
    if fit_error is not None:
        return "Unschedulable", fit_error.sentence()
    if task.malformed:
        return "Unschedulable", task.malformed
    return ("Unschedulable", diagnosis.message) if diagnosis is not None else None


def _queues(session: Session) -> Iterator[Decision]:
    """status.allocated of each queue and its ancestors, as of the start of the cycle, where it is not said already."""
    snapshot = session.snapshot
    if not snapshot.changed:
        return
    sums: dict[str, Vector] = {name: totals.allocated for name, totals in snapshot.totals.items()}
    if names.ROOT_QUEUE in snapshot.queues:
        for name, totals in snapshot.totals.items():
            for ancestor in _ancestors(snapshot.queues, name):
                sums[ancestor] = sums[ancestor] + totals.allocated
    for name, vector in sums.items():
        allocated = resources.manifest(snapshot.resources, vector)
        said = snapshot.queues[name].allocated_text
        if allocated != dict(said):
            yield SetQueue(name, allocated, tuple(sorted(said.keys() - allocated.keys())))


def _ancestors(queues: Mapping[str, Queue], name: str) -> Iterator[str]:
    """The queues above one, up to the root; a chain that is broken or turns in a circle ends there."""
    seen = {name}
    while name != names.ROOT_QUEUE:
        queue = queues.get(name)
        name = (queue.parent if queue else "") or names.ROOT_QUEUE
        if name in seen or queues.get(name) is None:
            return
        seen.add(name)
        yield name
