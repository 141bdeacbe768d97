"""Steps of a waiting job, from admission to preempt and reclaim, each with numbers."""

from collections.abc import Iterator

import numpy as np

from volcano.analysis.explain import explanations
from volcano.analysis.explain.case import Case, columns_of, counted, shown_name
from volcano.analysis.explain.explanations import Step
from volcano.model.decisions import Evict
from volcano.model.job import Job
from volcano.model.resources import CPU, MEMORY, PODS, STEP, shown
from volcano.model.status import EVICTABLE, HOLDING, Status
from volcano.model.task import Task
from volcano.scheduler.engine.diagnosis import Amount, Diagnosis
from volcano.scheduler.engine.diagnosis.codes import Code, DiagnosisClass
from volcano.scheduler.engine.placement.placer import NEVER

DEVICE_CODES = {Code.DEVICES_TOO_SMALL, Code.INSUFFICIENT_DEVICES, Code.DEVICE_CLAIM_PROBLEM}
# A resource is short on the nodes, not in the limits of a queue.
NODE_CODES = {Code.NODE_TOO_SMALL, Code.CLUSTER_TOO_SMALL, Code.INSUFFICIENT_RESOURCES}
EVICTING = ("preempt", "gangpreempt", "reclaim", "gangreclaim")
MOST_VICTIMS = 5
# Parts of a step: whether it is passed (None when it does not apply), and the text.
Answer = tuple[bool | None, str]


def steps(case: Case, job: Job, diagnosis: Diagnosis | None) -> tuple[Step, ...]:
    """All steps in the order in which a job takes them."""
    later = case.with_pods_to_come(job.uid)
    whole = later.snapshot.jobs[job.uid]  # with the pods that are created once it is admitted
    found: tuple[tuple[str, Answer, list[Amount]], ...] = (
        ("admission", *_admission(case, job, diagnosis)),
        ("gang", _gang(case, job, whole), []),
        ("queue", *_queue(later, whole, diagnosis)),
        ("priority", *_priority(case, job, diagnosis)),
        ("nodes", *_nodes(later, whole)),
        ("topology", _topology(later, whole, diagnosis), []),
        ("devices", *_devices(later, whole, diagnosis)),
        ("preempt/reclaim", _evictions(case, job, diagnosis), []),
    )
    return tuple(
        Step(name, ok, text, tuple(map(explanations.Amount.of, amounts)))
        for name, (ok, text), amounts in found
    )


def _admission(case: Case, job: Job, diagnosis: Diagnosis | None) -> tuple[Answer, list[Amount]]:
    if not job.pending_phase:
        return (True, f"admitted (PodGroup {job.phase})"), []
    if not case.session.admits:
        return (None, "the configuration has no action enqueue"), []
    if diagnosis is not None and diagnosis.stage == "enqueue":
        return (False, diagnosis.message), [*diagnosis.amounts]
    return (True, "would be admitted in the next cycle"), []


def _gang(case: Case, job: Job, whole: Job) -> Answer:
    needed = f"{job.min_available} needed together"
    if not job.tasks and whole.tasks:
        return (None, f"{counted(len(whole.tasks), 'pod')} to be created once the job is admitted, {needed}")
    valid, ready = case.session.ledger.valid(job), case.session.ledger.ready(job)
    text = f"{counted(valid, 'pod')} of {needed}, {ready} with a node"
    rejection = case.session.policy.job_valid(job)
    return (rejection is None and valid >= job.min_available, text)


