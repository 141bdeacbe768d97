"""Conditions: status of PodGroups, PodScheduled conditions of pods, and the events that go with them."""

from collections.abc import Iterator, Mapping

from volcano.model.decisions import Decision, RecordEvent, SetPodCondition, SetPodGroup
from volcano.model.job import Condition, Job
from volcano.model.status import COMPLETED, SCHEDULED, Status
from volcano.model.task import Task
from volcano.scheduler.engine.diagnosis import Diagnosis, FitError
from volcano.scheduler.engine.session import Session

READY = "tasks in gang are ready to be scheduled"
NOT_ENOUGH = "NotEnoughResources"


def job_status(session: Session, job: Job) -> Iterator[Decision]:
    """Changes of a job's PodGroup status and of its pods' conditions, and the event about it."""
    if job.group.implicit:
        yield from _pod_conditions(session, job)
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
    yield from _pod_conditions(session, job)


def _condition(session: Session, job: Job) -> Condition | None:
    """Scheduled or Unschedulable condition of the PodGroup; None when neither applies."""
    ledger = session.ledger
    diagnosis = session.diagnoses.get(job.uid)
    if not job.tasks or ledger.phase(job) == "Pending":
        if diagnosis is None:
            return None
        return Condition("Unschedulable", "True", NOT_ENOUGH, diagnosis.message)
    if diagnosis is None or diagnosis.stage != "fault":
        if session.policy.job_ready(job):
            return Condition("Scheduled", "True", READY, "")
        if _is_replaced(session, job):
            return None
    tally = ledger.tally(job)
    lacking = max(job.min_available - ledger.ready(job), 0) or tally.counts[Status.PENDING]
    message = f"{lacking}/{len(job.tasks)} tasks in gang unschedulable: {_fit_text(session, job, diagnosis)}"
    return Condition("Unschedulable", "True", NOT_ENOUGH, message)


def _is_replaced(session: Session, job: Job) -> bool:
    """Whether pods of a complete gang are only being replaced: enough run or terminate, and none is pending."""
    ledger = session.ledger
    tally = ledger.tally(job)
    if tally.counts[Status.PENDING] or tally.counts[Status.PIPELINED]:
        return False
    terminating = sum(1 for task in job.by_status.get(Status.RELEASING, ()) if task.node)
    return terminating > 0 and tally.count(SCHEDULED) + terminating >= job.min_available


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
    """Conditions of the PodGroup with this one replaced; Scheduled sets Unschedulable to False."""
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
    """Phase of the PodGroup: Pending → Inqueue → Running → Completed; Unknown while only part of the gang runs."""
    if unschedulable and job.count(Status.RUNNING):
        return "Unknown"
    scheduled = sum([len(tasks) for status, tasks in job.by_status.items() if status in SCHEDULED])
    scheduled += sum([1 for task in job.by_status.get(Status.RELEASING, ()) if task.node])
    if job.tasks and scheduled >= job.min_available and scheduled:
        completed = sum(job.count(status) for status in COMPLETED)
        return "Completed" if completed == scheduled else "Running"
    return "Inqueue" if session.ledger.phase(job) == "Inqueue" else "Pending"


def _pod_conditions(session: Session, job: Job) -> Iterator[Decision]:
    """PodScheduled=False with a reason for the pending pods, where it differs from the current condition."""
    ledger, diagnosis = session.ledger, session.diagnoses.get(job.uid)
    waiting = job.by_status.get(Status.PENDING, ())
    if not waiting or (diagnosis is not None and diagnosis.stage == "valid" and not job.group.implicit):
        return  # an incomplete gang is reported on its PodGroup only
    fit_errors = session.fit_errors.get(job.uid, {})
    for task in waiting:
        if task.gates or ledger.is_committed(task):
            continue
        wanted = _reason_and_message(session, task, ledger.status(task), fit_errors, diagnosis)
        if wanted is not None and wanted != task.condition:
            yield SetPodCondition(task.uid, task.namespace, task.name, wanted[0], wanted[1])


def _reason_and_message(
    session: Session,
    task: Task,
    status: Status,
    fit_errors: Mapping[str, FitError],
    diagnosis: Diagnosis | None,
) -> tuple[str, str] | None:
    """Reason and message for one pending task; None when none is known."""
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
