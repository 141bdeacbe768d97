"""Explanation of a pod: why it has this node, or why it has none."""

import msgspec

from volcano.analysis.explain.case import Case, Data, counted, diagnosis_data, shown_name, user_of
from volcano.analysis.explain.nodes import ranking, reasons
from volcano.analysis.explain.sentences import summary
from volcano.kube.api.kinds import POD
from volcano.kube.client.protocol import Event, EventType
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.session import Session

MOST_RUNNERS_UP = 5
MOST_NODES = 100


def explain_pod(case: Case, task: Task, *, everything: bool = False) -> Data:
    """The node of a pod with the scores of the plugins and the runners-up, or its diagnosis; with `everything`, all
    nodes."""
    job = case.snapshot.jobs.get(task.job)
    found: Data = {
        "kind": "PodExplanation",
        "pod": task.key,
        "job": shown_name(task.job) if task.job else "",
        "queue": job.queue if job is not None else "",
        "user": user_of(job) if job is not None else "",
        "priority": task.priority,
        "status": str(task.status),
        "node": task.node,
        "requests": case.amounts(task.request),
    }
    if job is None:
        found["summary"] = _foreign(task)
    elif task.node:
        found |= _placed(case, task, job.queue, MOST_NODES if everything else MOST_RUNNERS_UP + 1)
    elif task.status is Status.PENDING:
        found |= _pending(case, task, job.queue)
    else:
        found["summary"] = f"{task.name} is {str(task.status).lower()}."
    return found


def _foreign(task: Task) -> str:
    if task.node:
        return f"{task.name} was placed on {task.node} by the scheduler {task.scheduler!r}, which decides about it."
    return f"{task.name} belongs to a PodGroup or queue that does not exist."


def _placed(case: Case, task: Task, queue: str, most: int) -> Data:
    """The ranking of nodes for a pod, computed on the cluster as it is now without the pod."""
    state = case.state.with_events([Event(EventType.DELETED, POD, task)])
    session = Session(state.snapshot(), case.config)
    asking = msgspec.structs.replace(task, node="", status=Status.PENDING)
    ranked = list(ranking(case, session, asking, queue))
    place = next((rank for rank, each in enumerate(ranked) if each["node"] == task.node), None)
    name = task.name
    if place is None:
        row = session.nodes.row(task.node)
        why = reasons(session, asking, queue)[row] if row is not None else "the node does not exist any more"
        text = f"{name} runs on {task.node}; it would not be placed there now: {why}."
    elif place == 0:
        others = (
            f"{counted(len(ranked) - 1, 'other node')} could take it"
            if len(ranked) > 1
            else "no other node could take it"
        )
        text = f"{name} runs on {task.node}, which is also the best node now; {others}."
    else:
        text = f"{name} runs on {task.node}, now number {place + 1} of {len(ranked)}; the best is {ranked[0]['node']}."
    return {
        "summary": text,
        "basis": "scores are computed for the cluster as it is now, without this pod",
        "rank": None if place is None else place + 1,
        "feasible": len(ranked),
        "ranking": _shown(ranked, place, most),
    }


def _shown(ranked: list[Data], place: int | None, most: int) -> list[Data]:
    """The best nodes, and the node of the pod where it is further down."""
    listed = [{"place": rank + 1, **each} for rank, each in enumerate(ranked)]
    best = listed[:most]
    if place is not None and place >= most:
        best.append(listed[place])
    return best


def _pending(case: Case, task: Task, queue: str) -> Data:
    diagnosis = case.diagnoses.get(task.job)
    session = case.session
    found: Data = {}
    if diagnosis is None:
        found["summary"] = f"{task.name} is placed by the next cycle."
        return found
    found["summary"] = summary(task.name, diagnosis)
    found["diagnosis"] = diagnosis_data(diagnosis)
    why = reasons(session, task, queue)
    counts: dict[str, int] = {}
    for reason in why:
        counts[reason] = counts.get(reason, 0) + 1
    room = counts.pop("", 0)
    found["nodes"] = {"total": len(why), "withRoom": room, "reasons": counts}
    return found
