"""Condition QueueReserved: what pods without a node hold of their queue, and since when."""

from volcano.base.clock import parse_timestamp, timestamp
from volcano.kube.api import duration
from volcano.model.job import Condition, Job
from volcano.model.queue_reservations import (
    NOT_RESERVED,
    QUEUE_RESERVED,
    TIMED_OUT,
    WAITING_FOR_NODES,
    QueueReservation,
    known_condition,
)
from volcano.model.resources import shown
from volcano.scheduler.engine.session import Session


def with_queue_reservation(
    session: Session, job: Job, conditions: tuple[Condition, ...]
) -> tuple[Condition, ...]:
    """Conditions with the present QueueReserved; the same ones when it has not changed."""
    known, found = known_condition(job), session.queue_reservations.get(job.uid)
    if found is None:
        if known is None or known.reason == NOT_RESERVED:
            return conditions
        wanted = Condition(QUEUE_RESERVED, "False", NOT_RESERVED, "no pod without a node holds room")
    elif found.timed_out:
        wanted = Condition(QUEUE_RESERVED, "False", TIMED_OUT, _timed_out(job, found))
    else:
        began = session.written_at
        if known is not None and known.status == "True" and not found.renewed:
            began = known.last_transition or began
        message = _held(session, job, found, began)
        wanted = Condition(QUEUE_RESERVED, "True", WAITING_FOR_NODES, message, "", began)
    return _replaced(session, conditions, known, wanted)


def _replaced(
    session: Session, conditions: tuple[Condition, ...], known: Condition | None, wanted: Condition
) -> tuple[Condition, ...]:
    began = wanted.last_transition
    if known is not None:
        if not began:
            began = known.last_transition if known.status == wanted.status else session.written_at
        if (known.status, known.reason, known.message, known.last_transition) == (
            wanted.status,
            wanted.reason,
            wanted.message,
            began,
        ):
            return conditions
    mark = str(session.snapshot.seed)
    marked = Condition(
        wanted.type, wanted.status, wanted.reason, wanted.message, mark, began or session.written_at
    )
    return (*(each for each in conditions if each.type != QUEUE_RESERVED), marked)


def _held(session: Session, job: Job, found: QueueReservation, began: str) -> str:
    amounts = session.resources.amounts(found.amount)
    amount = ", ".join(f"{name} {shown(name, value)}" for name, value in amounts.items() if name != "pods")
    text = (
        f"{_pods(found.pods)} without a node, admitted by queue {job.queue}: {amount or 'nothing'} reserved"
    )
    if job.group.reservation_timeout is None:
        return text
    return f"{text} until {timestamp(parse_timestamp(began) + job.group.reservation_timeout)}"


def _timed_out(job: Job, found: QueueReservation) -> str:
    after = duration.format(job.group.reservation_timeout or 0.0)
    return (
        f"{_pods(found.timed_out)} without a node after {after}: the room in queue {job.queue} was given back, "
        "and is reserved again once no other job needs it"
    )


def _pods(count: int) -> str:
    return f"{count} pod" if count == 1 else f"{count} pods"