def _queue(case: Case, job: Job, diagnosis: Diagnosis | None) -> tuple[Answer, list[Amount]]:
    session, queue = case.session, case.session.queue(job)
    if diagnosis is not None and diagnosis.stage == "queue":
        return (False, diagnosis.message), [*diagnosis.amounts]
    task = first_pending(job)
    if task is None:
        return (queue.open, f"queue {queue.name} is {queue.state or 'Open'}"), []
    short = max(session.policy.job_short(job), 1)
    room = session.policy.allocatable(queue, task, short)
    if room <= 0:
        rejection = session.policy.why_not_allocatable(queue, task)
        text = rejection.message if rejection is not None else f"queue {queue.name} may not take more"
        return (False, text), [*(rejection.amounts if rejection is not None else ())]
    held = session.snapshot.totals[queue.name].allocated
    uses = ", ".join(
        f"{case.index.names[column]} {shown(case.index.names[column], held.item(column))}"
        for column in columns_of(task.request)
    )
    enough = room >= short
    text = f"queue {queue.name} holds {uses or 'nothing'} and may take {room} of {counted(short, 'pod')} now"
    return (enough, text), []


def _priority(case: Case, job: Job, diagnosis: Diagnosis | None) -> tuple[Answer, list[Amount]]:
    if diagnosis is not None and diagnosis.code is Code.LOW_PRIORITY:
        return (False, diagnosis.message.partition("; ")[0]), [*diagnosis.amounts]
    higher = [
        other
        for other in case.snapshot.jobs.values()
        if other.queue == job.queue and other.priority > job.priority
    ]
    if not higher:
        return (True, f"priority {job.priority}, no job of the queue has a higher one"), []
    holding = sum(any(map(other.count, HOLDING)) for other in higher)
    text = f"priority {job.priority}; of {counted(len(higher), 'job')} of higher priority in the queue, {holding} hold"
    return (None, f"{text} resources"), []


def first_pending(job: Job) -> Task | None:
    """The first pending pod that can be placed."""
    return next((task for task in job.by_status.get(Status.PENDING, ()) if not task.gates), None)


def shapes(job: Job) -> Iterator[tuple[Task, int]]:
    """One pending pod of each shape, and how many there are."""
    counts: dict[int, int] = {}
    firsts: dict[int, Task] = {}
    for task in job.by_status.get(Status.PENDING, ()):
        key = id(task.shape)
        counts[key] = counts.get(key, 0) + 1
        firsts.setdefault(key, task)
    for key, task in firsts.items():
        yield task, counts[key]


def _nodes(case: Case, job: Job) -> tuple[Answer, list[Amount]]:
    parts, amounts, fits = [], list[Amount](), True
    total, session = len(case.session.nodes), case.session
    several = len({id(task.shape) for task in job.by_status.get(Status.PENDING, ())}) > 1
    for task, count in shapes(job):
        fit = session.placer.fit(task, job.queue)
        if fit.rejection is not None:
            return (False, fit.rejection.message), []
        now = int((fit.best != NEVER).sum())
        room = room_now(case, job, task)
        wanted = min(count, max(session.policy.job_short(job), 1)) if not several else count
        if room < wanted:
            fits = False
        who = f"{task.role or task.name}: " if several else ""
        part = f"{who}{now} of {total} nodes have room now, for {min(room, count)} of {counted(count, 'pod')}"
        fit_error = session.placer.fit_error(task, job.queue)
        if not now:
            part += (
                f" ({', '.join(f'{many} {reason}' for reason, many in sorted(fit_error.reasons.items()))})"
            )
        if room < wanted:
            amounts += [each for each in fit_error.amounts if each not in amounts]
        parts.append(part)
    if not parts:
        return (None, "no pod waits for a node"), []
    return (fits, "; ".join(parts)), amounts


def room_now(case: Case, job: Job, task: Task) -> int:
    """Pods of this shape that fit on the nodes as they are, each node as if alone."""
    session = case.session
    fit = session.placer.fit(task, job.queue)
    rows = session.permutation[np.flatnonzero(fit.best != NEVER)]
    columns = fit.columns
    if not len(columns) or not len(rows):
        return len(rows) * 10**6 if not len(columns) else 0
    idle = session.nodes.idle[np.ix_(rows, columns)]
    many = np.ceil(((idle + STEP) / fit.request[columns]).min(axis=1)) - 1
    limit = session.policy.node_capacity(task, session.nodes.at(rows), 10**6, False)
    if limit is not None:
        many = np.minimum(many, limit.counts)
    return int(np.maximum(many, 0).sum())


