"""Explanation of a job: the summary, the steps, its position, and the nodes by reason."""

from collections import Counter
from collections.abc import Sequence

from volcano.analysis.explain import explanations
from volcano.analysis.explain.case import Case, requests, shown_name
from volcano.analysis.explain.details import details
from volcano.analysis.explain.explanations import (
    JobExplanation,
    JobLine,
    OrphanJob,
    PodCounts,
    Position,
)
from volcano.analysis.explain.sentences import BEGINNINGS, summary
from volcano.analysis.explain.steps import first_pending, room_now, steps
from volcano.model.decisions import Bind
from volcano.model.job import Job
from volcano.model.status import READY, Status
from volcano.scheduler.engine.diagnosis import Diagnosis
from volcano.scheduler.engine.diagnosis.codes import Code

MOST_AHEAD = 5


def explain_job(case: Case, uid: str, parts: Sequence[str] = ()) -> JobExplanation:
    """Everything about a job that one screen shows, without outlook and history; `parts` are those with details."""
    job = case.snapshot.jobs.get(uid)
    diagnosis = case.diagnoses.get(uid)
    if job is None:
        return _orphan(case, uid, diagnosis, parts)
    state = _state(case, job, diagnosis)
    waits = state == "waiting"
    reserved = job.condition.get("Reserved")
    is_reserved = waits and reserved is not None and reserved.status == "True"
    return JobExplanation(
        job=shown_name(uid),
        pod_group=uid,
        queue=job.queue,
        user=job.user,
        priority=job.priority,
        phase=job.phase or "Pending",
        pods=_pods(case, job),
        requests=case.amounts(requests(job)),
        state=state,
        summary=_sentence(case, job, diagnosis, state),
        diagnosis=explanations.Diagnosis.of(diagnosis) if diagnosis is not None else None,
        steps=steps(case, job, diagnosis) if waits else (),
        position=position(case, job) if waits else None,
        reserved=reserved.message if is_reserved and reserved is not None else "",
        nodes=None if waits else Counter(task.node for task in job.tasks.values() if task.node),
        details=details(case, uid, parts),
        history=(),
        notes=case.notes,
    )


def _orphan(case: Case, uid: str, diagnosis: Diagnosis | None, parts: Sequence[str]) -> OrphanJob:
    name = shown_name(uid)
    return OrphanJob(
        job=name,
        pod_group=uid,
        state="waiting",
        steps=(),
        queue=diagnosis.queue if diagnosis is not None else "",
        summary=summary(name.partition("/")[2], diagnosis) if diagnosis is not None else "",
        diagnosis=explanations.Diagnosis.of(diagnosis) if diagnosis is not None else None,
        details=details(case, uid, parts),
        history=(),
        notes=case.notes,
    )


def _pods(case: Case, job: Job) -> PodCounts:
    expected = len(case.state.pods_to_come.get(job.uid, ()))
    counts = {str(status): len(tasks) for status, tasks in sorted(job.by_status.items())}
    return PodCounts(job.min_available, len(job.tasks) or expected, counts)


def _state(case: Case, job: Job, diagnosis: Diagnosis | None) -> str:
    """`starting` when the next cycle places it, else `waiting`, `running` or `finished`."""
    if diagnosis is None:
        placed = any(isinstance(each, Bind) and each.job == job.uid for each in case.outcome.decisions)
        if placed:
            return "starting"
        live = [status for status in job.by_status if status not in (Status.SUCCEEDED, Status.FAILED)]
        return "running" if live or not job.tasks else "finished"
    return "waiting"


def _sentence(case: Case, job: Job, diagnosis: Diagnosis | None, state: str) -> str:
    name = shown_name(job.uid).partition("/")[2]
    ready = sum(job.count(status) for status in READY)
    if diagnosis is not None:
        running = job.count(Status.RUNNING)
        if running and ready >= job.min_available:
            waiting = job.count(Status.PENDING)
            return f"{name} runs with {running} pods; {waiting} more wait. {summary('The rest', diagnosis)}"
        return _for_the_gang(case, job, name, diagnosis) or summary(name, diagnosis)
    if state == "starting":
        return f"{name} is placed by the next cycle."
    nodes = {task.node for task in job.tasks.values() if task.node}
    if state == "finished":
        return f"{name} has finished."
    return f"{name} runs: {ready} of {len(job.tasks)} pods have a node, on {len(nodes)} nodes."


def _for_the_gang(case: Case, job: Job, name: str, diagnosis: Diagnosis) -> str:
    """Summary on a gang of which some pods would fit, but not enough of them; "" for other jobs."""
    task, needed = first_pending(job), max(case.session.policy.job_short(job), 1)
    if diagnosis.code is not Code.INSUFFICIENT_RESOURCES or task is None or needed < 2:
        return ""
    room = room_now(case, job, task)
    if not 0 < room < needed:
        return ""
    request = ", ".join(f"{resource} {amount}" for resource, amount in case.amounts(task.request).items())
    begin = (
        f"{name} {BEGINNINGS[diagnosis.diagnosis_class]}: the nodes have room for {room} of the {needed} pods"
    )
    return f"{begin} that start together, each with {request}."


def position(case: Case, job: Job) -> Position:
    """Place of a waiting job among those of its queue, in the order of the policy, and the jobs ahead of it."""
    policy, jobs = case.session.policy, case.snapshot.jobs
    waiting = [jobs[uid] for uid in case.diagnoses if uid in jobs and jobs[uid].queue == job.queue]
    ordered = sorted(waiting, key=policy.job_order)
    place = next((rank for rank, each in enumerate(ordered) if each.uid == job.uid), 0)
    ahead = [job_line(case, each) for each in ordered[:place]]
    more, pods = max(len(ahead) - MOST_AHEAD, 0), sum(each.pods for each in ahead)
    return Position(place + 1, len(ordered), tuple(ahead[:MOST_AHEAD]), more, pods)


def job_line(case: Case, job: Job) -> JobLine:
    """A job in a list: name, user and size."""
    diagnosis = case.diagnoses.get(job.uid)
    expected = len(case.state.pods_to_come.get(job.uid, ()))
    return JobLine(
        shown_name(job.uid),
        job.user,
        max(job.min_available, len(job.tasks), expected),
        case.amounts(requests(job)),
        job.priority,
        str(diagnosis.code) if diagnosis is not None else "",
    )
