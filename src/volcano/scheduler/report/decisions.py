"""Decisions of a cycle: committed changes of the ledger, status of jobs, events and queue totals."""

from collections.abc import Iterator

from volcano.kube.api import names
from volcano.model import resources
from volcano.model.decisions import Bind, Decision, Evict, Nominate, SetQueue
from volcano.model.device_demand import ClaimKey, demand, held_by_queue
from volcano.model.devices import ClaimSpec
from volcano.model.queue import ancestors
from volcano.model.resources import Vector
from volcano.model.snapshot import Snapshot
from volcano.model.status import Status
from volcano.scheduler.engine.ledger_view import Eviction, Placement
from volcano.scheduler.engine.session import Session
from volcano.scheduler.report.conditions import job_status, orphan_status


def decisions(session: Session) -> Iterator[Decision]:
    """All decisions to be written, bindings and evictions first."""
    yield from _changes(session)
    for uid in _jobs_to_report(session):
        job = session.snapshot.jobs.get(uid)
        if job is None:
            continue
        status: list[Decision] = []
        with session.inquiry(job):
            status = list(job_status(session, job))
        # When a plugin just failed for this job, that failure is its status.
        yield from status or (job_status(session, job) if uid in session.faults else ())
    for orphans in session.snapshot.orphans.values():
        yield from orphan_status(session, orphans)
    yield from session.gates
    yield from session.placement_events()
    yield from _queue_status(session)


def _changes(session: Session) -> Iterator[Decision]:
    policy, name_of, annotations = session.policy, session.nodes.name, session.ledger.annotations
    node_annotations = policy.node_annotations
    for change in session.ledger.committed:
        match change:
            case Placement(tasks, rows, Status.ALLOCATED):
                claims = policy.claims if policy.reserves(tasks[0]) else lambda task: ()
                for task, row in zip(tasks, rows, strict=True):
                    yield Bind(
                        task.uid,
                        task.namespace,
                        task.name,
                        task.job,
                        name_of(row),
                        annotations.get(task.uid, {}),
                        claims(task),
                        node_annotations(task),
                    )
            case Placement(tasks, rows, _, evicting=True):
                for task, row in zip(tasks, rows, strict=True):
                    if task.nominated != name_of(row):
                        yield Nominate(task.uid, task.namespace, task.name, name_of(row))
            case Eviction(task, row, reason, on_behalf_of):
                job = session.snapshot.jobs.get(task.job)
                yield Evict(
                    task.uid,
                    task.namespace,
                    task.name,
                    task.job,
                    name_of(row),
                    reason,
                    on_behalf_of,
                    job.group.object_uid if job is not None else "",
                )


def _jobs_to_report(session: Session) -> list[str]:
    """Jobs whose status may differ: changed since the last cycle or in this one, or waiting."""
    jobs = session.snapshot.jobs
    found = dict.fromkeys(sorted(uid for uid in session.snapshot.changed if uid in jobs))
    found.update(dict.fromkeys(session.ledger.phases))
    for uid in (*session.diagnoses.by_job, *session.snapshot.active):
        # The status of an admitted gang without pods was written in an earlier cycle.
        if uid not in jobs or jobs[uid].tasks or jobs[uid].phase != "Inqueue" or uid in session.faults:
            found[uid] = None
    return list(found)


def _queue_status(session: Session) -> Iterator[Decision]:
    """status.allocated of each queue, descendants included, as of the start of the cycle, where it differs."""
    snapshot = session.snapshot
    if not snapshot.changed:
        return
    sums: dict[str, Vector] = {name: totals.allocated for name, totals in snapshot.totals.items()}
    if names.ROOT_QUEUE in snapshot.queues:
        for name, totals in snapshot.totals.items():
            for ancestor in ancestors(snapshot.queues, name):
                sums[ancestor] = sums[ancestor] + totals.allocated
    devices = _devices(snapshot)
    for name, vector in sums.items():
        allocated = resources.manifest(snapshot.resources, vector) | devices.get(name, {})
        written = snapshot.queues[name].allocated_text
        if allocated != dict(written):
            yield SetQueue(name, allocated, tuple(sorted(written.keys() - allocated.keys())))


def _devices(snapshot: Snapshot) -> dict[str, dict[str, str]]:
    """Devices of the claims that each queue and its descendants hold, a shared claim once."""
    held = held_by_queue(snapshot)
    together: dict[str, dict[ClaimKey, ClaimSpec]] = {}
    for name, claims in held.items():
        above = ancestors(snapshot.queues, name) if names.ROOT_QUEUE in snapshot.queues else ()
        for each in (name, *above):
            together.setdefault(each, {}).update(claims)
    found: dict[str, dict[str, str]] = {}
    for name, claims in together.items():
        amounts: dict[str, float] = {}
        for spec in claims.values():
            for resource, amount in demand(spec).items():
                amounts[resource] = amounts.get(resource, 0.0) + amount
        found[name] = {resource: resources.shown(resource, amount) for resource, amount in amounts.items()}
    return found
