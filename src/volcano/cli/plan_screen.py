"""Screen of `vcctl plan`: whether it starts, nodes, victims, the share of the queue, and changes that would help."""

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

from volcano.cli.printing.tables import Column, Layout, selected
from volcano.cli.session import Session

if TYPE_CHECKING:
    from volcano.analysis.plan.plan import PlannedJob
    from volcano.model.decisions import Evict

MOST_VICTIMS = 20
STARTS, NOT_NOW = "would start now", "would not start now"


class Placed(NamedTuple):
    """Pods of one task on one node."""

    node: str
    task: str
    pods: Sequence[str]


class _Victim(NamedTuple):
    victim: "Evict"
    job: str


class Share(NamedTuple):
    """One resource of the queue, as quantities."""

    resource: str
    before: str
    after: str
    deserved: str
    limit: str


PLACED = (
    Column("Node", lambda row: row.node),
    Column("Task", lambda row: row.task or "-"),
    Column("Pods", lambda row: str(len(row.pods))),
    Column("Names", lambda row: pod_names(row.pods), sentence=True),
)
VICTIMS = (
    Column("Pod", lambda row: f"{row.victim.namespace}/{row.victim.name}"),
    Column("Job", lambda row: row.job),
    Column("Node", lambda row: row.victim.node),
    Column("By", lambda row: row.victim.reason),
)
SHARES = (
    Column("Resource", lambda row: row.resource),
    Column("Before", lambda row: row.before),
    Column("Afterwards", lambda row: row.after),
    Column("Deserved", lambda row: row.deserved),
    Column("Limit", lambda row: row.limit),
)


def show(session: Session, planned: "Sequence[PlannedJob]", *, allow_preempt: bool) -> None:
    """Prints the plan of each job."""
    for position, job in enumerate(planned):
        if position:
            session.write()
        _show_job(session, job, allow_preempt=allow_preempt)


def _show_job(session: Session, job: "PlannedJob", *, allow_preempt: bool) -> None:
    session.write(_first_line(session, job))
    rows = placements(job)
    if rows:
        session.write()
        _table(session, PLACED, rows)
    if job.victims:
        session.write()
        session.write(f"Evicted for it ({len(job.victims)}):")
        _victims(session, job)
    if not job.starts and job.victims_if_allowed is not None:
        pods = pods_text(len(job.victims_if_allowed))
        session.write()
        session.write(f"It would start if the scheduler evicted {pods}; --allow-preempt shows which.")
    if job.suggestions:
        session.write()
        session.write("Changes that would start it now:")
        for each in job.suggestions:
            session.write(f"  - {each.sentence()}")
    queue_shares = shares(job)
    if queue_shares:
        session.write()
        session.write(f"Queue {job.queue}:")
        _table(session, SHARES, queue_shares)


def _first_line(session: Session, job: "PlannedJob") -> str:
    if job.starts:
        return f"{job.title} {session.paint(STARTS, 'green', 'bold')}: {outcome(job)}"
    lines = wrap(f"{job.title} {NOT_NOW}: {outcome(job)}", session.width, subsequent_indent="  ")
    return "\n".join(lines).replace(NOT_NOW, session.paint(NOT_NOW, "red", "bold"), 1)


def outcome(job: "PlannedJob") -> str:
    """How many pods are placed, or why the job would not start."""
    if not job.starts:
        return job.reason
    placed = sum(len(each.pods) for each in placements(job))
    running = f", {job.running} run already" if job.running else ""
    some = "" if placed + job.running >= job.pods else f" ({_suffice(job.minimum)})"
    return f"{placed} of {pods_text(job.pods)} placed{running}{some}"


def _victims(session: Session, job: "PlannedJob") -> None:
    rows = [_Victim(victim, job.job_names.get(victim.job, victim.job)) for victim in job.victims]
    _table(session, VICTIMS, rows[:MOST_VICTIMS])
    if len(rows) > MOST_VICTIMS:
        session.write(f"... and {pods_text(len(rows) - MOST_VICTIMS)} more")


def placements(job: "PlannedJob") -> list[Placed]:
    """The placed pods, by node and task."""
    return [Placed(node, role, pods) for node, roles in job.placed.items() for role, pods in roles.items()]


def shares(job: "PlannedJob") -> list[Share]:
    """The resources that the queue holds or deserves."""
    before, after = job.before.as_data(), job.after.as_data()
    names = dict.fromkeys((*after["allocated"], *before["allocated"]))
    return [
        Share(
            name,
            before["allocated"].get(name, "0"),
            after["allocated"].get(name, "0"),
            after["deserved"].get(name, "-"),
            after["capability"].get(name, "-"),
        )
        for name in names
    ]


def pods_text(number: int) -> str:
    return "1 pod" if number == 1 else f"{number} pods"


def _suffice(number: int) -> str:
    return "1 suffices" if number <= 1 else f"{number} suffice"


def pod_names(pods: Sequence[str]) -> str:
    """`train-worker-[0-3,8]`, or the names where they do not differ by a number at the end."""
    stems = {pod.rpartition("-")[0] for pod in pods}
    numbers = [pod.rpartition("-")[2] for pod in pods]
    if len(pods) == 1 or len(stems) > 1 or not all(number.isdecimal() for number in numbers):
        return ", ".join(pods)
    return f"{stems.pop()}-[{','.join(_ranges(sorted(map(int, numbers))))}]"


def _ranges(numbers: Sequence[int]) -> Iterator[str]:
    first = last = numbers[0]
    for number in (*numbers[1:], None):
        if number == last + 1:
            last = number
            continue
        yield str(first) if first == last else f"{first}-{last}"
        if number is not None:
            first = last = number


def _table(session: Session, columns: Sequence[Column], rows: Sequence[object]) -> None:
    layout = Layout(
        selected(columns, wide=False, terminal=session.terminal),
        rows,
        terminal=session.terminal,
        colour=session.colour,
        room=session.width,
    )
    for line in (layout.header(), *(layout.row(row) for row in rows)):
        session.write(line.rstrip())
