"""Explanation of a queue: its share step by step, what it borrows and lends, and why its jobs wait."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from volcano.analysis.explain.case import UNINTERESTING, Case, Data, shown_name
from volcano.analysis.explain.job import job_line
from volcano.kube.api.names import ROOT_QUEUE
from volcano.model.queue import Queue
from volcano.model.resources import PODS, STEP, Vector, shown
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.plugins.capacity import Capacity
from volcano.scheduler.plugins.proportion import Proportion

MOST_JOBS = 10


def explain_queue(case: Case, name: str) -> Data:
    """The share of a queue per resource, and its waiting jobs by code."""
    queue = case.snapshot.queues[name]
    plugin = next(
        (each for each in case.session.policy.plugins if isinstance(each, Proportion | Capacity)), None
    )
    found: Data = {
        "kind": "QueueExplanation",
        "queue": name,
        "parent": queue.parent,
        "state": queue.state or "Open",
        "weight": queue.weight,
        "priority": queue.priority,
        "plugin": plugin.name if plugin is not None else "",
    }
    found["resources"] = _resources(case, queue, plugin)
    jobs = case.snapshot.jobs
    waiting = [uid for uid in case.diagnoses if uid in jobs and jobs[uid].queue == name]
    holds = np.arange(case.index.width) != PODS  # pods without requests hold nothing else
    running = [job for job in jobs.values() if job.queue == name and job.allocated[holds].any()]
    reasons = Counter(str(case.diagnoses[uid].code) for uid in waiting)
    found["jobs"] = {"holding": len(running), "waiting": len(waiting)}
    found["reasons"] = [{"code": code, "jobs": count} for code, count in reasons.most_common()]
    ordered = sorted((jobs[uid] for uid in waiting), key=case.session.policy.job_order)
    found["waiting"] = [job_line(case, job) for job in ordered[:MOST_JOBS]]
    is_parent = any(each.parent == name for each in case.snapshot.queues.values())
    found["summary"] = _summary(found, is_parent=is_parent)
    return found


def _resources(case: Case, queue: Queue, plugin: Plugin | None) -> list[Data]:
    """One row per resource of the cluster: how its deserved amount comes about, and what it holds of it."""
    totals, index = case.snapshot.totals, case.index
    held, requested = totals[queue.name].allocated, totals[queue.name].requested
    zeros = index.zeros()
    capability = np.full(index.width, np.inf)
    guarantee = deserved = zeros
    if isinstance(plugin, Proportion | Capacity):
        capability = plugin.capability.get(queue.name, capability)
        guarantee = plugin.guarantee.get(queue.name, zeros)
        share: Any = plugin.deserved.get(queue.name)
        deserved = zeros if share is None else getattr(share, "amount", share)
        held = plugin.usage.allocated[queue.name]
    weight, of = _weights(case, queue)
    total = case.snapshot.total
    idle_elsewhere = _lent(case, plugin, queue.name, held, deserved)
    rows: list[Data] = []
    for column, name in enumerate(index.names):
        amounts = (total, held, requested, deserved)
        if column == PODS or not any(vector.item(column) >= STEP for vector in amounts):
            continue
        if name.startswith(UNINTERESTING) and not any(v.item(column) >= STEP for v in (held, requested)):
            continue

        def text(vector: Vector, column: int = column, name: str = name) -> str:
            value = vector.item(column)
            return shown(name, value) if value < 1e30 else "none"

        declared = queue.capability.get(name)
        row = {
            "resource": name,
            "cluster": text(total),
            "weight": f"{weight}/{of}",
            "byWeight": shown(name, float(np.floor(total.item(column) * weight / max(of, 1)))),
            "capability": shown(name, declared) if declared is not None else "none",
            "limit": text(capability),
            "guarantee": text(guarantee),
            "requested": text(requested),
            "deserved": text(deserved),
            "allocated": text(held),
            "borrowed": text(np.maximum(held - deserved, 0.0)),
            "lent": text(idle_elsewhere),
        }
        rows.append(row)
    return rows


def _weights(case: Case, queue: Queue) -> tuple[int, int]:
    """Weight of the queue, and the sum of the weights of its siblings that request something, itself included."""
    parent, totals = queue.parent or ROOT_QUEUE, case.snapshot.totals
    siblings = [
        each
        for each in case.snapshot.queues.values()
        if each.name != ROOT_QUEUE and (each.parent or ROOT_QUEUE) == parent
    ]
    asking = [each for each in siblings if each.name == queue.name or _asks(case, each.name, totals)]
    return queue.weight, sum(each.weight for each in asking)


def _asks(case: Case, name: str, totals: Mapping[str, Any]) -> bool:
    below = {name}
    for each in case.snapshot.queues.values():
        if each.parent in below:
            below.add(each.name)
    return any(bool(totals[each].requested.any()) for each in below if each in totals)


def _lent(case: Case, plugin: Plugin | None, name: str, held: Vector, deserved: Vector) -> Vector:
    """The part of its share that the queue does not hold and other queues hold beyond theirs."""
    spare = np.maximum(deserved - held, 0.0)
    borrowed = case.index.zeros()
    if isinstance(plugin, Proportion | Capacity):
        for other in plugin.tree.parent:
            if other in (name, ROOT_QUEUE) or not plugin.tree.is_leaf(other):
                continue
            amount = plugin.usage.allocated[other]
            share: Any = plugin.deserved.get(other)
            deserves = case.index.zeros() if share is None else getattr(share, "amount", share)
            borrowed = borrowed + np.maximum(amount - deserves, 0.0)
    lent: Vector = np.minimum(spare, borrowed)
    return lent


def _summary(found: Data, *, is_parent: bool) -> str:
    name, waiting = found["queue"], found["jobs"]["waiting"]
    over = [row["resource"] for row in found["resources"] if row["borrowed"] != "0"]
    spare = [row["resource"] for row in found["resources"] if row["lent"] != "0"]
    parts = []
    if over:
        parts.append(f"borrows {', '.join(over)}")
    if spare:
        parts.append(f"lends {', '.join(spare)}")
    stand = " and ".join(parts) or "holds no more than it deserves"
    if not waiting:
        return f"Queue {name} {stand}; no job waits{' in the queue itself' if is_parent else ''}."
    top = found["reasons"][0]
    jobs = "job waits" if waiting == 1 else "jobs wait"
    return f"Queue {name} {stand}; {waiting} {jobs}, {top['jobs']} for {top['code']}."


def names_of(case: Case) -> list[str]:
    return sorted(map(shown_name, case.snapshot.queues))
