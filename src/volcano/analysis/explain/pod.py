"""Explanation of a pod: why it has this node, or why it has none."""

from collections import Counter
from dataclasses import replace

import msgspec

from volcano.analysis.explain.case import Case, counted, shown_name
from volcano.analysis.explain.explanations import Diagnosis, NodeScore, Placement, PodExplanation, PodNodes
from volcano.analysis.explain.nodes import ranking, reasons
from volcano.analysis.explain.sentences import summary
from volcano.kube.api.kinds import POD
from volcano.kube.client.protocol import Event, EventType
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.session import Session

MOST_RUNNERS_UP = 5
MOST_NODES = 100


def explain_pod(case: Case, task: Task, *, everything: bool = False) -> PodExplanation:
    """The node of a pod with the scores of the plugins and the runners-up, or its diagnosis; with `everything`, all
    nodes. Without details and history."""
    job = case.snapshot.jobs.get(task.job)
    found = PodExplanation(
        pod=task.key,
        job=shown_name(task.job) if task.job else "",
        queue=job.queue if job is not None else "",
        user=job.user if job is not None else "",
        priority=task.priority,
        status=str(task.status),
        node=task.node,
        requests=case.amounts(task.request),
        summary=f"{task.name} is {str(task.status).lower()}.",
        evictions=(),
        history=(),
        notes=case.notes,
    )
    if job is None:
        return replace(found, summary=_foreign(task))
    if task.node:
        return _placed(found, case, task, job.queue, MOST_NODES if everything else MOST_RUNNERS_UP + 1)
    return _pending(found, case, task, job.queue) if task.status is Status.PENDING else found


def _foreign(task: Task) -> str:
    if task.node:
        return f"{task.name} was placed on {task.node} by the scheduler {task.scheduler!r}, which decides about it."
    return f"{task.name} belongs to a PodGroup or queue that does not exist."


def _placed(found: PodExplanation, case: Case, task: Task, queue: str, most: int) -> PodExplanation:
    """The ranking of nodes for a pod, computed on the cluster as it is now without the pod."""
    state = case.state.with_events([Event(EventType.DELETED, POD, task)])
    session = Session(state.snapshot(), case.config)
    asking = msgspec.structs.replace(task, node="", status=Status.PENDING)
    ranked = list(ranking(case, session, asking, queue))
    place = next((rank for rank, each in enumerate(ranked) if each.node == task.node), None)
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
        text = f"{name} runs on {task.node}, now number {place + 1} of {len(ranked)}; the best is {ranked[0].node}."
    placement = Placement(
        "scores are computed for the cluster as it is now, without this pod",
        None if place is None else place + 1,
        len(ranked),
        _shown(ranked, place, most),
    )
    return replace(found, summary=text, placement=placement)


def _shown(ranked: list[NodeScore], place: int | None, most: int) -> tuple[NodeScore, ...]:
    """The best nodes, and the node of the pod where it is further down."""
    listed = [replace(each, place=rank) for rank, each in enumerate(ranked, 1)]
    further = () if place is None or place < most else (listed[place],)
    return (*listed[:most], *further)


def _pending(found: PodExplanation, case: Case, task: Task, queue: str) -> PodExplanation:
    diagnosis = case.diagnoses.get(task.job)
    if diagnosis is None:
        return replace(found, summary=f"{task.name} is placed by the next cycle.")
    counts = Counter(reasons(case.session, task, queue))
    total, room = counts.total(), counts.pop("", 0)
    return replace(
        found,
        summary=summary(task.name, diagnosis),
        diagnosis=Diagnosis.of(diagnosis),
        nodes=PodNodes(total, room, dict(counts)),
    )
