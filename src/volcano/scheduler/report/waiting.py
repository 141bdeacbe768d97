"""Final diagnoses: jobs that wait at the end of a cycle, why, also where no action recorded it, and since when."""

import msgspec

from volcano.base.clock import parse_timestamp
from volcano.model.job import Job, Orphans, PodGroup
from volcano.model.status import Status
from volcano.scheduler.engine.diagnosis import Diagnosis
from volcano.scheduler.engine.diagnosis.codes import Code, DiagnosisClass
from volcano.scheduler.engine.session import Session

STAGE = "gang"
UNSCHEDULABLE = "Unschedulable"  # type of the condition


def final_diagnoses(session: Session) -> dict[str, Diagnosis]:
    """Diagnoses of the jobs that still wait at the end of the cycle, and since when they do."""
    jobs, now = session.snapshot.jobs, session.snapshot.now
    final: dict[str, Diagnosis] = {}
    for uid in {**session.diagnoses.by_job, **dict.fromkeys(session.snapshot.active)}:
        job = jobs.get(uid)
        if job is not None and _waits(session, job):
            why = conclusion(session, job)
            final[uid] = msgspec.structs.replace(why, since=since(job.group, why.code, now))
    for uid, orphans in session.snapshot.orphans.items():
        why = orphaned(uid, orphans)
        final[uid] = msgspec.structs.replace(why, since=since(orphans.group, why.code, now))
    return final


def _waits(session: Session, job: Job) -> bool:
    if job.uid in session.faults or session.ledger.phase(job) == "Pending":
        return True
    counts = session.ledger.tally(job).counts
    return counts[Status.PENDING] + counts[Status.PIPELINED] > 0 or not session.policy.job_ready(job)


def conclusion(session: Session, job: Job) -> Diagnosis:
    """Why a job waits at the end of a cycle: what was recorded, unless pods are being evicted for it by now; without a
    record, an obstacle outside the scheduler or something under way."""
    known = session.diagnoses.by_job.get(job.uid)
    if known is None:
        return _progress(session, job)
    pipelined = session.ledger.waiting(job)
    enough = pipelined and session.ledger.ready(job) + pipelined >= job.min_available
    if enough and known.code.rank >= DiagnosisClass.POLICY.rank:
        return msgspec.structs.replace(known, code=Code.EVICTING)
    return known


def orphaned(uid: str, orphans: Orphans) -> Diagnosis:
    """Diagnosis of pods whose PodGroup or queue does not exist."""
    code = Code.POD_GROUP_NOT_FOUND if orphans.group is None else Code.QUEUE_NOT_FOUND
    queue = orphans.group.queue if orphans.group is not None else ""
    return Diagnosis(uid, "valid", orphans.message, code=code, queue=queue)


def _progress(session: Session, job: Job) -> Diagnosis:
    if job.group.malformed:
        return _of(job, Code.MALFORMED, job.group.malformed)
    pending = job.by_status.get(Status.PENDING, ())
    malformed = next((task for task in pending if task.malformed), None)
    if malformed is not None:
        return _of(job, Code.MALFORMED, malformed.malformed, malformed.name)
    counts = session.ledger.tally(job).counts
    gated = next((task for task in pending if task.gates), None)
    if gated is not None:
        text = f"waits for scheduling gates {', '.join(gated.gates)}"
        return _of(job, Code.SCHEDULING_GATED, text, gated.name)
    if counts[Status.PIPELINED]:
        return _of(job, Code.EVICTING, "waits until pods that are being deleted are gone")
    if counts[Status.ALLOCATED] or counts[Status.BINDING]:
        return _of(job, Code.BINDING, "the nodes are chosen, the pods are being bound")
    if len(job.tasks) < job.min_available:
        text = f"has {len(job.tasks)} of {job.min_available} pods"
        return _of(job, Code.WAITING_FOR_PODS, text)
    return _of(job, Code.NOT_TRIED_YET, "no action has tried to place it")


def since(group: PodGroup | None, code: Code, now: float) -> float:
    """When the job began to wait for this code: the transition of its condition, which outlives the scheduler."""
    for condition in group.conditions if group is not None else ():
        if condition.type == UNSCHEDULABLE and condition.status == "True" and condition.reason == code:
            return _parsed(condition.last_transition) or now
    return now


def _of(job: Job, code: Code, message: str, task: str = "") -> Diagnosis:
    return Diagnosis(job.uid, STAGE, message, task=task, code=code)


def _parsed(text: str) -> float:
    """Seconds since the epoch; 0 when the text is not a time."""
    try:
        return parse_timestamp(text)
    except ValueError:
        return 0.0
