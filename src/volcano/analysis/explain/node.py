"""Explanation of a node: its pods, its free resources, and why waiting jobs do not use it."""

from collections import Counter

import numpy as np

from volcano.analysis.explain.case import Case, Data, shown_name, user_of, without_uninteresting
from volcano.analysis.explain.nodes import reasons
from volcano.analysis.explain.steps import first_pending

MOST_JOBS = 50  # waiting jobs that are examined: one per shape is enough for most of them


def explain_node(case: Case, name: str) -> Data:
    """Everything about a node."""
    row = case.snapshot.row_of[name]
    node = case.snapshot.nodes[row]
    session = case.session
    idle = np.maximum(session.nodes.idle[row], 0.0)
    found: Data = {
        "kind": "NodeExplanation",
        "node": name,
        "schedulable": node.usable,
        "cordoned": node.unschedulable,
        "taints": [f"{each.key}={each.value}:{each.effect}" for each in node.taints],
        "allocatable": without_uninteresting(case.amounts(session.nodes.allocatable[row])),
        "free": without_uninteresting(case.amounts(idle)),
        "releasing": case.amounts(case.snapshot.releasing[row]),
        "pods": _pods(case, row),
    }
    refused = _refused(case, row)
    found["refused"] = refused
    found["summary"] = _summary(found)
    return found


def _pods(case: Case, row: int) -> list[Data]:
    found = []
    for task in case.snapshot.tasks_on[row].values():
        job = case.snapshot.jobs.get(task.job)
        found.append(
            {
                "pod": task.key,
                "job": shown_name(task.job) if job is not None else "",
                "queue": job.queue if job is not None else "",
                "user": user_of(job) if job is not None else "",
                "status": str(task.status),
                "priority": task.priority,
                "requests": case.amounts(task.request),
            }
        )
    return sorted(found, key=lambda each: (each["job"], each["pod"]))


def _refused(case: Case, row: int) -> list[Data]:
    """Waiting jobs that this node does not take, each with the reason; those that it would take have none."""
    known: dict[tuple[int, str], str] = {}
    found: list[Data] = []
    for uid in case.diagnoses:
        job = case.snapshot.jobs.get(uid)
        to_come = case.state.pods_to_come.get(uid, ())
        task = (first_pending(job) or next(iter(to_come), None)) if job is not None else None
        if job is None or task is None:
            continue
        key = (id(task.shape), job.queue)
        if key not in known:
            if len(known) >= MOST_JOBS:
                break
            known[key] = reasons(case.session, task, job.queue)[row]
        found.append(
            {"job": shown_name(uid), "user": user_of(job), "reason": known[key] or "has room for a pod"}
        )
    return found


def _summary(found: Data) -> str:
    count = len(found["pods"])
    free = ", ".join(f"{name} {amount}" for name, amount in found["free"].items()) or "nothing"
    text = f"Node {found['node']} has {count} {'pod' if count == 1 else 'pods'} and {free} free"
    if found["cordoned"]:
        text += "; it is cordoned"
    elif not found["schedulable"]:
        text += "; it is not usable now"
    reasons_of_jobs = Counter(
        each["reason"] for each in found["refused"] if each["reason"] != "has room for a pod"
    )
    if reasons_of_jobs:
        reason, many = reasons_of_jobs.most_common(1)[0]
        jobs = "waiting job is" if many == 1 else "waiting jobs are"
        text += f"; {many} {jobs} refused: {reason}"
    return f"{text}."
