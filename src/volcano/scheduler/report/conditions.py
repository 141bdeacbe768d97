"""Conditions: status of PodGroups, PodScheduled conditions of pods, and the events that go with them."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from volcano.model.decisions import Decision, RecordEvent, SetPodCondition, SetPodGroup
from volcano.model.job import Condition, Job, Orphans, PodGroup
from volcano.model.reservations import RESERVED
from volcano.model.status import COMPLETED, SCHEDULED, Status
from volcano.model.task import Task
from volcano.scheduler.engine.diagnosis import Diagnosis
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.session import Session
from volcano.scheduler.engine.topology.allocated import changed_annotations
from volcano.scheduler.engine.topology.demand import WITHOUT_LIMIT
from volcano.scheduler.report.queue_reservations import with_queue_reservation
from volcano.scheduler.report.waiting import conclusion

READY = "tasks in gang are ready to be scheduled"
SCHEDULABLE, UNSCHEDULABLE, GATED = "Schedulable", "Unschedulable", "SchedulingGated"
WAITING = "once minAvailable is satisfied"
WAITING_FOR_RELEASE = f"once resource is released and {WAITING.removeprefix('once ')}"
MISSING = "does not exist"  # end of the message about a PodGroup or queue
WAITING_FOR_ADMISSION = "waiting for the PodGroup to be admitted"
BIND_FAILED = "SchedulerError"  # reason of the condition that write-back sets on a pod that it cannot bind


def job_status(session: Session, job: Job) -> Iterator[Decision]:
    """Changes of a job's PodGroup status and of its pods' conditions, and the event about it."""
    if job.group.implicit:
        yield from _pod_conditions(session, job)
        return
    condition = _condition(session, job)
    phase = _phase(session, job, unschedulable=condition is not None and condition.type == "Unschedulable")
    merged = _merged(job.group, condition, session)
    conditions, reserved = _with_reservation(session, job, merged)
    conditions = with_queue_reservation(session, job, conditions)
    counts = (job.count(Status.RUNNING), job.count(Status.SUCCEEDED), job.count(Status.FAILED))
    changed = SetPodGroup(
        job.uid,
        job.namespace,
        job.name,
        phase=phase if phase != job.phase else None,
        conditions=conditions if conditions != job.group.conditions else None,
        counts=counts if counts != job.group.counts else None,
        annotations=changed_annotations(session, job),
    )
    fields = (changed.phase, changed.conditions, changed.counts, changed.annotations)
    if any(field is not None for field in fields):
        yield changed
    if reserved is not None:
        uid = job.group.object_uid
        yield RecordEvent(job.uid, job.namespace, job.name, "Normal", RESERVED, reserved.message, uid)
    if merged != job.group.conditions and condition is not None:
        unschedulable = condition.type == "Unschedulable"
        yield RecordEvent(
            job.uid,
            job.namespace,
            job.name,
            "Warning" if unschedulable else "Normal",
            condition.type,
            condition.message if unschedulable else "pod group is ready",
            job.group.object_uid,
        )
        yield from _topology_warning(session, job)
    yield from _pod_conditions(session, job)


def _with_reservation(
    session: Session, job: Job, conditions: tuple[Condition, ...]
) -> tuple[tuple[Condition, ...], Condition | None]:
    """Conditions with the one about what is reserved for the job; and that one if it was not true before."""
    found = session.policy.job_condition(job)
    known = next((each for each in conditions if each.type == RESERVED), None)
    was_true = known is not None and known.status == "True"
    if found is None:
        if not was_true or known is None:
            return conditions, None
        found = replace(known, status="False")
    elif known is not None and (known.status, known.reason, known.message) == (
        found.status,
        found.reason,
        found.message,
    ):
        return conditions, None
    marked = replace(found, transition_id=str(session.snapshot.seed), last_transition=session.written_at)
    others = tuple(each for each in conditions if each.type != RESERVED)
    return (*others, marked), found if found.status == "True" and not was_true else None


def _topology_warning(session: Session, job: Job) -> Iterator[Decision]:
    """Warns once, with the first condition, that a network topology does not say what it means."""
    demand = session.topology.demand(job)
    if demand is not None and demand.without_limit and not job.group.conditions:
        group = job.group
        yield RecordEvent(
            job.uid, job.namespace, job.name, "Warning", "NetworkTopology", WITHOUT_LIMIT, group.object_uid
        )


def orphan_status(session: Session, orphans: Orphans) -> Iterator[Decision]:
    """Conditions of pods whose PodGroup or queue does not exist, and of the PodGroup, where they differ."""
    for task in orphans.tasks:
        if not task.gates and task.condition != (UNSCHEDULABLE, orphans.message):
            yield SetPodCondition(task.uid, task.namespace, task.name, UNSCHEDULABLE, orphans.message)
    group = orphans.group
    if group is None:
        return
    condition = Condition("Unschedulable", "True", Code.QUEUE_NOT_FOUND, orphans.message)
    conditions = _merged(group, condition, session)
    if conditions != group.conditions:
        uid = f"{group.namespace}/{group.name}"
        yield SetPodGroup(uid, group.namespace, group.name, conditions=conditions)
        yield RecordEvent(
            uid, group.namespace, group.name, "Warning", "Unschedulable", orphans.message, group.object_uid
        )


def _condition(session: Session, job: Job) -> Condition | None:
    """Scheduled or Unschedulable condition of the PodGroup; None when neither applies."""
    ledger = session.ledger
    diagnosis = session.diagnoses.by_job.get(job.uid)
    if not job.tasks or ledger.phase(job) == "Pending":
        if diagnosis is None:
            return None
        return Condition("Unschedulable", "True", diagnosis.code, diagnosis.message)
    if diagnosis is None or diagnosis.stage != "fault":
        if session.policy.job_ready(job):
            return _ready_condition(session, job)
        if _is_replaced(session, job):
            return None
    waiting = _pending_by_reason(session, job)
    lacking = waiting[UNSCHEDULABLE] or waiting[GATED] or max(job.min_available - ledger.ready(job), 0)
    text = _fit_text(session, job, diagnosis, waiting)
    message = f"{lacking}/{len(job.tasks)} tasks in gang unschedulable: {text}"
    code = conclusion(session, job).code
    return Condition("Unschedulable", "True", code, message)


def _ready_condition(session: Session, job: Job) -> Condition | None:
    """Scheduled once enough bindings are confirmed; Unschedulable when one of the others was rejected."""
    bound = sum(job.count(status) for status in SCHEDULED)
    unconfirmed = [*job.by_status.get(Status.BINDING, ())]
    unconfirmed += [
        task for task in job.by_status.get(Status.PENDING, ()) if session.ledger.is_committed(task)
    ]
    if bound >= job.min_available or not unconfirmed:
        return Condition("Scheduled", "True", READY, "")
    rejected = [task for task in unconfirmed if task.condition[0] == BIND_FAILED]
    if not rejected:
        return None
    origin = f"Origin reason is {rejected[0].name}: {rejected[0].condition[1]}"
    message = f"{len(rejected)}/{len(job.tasks)} tasks in gang not bound: pod group is not ready. {origin}"
    return Condition("Unschedulable", "True", Code.BINDING, message)


def _pending_by_reason(session: Session, job: Job) -> Counter[str]:
    """Number of pending tasks that could be placed, that cannot, and that have scheduling gates."""
    schedulable, ledger = session.diagnoses.schedulable.get(job.uid, {}), session.ledger
    counted: Counter[str] = Counter()
    for task in job.by_status.get(Status.PENDING, ()):
        if task.gates:
            counted[GATED] += 1
        elif task.uid in schedulable:
            counted[SCHEDULABLE] += 1
        elif ledger.status(task) is Status.PENDING:
            counted[UNSCHEDULABLE] += 1
    return counted


def _is_replaced(session: Session, job: Job) -> bool:
    """Whether pods of a complete gang are only being replaced: enough run or terminate, and none is pending."""
    ledger = session.ledger
    tally = ledger.tally(job)
    if tally.counts[Status.PENDING] or tally.counts[Status.PIPELINED]:
        return False
    terminating = sum(1 for task in job.by_status.get(Status.RELEASING, ()) if task.node)
    return terminating > 0 and tally.count(SCHEDULED) + terminating >= job.min_available


def _fit_text(session: Session, job: Job, diagnosis: Diagnosis | None, waiting: Counter[str]) -> str:
    """`pod group is not ready, 3 Pending, 3 minAvailable; Pending: 2 Schedulable, 1 Unschedulable. Origin reason is
    train-0: …`"""
    tally = session.ledger.tally(job)
    parts = [f"{count} {Status(i)}" for i, count in enumerate(tally.counts) if count]
    parts.append(f"{job.min_available} minAvailable")
    text = f"pod group is not ready, {', '.join(sorted(parts))}"
    if waiting:
        text += f"; Pending: {', '.join(f'{count} {reason}' for reason, count in sorted(waiting.items()))}"
    if diagnosis is not None:
        origin = f" {diagnosis.task}" if diagnosis.task else ""
        text += f". Origin reason is{origin}: {diagnosis.message}"
    elif gated := next((task for task in job.by_status.get(Status.PENDING, ()) if task.gates), None):
        text += f". Origin reason is {gated.name}: waits for scheduling gates {', '.join(gated.gates)}"
    return text


def _merged(group: PodGroup, condition: Condition | None, session: Session) -> tuple[Condition, ...]:
    """Conditions of the PodGroup with this one replaced; Scheduled and Unschedulable set each other to False."""
    if condition is None:
        return group.conditions
    now, mark = session.written_at, str(session.snapshot.seed)
    merged = []
    for known in group.conditions:
        if known.type == condition.type:
            continue
        if known.type in ("Scheduled", "Unschedulable") and known.status == "True":
            known = Condition(known.type, "False", known.reason, known.message, mark, now)
        merged.append(known)
    before = next((known for known in group.conditions if known.type == condition.type), None)
    same = before is not None and (before.status, before.reason, before.message) == (
        condition.status,
        condition.reason,
        condition.message,
    )
    if same and len(merged) + 1 == len(group.conditions) and set(merged) < set(group.conditions):
        return group.conditions
    began = now
    if before is not None and (before.status, before.reason) == (condition.status, condition.reason):
        began = before.last_transition or now  # since when the job waits for this code
    merged.append(
        Condition(condition.type, condition.status, str(condition.reason), condition.message, mark, began)
    )
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
    ledger, diagnosis = session.ledger, session.diagnoses.by_job.get(job.uid)
    waiting = job.by_status.get(Status.PENDING, ())
    incomplete = diagnosis is not None and diagnosis.stage == "valid" and not job.group.implicit
    for task in waiting:
        if task.gates or ledger.is_committed(task):
            continue
        if incomplete and not task.condition[1].endswith(MISSING):
            continue  # an incomplete gang is reported on its PodGroup only
        wanted = _reason_and_message(session, job, task, diagnosis)
        if wanted is not None and not _is_known(task, wanted):
            yield SetPodCondition(task.uid, task.namespace, task.name, wanted[0], wanted[1])


def _is_known(task: Task, wanted: tuple[str, str]) -> bool:
    """Whether the pod has this condition. Another node that it could be assigned to is no news."""
    reason, message = task.condition
    if task.condition == wanted:
        return True
    for waiting in (WAITING_FOR_RELEASE, WAITING):
        if wanted[1].endswith(waiting):
            return reason == wanted[0] and message.endswith(waiting)
    return False


def _reason_and_message(
    session: Session, job: Job, task: Task, diagnosis: Diagnosis | None
) -> tuple[str, str] | None:
    """Reason and message for one pending task; None when none is known."""
    ledger = session.ledger
    row, status = ledger.row(task), ledger.status(task)
    if row is not None and status in (Status.ALLOCATED, Status.PIPELINED):
        return _assignable(task, session.nodes.name(row), pipelined=status is Status.PIPELINED)
    if task.malformed:
        return UNSCHEDULABLE, task.malformed
    found = session.diagnoses.schedulable.get(job.uid, {}).get(task.uid)
    if found is not None:
        return _assignable(task, found.node, pipelined=found.pipelined)
    fit_error = session.diagnoses.fit_errors.get(job.uid, {}).get(task.uid)
    if fit_error is not None:
        return UNSCHEDULABLE, fit_error.sentence()
    if diagnosis is not None:
        return UNSCHEDULABLE, diagnosis.message
    return (UNSCHEDULABLE, WAITING_FOR_ADMISSION) if task.condition[1].endswith(MISSING) else None


def _assignable(task: Task, node: str, *, pipelined: bool) -> tuple[str, str]:
    """Reason and message for a task that fits on a node and waits for resources or for its gang."""
    reason = UNSCHEDULABLE if pipelined else SCHEDULABLE
    waiting = WAITING_FOR_RELEASE if pipelined else WAITING
    return reason, f"Pod {task.key} can possibly be assigned to {node}, {waiting}"
