"""Explanation of a queue: its share step by step, what it borrows and lends, and why its jobs wait."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from volcano.analysis.explain.case import UNINTERESTING, Case
from volcano.analysis.explain.explanations import UNLIMITED, JobLine
from volcano.analysis.explain.job import job_line
from volcano.analysis.plan.shares import SharePlugin, deserved_by, share_plugin
from volcano.kube.api.names import ROOT_QUEUE
from volcano.model.queue import Queue
from volcano.model.resources import PODS, STEP, Vector, shown

MOST_JOBS = 10


@dataclass(frozen=True, slots=True)
class ShareRow:
    """How the deserved amount of one resource comes about, and what the queue holds of it."""

    resource: str
    cluster: str
    weight: str
    by_weight: str
    capability: str
    limit: str
    guarantee: str
    requested: str
    deserved: str
    allocated: str
    borrowed: str
    lent: str


@dataclass(frozen=True, slots=True)
class QueueJobs:
    holding: int
    waiting: int


@dataclass(frozen=True, slots=True)
class ReasonCount:
    code: str
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueExplanation:
    """The share of a queue, and why its jobs wait."""

    KIND: ClassVar = "QueueExplanation"
    queue: str
    parent: str
    state: str
    weight: int
    priority: int
    plugin: str  # that divides resources among queues; "" for none
    resources: tuple[ShareRow, ...]
    jobs: QueueJobs
    reasons: tuple[ReasonCount, ...]
    waiting: tuple[JobLine, ...]
    summary: str
    notes: tuple[str, ...]


def explain_queue(case: Case, name: str) -> QueueExplanation:
    """The share of a queue per resource, and its waiting jobs by code."""
    queue, jobs = case.snapshot.queues[name], case.snapshot.jobs
    plugin = share_plugin(case.session)
    waiting = [uid for uid in case.diagnoses if uid in jobs and jobs[uid].queue == name]
    holds = np.arange(case.index.width) != PODS  # pods without requests hold nothing else
    holding = sum(job.queue == name and bool(job.allocated[holds].any()) for job in jobs.values())
    reasons = Counter(str(case.diagnoses[uid].code) for uid in waiting)
    ordered = sorted((jobs[uid] for uid in waiting), key=case.session.policy.job_order)
    found = QueueExplanation(
        queue=name,
        parent=queue.parent,
        state=queue.state or "Open",
        weight=queue.weight,
        priority=queue.priority,
        plugin=plugin.name if plugin is not None else "",
        resources=tuple(_resources(case, queue, plugin)),
        jobs=QueueJobs(holding, len(waiting)),
        reasons=tuple(ReasonCount(code, count) for code, count in reasons.most_common()),
        waiting=tuple(job_line(case, job) for job in ordered[:MOST_JOBS]),
        summary="",
        notes=case.notes,
    )
    is_parent = any(each.parent == name for each in case.snapshot.queues.values())
    return replace(found, summary=_summary(found, is_parent=is_parent))


def _resources(case: Case, queue: Queue, plugin: SharePlugin | None) -> Iterator[ShareRow]:
    """One row per resource of the cluster: how its deserved amount comes about, and what it holds of it."""
    totals, index = case.snapshot.totals, case.index
    held, requested = totals[queue.name].allocated, totals[queue.name].requested
    capability = np.full(index.width, np.inf)
    guarantee = deserved = index.zeros()
    if plugin is not None:
        capability = plugin.capability.get(queue.name, capability)
        guarantee = plugin.guarantee.get(queue.name, guarantee)
        deserved = deserved_by(plugin, queue.name)
        held = plugin.usage.allocated[queue.name]
    weight, of = _weights(case, queue)
    total = case.snapshot.total
    lent = _lent(case, plugin, queue.name, held, deserved)
    for column, name in enumerate(index.names):
        amounts = (total, held, requested, deserved)
        if column == PODS or not any(vector.item(column) >= STEP for vector in amounts):
            continue
        if name.startswith(UNINTERESTING) and not any(v.item(column) >= STEP for v in (held, requested)):
            continue

        def text(vector: Vector, column: int = column, name: str = name) -> str:
            value = vector.item(column)
            return shown(name, value) if value < UNLIMITED else "none"

        declared = queue.capability.get(name)
        yield ShareRow(
            resource=name,
            cluster=text(total),
            weight=f"{weight}/{of}",
            by_weight=shown(name, float(np.floor(total.item(column) * weight / max(of, 1)))),
            capability=shown(name, declared) if declared is not None else "none",
            limit=text(capability),
            guarantee=text(guarantee),
            requested=text(requested),
            deserved=text(deserved),
            allocated=text(held),
            borrowed=text(np.maximum(held - deserved, 0.0)),
            lent=text(lent),
        )


def _weights(case: Case, queue: Queue) -> tuple[int, int]:
    """Weight of the queue, and the sum of the weights of its siblings that request something, itself included."""
    parent = queue.parent or ROOT_QUEUE
    siblings = [
        each
        for each in case.snapshot.queues.values()
        if each.name != ROOT_QUEUE and (each.parent or ROOT_QUEUE) == parent
    ]
    asking = [each for each in siblings if each.name == queue.name or _asks(case, each.name)]
    return queue.weight, sum(each.weight for each in asking)


def _asks(case: Case, name: str) -> bool:
    totals, below = case.snapshot.totals, {name}
    for each in case.snapshot.queues.values():
        if each.parent in below:
            below.add(each.name)
    return any(bool(totals[each].requested.any()) for each in below if each in totals)


def _lent(case: Case, plugin: SharePlugin | None, name: str, held: Vector, deserved: Vector) -> Vector:
    """The part of its share that the queue does not hold and other queues hold beyond theirs."""
    borrowed = case.index.zeros()
    for other in plugin.tree.parent if plugin is not None else ():
        if plugin is not None and other not in (name, ROOT_QUEUE) and plugin.tree.is_leaf(other):
            beyond = plugin.usage.allocated[other] - deserved_by(plugin, other)
            borrowed = borrowed + np.maximum(beyond, 0.0)
    lent: Vector = np.minimum(np.maximum(deserved - held, 0.0), borrowed)
    return lent


def _summary(found: QueueExplanation, *, is_parent: bool) -> str:
    name, waiting = found.queue, found.jobs.waiting
    over = [row.resource for row in found.resources if row.borrowed != "0"]
    spare = [row.resource for row in found.resources if row.lent != "0"]
    parts = []
    if over:
        parts.append(f"borrows {', '.join(over)}")
    if spare:
        parts.append(f"lends {', '.join(spare)}")
    stand = " and ".join(parts) or "holds no more than it deserves"
    if not waiting:
        return f"Queue {name} {stand}; no job waits{' in the queue itself' if is_parent else ''}."
    top = found.reasons[0]
    jobs = "job waits" if waiting == 1 else "jobs wait"
    return f"Queue {name} {stand}; {waiting} {jobs}, {top.jobs} for {top.code}."
