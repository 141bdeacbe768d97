"""Explanation of a node: its pods, its free resources, and why waiting jobs do not use it."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from volcano.analysis.explain.case import Case, shown_name, without_uninteresting
from volcano.analysis.explain.explanations import Quantities
from volcano.analysis.explain.nodes import reasons
from volcano.analysis.explain.steps import first_pending

MOST_JOBS = 50  # waiting jobs that are examined: one per shape is enough for most of them
HAS_ROOM = "has room for a pod"


@dataclass(frozen=True, slots=True)
class NodePod:
    pod: str
    job: str
    queue: str
    user: str
    status: str
    priority: int
    requests: Quantities


@dataclass(frozen=True, slots=True)
class RefusedJob:
    """A waiting job, and why the node does not take it."""

    job: str
    user: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeExplanation:
    """The pods of a node, and why waiting jobs do not use it."""

    KIND: ClassVar = "NodeExplanation"
    node: str
    schedulable: bool
    cordoned: bool
    taints: tuple[str, ...]
    allocatable: Quantities
    free: Quantities
    releasing: Quantities
    pods: tuple[NodePod, ...]
    refused: tuple[RefusedJob, ...]
    summary: str
    notes: tuple[str, ...]


def explain_node(case: Case, name: str) -> NodeExplanation:
    """Everything about a node."""
    row = case.snapshot.row_of[name]
    node, nodes = case.snapshot.nodes[row], case.session.nodes
    found = NodeExplanation(
        node=name,
        schedulable=node.usable,
        cordoned=node.unschedulable,
        taints=tuple(f"{each.key}={each.value}:{each.effect}" for each in node.taints),
        allocatable=without_uninteresting(case.amounts(nodes.allocatable[row])),
        free=without_uninteresting(case.amounts(np.maximum(nodes.idle[row], 0.0))),
        releasing=case.amounts(case.snapshot.releasing[row]),
        pods=_pods(case, row),
        refused=tuple(_refused(case, row)),
        summary="",
        notes=case.notes,
    )
    return replace(found, summary=_summary(found))


def _pods(case: Case, row: int) -> tuple[NodePod, ...]:
    found = []
    for task in case.snapshot.tasks_on[row].values():
        job = case.snapshot.jobs.get(task.job)
        of_job = (shown_name(task.job), job.queue, job.user) if job is not None else ("", "", "")
        found.append(NodePod(task.key, *of_job, str(task.status), task.priority, case.amounts(task.request)))
    return tuple(sorted(found, key=lambda each: (each.job, each.pod)))


def _refused(case: Case, row: int) -> Iterator[RefusedJob]:
    """Waiting jobs that this node does not take, each with the reason; those that it would take have none."""
    known: dict[tuple[int, str], str] = {}
    for uid in case.diagnoses:
        job = case.snapshot.jobs.get(uid)
        to_come = case.state.pods_to_come.get(uid, ())
        task = (first_pending(job) or next(iter(to_come), None)) if job is not None else None
        if job is None or task is None:
            continue
        key = (id(task.shape), job.queue)
        if key not in known:
            if len(known) >= MOST_JOBS:
                return
            known[key] = reasons(case.session, task, job.queue)[row]
        yield RefusedJob(shown_name(uid), job.user, known[key] or HAS_ROOM)


def _summary(found: NodeExplanation) -> str:
    count = len(found.pods)
    free = ", ".join(f"{name} {amount}" for name, amount in found.free.items()) or "nothing"
    text = f"Node {found.node} has {count} {'pod' if count == 1 else 'pods'} and {free} free"
    if found.cordoned:
        text += "; it is cordoned"
    elif not found.schedulable:
        text += "; it is not usable now"
    reasons_of_jobs = Counter(each.reason for each in found.refused if each.reason != HAS_ROOM)
    if reasons_of_jobs:
        reason, many = reasons_of_jobs.most_common(1)[0]
        jobs = "waiting job is" if many == 1 else "waiting jobs are"
        text += f"; {many} {jobs} refused: {reason}"
    return f"{text}."