def _topology(case: Case, job: Job, diagnosis: Diagnosis | None) -> Answer:
    demand = case.session.topology.demand(job)
    if demand is None:
        return (None, "no network topology is asked for")
    if demand.problem:
        return (False, demand.problem)
    if diagnosis is not None and (diagnosis.stage == "topology" or "hypernode" in diagnosis.message):
        return (False, diagnosis.message)
    limit = (
        f"one hypernode of tier ≤ {demand.job.tier}" if demand.job is not None else "sub-groups in hypernodes"
    )
    return (True, f"{limit}{'' if demand.is_hard else ' is preferred'}")


def _devices(case: Case, job: Job, diagnosis: Diagnosis | None) -> tuple[Answer, list[Amount]]:
    session, found, enough = case.session, list[Amount](), True
    asked: dict[int, float] = {}
    claims = 0
    for task, count in shapes(job):
        claims += len(task.shape.constraints.device_claims) * count
        for column in columns_of(task.request):
            if column not in (CPU, MEMORY, PODS) and "/" in case.index.names[column]:
                asked[column] = asked.get(column, 0.0) + task.request.item(column) * count
    if not asked and not claims:
        return (None, "no devices are asked for"), []
    texts = []
    for column, need in asked.items():
        name = case.index.names[column]
        free = float(np.maximum(session.nodes.idle[:, column], 0).sum())
        total = float(session.nodes.allocatable[:, column].sum())
        found.append(Amount(name, need, free, total))
        enough = enough and need < free + STEP
        texts.append(
            f"{name}: {shown(name, need)} asked for, {shown(name, free)} of {shown(name, total)} free in the cluster"
        )
    if claims:
        texts.append(f"{claims} resource claims")
    if diagnosis is not None and diagnosis.code in DEVICE_CODES:
        return (False, "; ".join([*texts, diagnosis.message])), found
    scarce = diagnosis.resource if diagnosis is not None and diagnosis.code in NODE_CODES else ""
    if scarce in {case.index.names[column] for column in asked}:
        enough = False
    return (enough, "; ".join(texts)), found


def _evictions(case: Case, job: Job, diagnosis: Diagnosis | None) -> Answer:
    if diagnosis is not None and diagnosis.code.rank < DiagnosisClass.POLICY.rank:
        return (None, "evicting pods would not help")
    if diagnosis is not None and diagnosis.stage == "enqueue":
        return (None, "pods are evicted for admitted jobs only")
    configured = [name for name in EVICTING if name in case.config.actions]
    if not configured:
        return (None, "the configuration has neither preempt nor reclaim: running pods are left alone")
    victims = [
        each for each in case.outcome.decisions if isinstance(each, Evict) and each.on_behalf_of == job.uid
    ]
    if victims:
        listed = ", ".join(f"{each.namespace}/{each.name}" for each in victims[:MOST_VICTIMS])
        more = f" and {len(victims) - MOST_VICTIMS} more" if len(victims) > MOST_VICTIMS else ""
        return (True, f"{victims[0].reason} evicts {counted(len(victims), 'pod')} for it: {listed}{more}")
    lower = [
        other
        for other in case.snapshot.jobs.values()
        if other.queue == job.queue
        and other.priority < job.priority
        and any(other.count(s) for s in EVICTABLE)
    ]
    text = f"{', '.join(configured)} would evict nothing for it: "
    if lower:
        names = ", ".join(shown_name(each.uid) for each in lower[:3])
        why = f"there are jobs of lower priority in the queue ({names})"
        return (False, f"{text}{why}, but evicting them does not help or is not allowed")
    reason = "no job of lower priority runs in the queue"
    if any("reclaim" in name for name in configured):
        reason += ", and no other queue holds more than it deserves of what the job needs"
    return (False, text + reason)
