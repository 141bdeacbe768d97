"""Screen of `vcctl plan`: whether it starts, nodes, victims, the share of the queue, and changes that would help."""

from collections.abc import Sequence
from textwrap import wrap

from volcano.analysis.plan.plan import PlannedJob
from volcano.analysis.plan.tables import (
    NOT_NOW,
    PLACED,
    SHARES,
    STARTS,
    VICTIMS,
    outcome,
    pods_text,
    preempting_sentence,
    shares,
)
from volcano.cli.session import Session
from volcano.views.columns import Column

MOST_VICTIMS = 20


def show(session: Session, planned: Sequence[PlannedJob]) -> None:
    """Prints the plan of each job."""
    for position, job in enumerate(planned):
        if position:
            session.write()
        _show_job(session, job)


def _show_job(session: Session, job: PlannedJob) -> None:
    session.write(_first_line(session, job))
    _table(session, "", PLACED, job.placements)
    _table(session, f"Evicted for it ({len(job.victims)}):", VICTIMS, job.victims[:MOST_VICTIMS])
    if len(job.victims) > MOST_VICTIMS:
        session.write(f"... and {pods_text(len(job.victims) - MOST_VICTIMS)} more")
    if sentence := preempting_sentence(job):
        session.write(f"\n{sentence}; --allow-preempt shows which.")
    if job.why_not is not None and job.why_not.suggestions:
        session.write("\nChanges that would start it now:")
        for each in job.why_not.suggestions:
            session.write(f"  - {each.change}")
    _table(session, f"Queue {job.queue}:", SHARES, shares(job))


def _first_line(session: Session, job: PlannedJob) -> str:
    if job.starts:
        return f"{job.job} {session.paint(STARTS, 'green', 'bold')}: {outcome(job)}"
    lines = wrap(f"{job.job} {NOT_NOW}: {outcome(job)}", session.width, subsequent_indent="  ")
    return "\n".join(lines).replace(NOT_NOW, session.paint(NOT_NOW, "red", "bold"), 1)


def _table(session: Session, title: str, columns: Sequence[Column], rows: Sequence[object]) -> None:
    """A table below an empty line and its title; nothing without rows."""
    if not rows:
        return
    session.write(f"\n{title}" if title else "")
    session.table(columns, rows)
