"""Screens of `vcctl explain`: one per kind of explanation."""

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

from volcano.analysis.explain.case import shown_name as short
from volcano.analysis.explain.cluster import ClusterExplanation, CodeCount, RecordedWaiting
from volcano.analysis.explain.explanations import (
    Details,
    JobExplanation,
    NodeScore,
    Outlook,
    PodExplanation,
    Position,
)
from volcano.analysis.explain.node import NodeExplanation
from volcano.analysis.explain.queue import QueueExplanation
from volcano.analysis.explain.recorded import CycleExplanation
from volcano.analysis.explain.tables import (
    BASIS,
    DETAILS,
    JOB_COLUMNS,
    NODE_REASONS,
    SHARE_COLUMNS,
    counts_text,
    listed,
    plugin_columns,
    size_text,
)
from volcano.base.clock import timestamp
from volcano.cli.explain.layout import CLASS_STYLES, Page
from volcano.cli.printing.tables import Column
from volcano.scheduler.history.queries import CycleList, Entry, OneCycle
from volcano.scheduler.history.records import Placed
from volcano.views.times import span

SHOWN_ENTRIES = 8
SHOWN_JOBS = 10
Explanation: TypeAlias = (
    JobExplanation
    | PodExplanation
    | QueueExplanation
    | NodeExplanation
    | ClusterExplanation
    | RecordedWaiting
    | CycleExplanation
)


def show(page: Page, found: Explanation) -> None:
    """Prints an explanation of any kind."""
    match found:
        case JobExplanation():
            _job(page, found)
        case PodExplanation():
            _pod(page, found)
        case QueueExplanation():
            _queue(page, found)
        case NodeExplanation():
            _node(page, found)
        case ClusterExplanation():
            _cluster(page, found)
        case RecordedWaiting():
            _waiting(page, found)
        case CycleExplanation(record=CycleList() as cycles):
            _cycles(page, cycles)
        case CycleExplanation(record=OneCycle() as cycle):
            _cycle(page, cycle)
    if not isinstance(found, CycleExplanation):
        page.notes(found.notes)


def _job(page: Page, found: JobExplanation) -> None:
    diagnosis = found.diagnosis
    page.summary(short(found.summary), CLASS_STYLES.get(diagnosis.class_, "") if diagnosis else "")
    page.facts(
        {
            "Job": found.job,
            "Code": diagnosis and diagnosis.title,
            "Since": diagnosis and page.ago(diagnosis.since),
            "Queue": found.queue,
            "User": found.user,
            "Priority": found.priority or None,
            "Reserved": found.reserved,
            "Size": size_text(found),
            "Message": found.unsaid_message,
        }
    )
    if found.steps:
        page.heading("Steps")
        page.steps(found.steps)
    _position(page, found.position)
    _outlook(page, found.outlook)
    if found.nodes:
        page.heading("Nodes")
        page.line(counts_text(found.nodes))
    _details(page, found.details)
    _history(page, found.history)


def _details(page: Page, details: Details) -> None:
    for part, rows in details.items():
        page.heading(part.capitalize())
        page.table(DETAILS[part], rows)
        if not rows:
            page.line("nothing to show")


def _position(page: Page, position: Position | None) -> None:
    if position is None:
        return
    page.heading("Position", f"number {position.place} of {position.of} waiting jobs in the queue")
    if not position.ahead:
        page.line("no job is ahead of it")
        return
    page.table(JOB_COLUMNS, position.ahead)
    if position.more:
        page.line(f"and {position.more} more; {position.pods_ahead} pods are ahead in all")


def _outlook(page: Page, outlook: Outlook | None) -> None:
    if outlook is None:
        return
    page.heading("Estimate")
    estimate = outlook.estimate
    if estimate is None:
        page.line("no estimate can be given")
    else:
        first, last = map(span, estimate.in_seconds)
        page.line(f"starts in {first} to {last}, in eight of ten cases; by {BASIS[estimate.basis]}")
        if estimate.waits_for:
            page.line(f"waits for {', '.join(estimate.waits_for)}")
    page.heading(
        "Changes that would start it now", "each verified by running the scheduler on the changed cluster"
    )
    if not outlook.changes:
        page.line("none was found that changes one thing only")
    for each in outlook.changes:
        page.hanging("- ", each.change)


def _history(page: Page, entries: Sequence[Entry]) -> None:
    if not entries:
        return
    left_out = max(len(entries) - SHOWN_ENTRIES, 0)
    page.heading("History", f"{left_out} older" if left_out else "")
    columns = [
        Column("AGE", lambda entry: page.ago(entry.at)),
        Column("CYCLE", lambda entry: str(entry.number or "")),
        Column("WHAT", lambda entry: " ".join(filter(None, (entry.what, entry.code)))),
        Column("TEXT", lambda entry: short(entry.text), sentence=True),
    ]
    page.table(columns, entries[-SHOWN_ENTRIES:])


def _pod(page: Page, found: PodExplanation) -> None:
    page.summary(short(found.summary))
    page.facts(
        {
            "Pod": found.pod,
            "Job": found.job,
            "Queue": found.queue,
            "User": found.user,
            "Status": found.status,
            "Priority": found.priority or None,
            "Requests": listed(found.requests),
        }
    )
    if found.placement is not None and found.placement.ranking:
        ranking = found.placement.ranking
        page.heading(
            "Scores", f"nodes that could take it: {found.placement.feasible}; {found.placement.basis}"
        )
        page.table(_score_columns(ranking, found.node), ranking)
    if found.nodes is not None:
        page.heading("Nodes", f"{found.nodes.with_room} of {found.nodes.total} have room now")
        page.table(NODE_REASONS, sorted(found.nodes.reasons.items(), key=lambda each: -each[1]))
    _details(page, found.details)
    for each in found.evictions:
        page.heading("Eviction", f"cycle {each.cycle}, {page.ago(each.at)}")
        page.facts(
            {
                "From": each.victim.node,
                "By": each.victim.action,
                "For": short(each.victim.beneficiary),
                "Why": short(each.why),
            }
        )
    _history(page, found.history)


def _score_columns(ranking: Sequence[NodeScore], node: str) -> list[Column]:
    free = Column("FREE", lambda row: listed(row.free), sentence=True)
    return [
        Column("", lambda row: ">" if row.node == node else " "),
        Column("PLACE", lambda row: str(row.place)),
        Column("NODE", lambda row: row.node),
        Column("SCORE", lambda row: f"{row.score:g}"),
        *plugin_columns(ranking),
        *(() if ranking[0].free is None else (free,)),
    ]


def _queue(page: Page, found: QueueExplanation) -> None:
    page.summary(short(found.summary))
    page.facts(
        {
            "Queue": found.queue,
            "Parent": found.parent,
            "State": found.state,
            "Plugin": found.plugin or "none: shares are not limited",
            "Jobs": f"{found.jobs.holding} hold resources, {found.jobs.waiting} wait",
        }
    )
    page.heading("Share", "the cluster, divided by weight, within limit and request, at least the guarantee")
    page.table(SHARE_COLUMNS, found.resources)
    if found.reasons:
        page.heading("Reasons")
        page.table(REASON_COLUMNS, found.reasons)
        page.heading("Waiting jobs", "in the order of the queue")
        page.table(JOB_COLUMNS, found.waiting)


def _node(page: Page, found: NodeExplanation) -> None:
    page.summary(short(found.summary))
    page.facts(
        {
            "Node": found.node,
            "Taints": ", ".join(found.taints),
            "Allocatable": listed(found.allocatable),
            "Free": listed(found.free) or "nothing",
            "Being released": listed(found.releasing),
        }
    )
    if found.pods:
        page.heading("Pods")
        page.table(POD_COLUMNS, found.pods)
    if found.refused:
        page.heading("Waiting jobs")
        page.table(REFUSED_COLUMNS, found.refused[:SHOWN_JOBS])
        if len(found.refused) > SHOWN_JOBS:
            page.line(f"and {len(found.refused) - SHOWN_JOBS} more")


def _cluster(page: Page, found: ClusterExplanation) -> None:
    page.summary(short(found.summary))
    page.facts(
        {
            "Nodes": f"{found.nodes.total}, {found.nodes.usable} usable",
            "Allocatable": listed(found.allocatable),
            "Free": listed(found.free) or "nothing",
            "Jobs": f"{found.jobs.total}, {found.jobs.waiting} wait",
        }
    )
    _codes(page, found.codes)
    if found.codes:
        page.heading("The change that would start most of them")
        best = found.best_change
        if best is None:
            page.line("neither one more node of a pool nor the end of one job starts any of them")
        else:
            page.line(f"{best.change}: starts {best.starts} of {best.of}")
    for error in found.errors:
        page.line(f"! {error}")


def _waiting(page: Page, found: RecordedWaiting) -> None:
    page.summary(short(found.summary))
    _codes(page, found.codes)


def _codes(page: Page, codes: Sequence[CodeCount]) -> None:
    if codes:
        page.heading("Waiting jobs by code")
        page.table(CODE_COLUMNS, codes)


def _cycles(page: Page, found: CycleList) -> None:
    page.summary(f"The record has the cycles {found.first} to {found.last}; those that changed something:")
    columns = [
        Column("CYCLE", lambda row: str(row.number)),
        Column("AGE", lambda row: page.ago(row.at)),
        Column("TOOK", lambda row: f"{row.seconds * 1000:.0f}ms"),
        Column("PLACED", lambda row: str(row.placed)),
        Column("EVICTED", lambda row: str(row.evicted)),
        Column("ADMITTED", lambda row: str(row.admitted)),
        Column("CHANGED", lambda row: str(row.changed)),
        Column("WAITING", lambda row: str(row.waiting)),
    ]
    page.table(columns, found.cycles)


def _cycle(page: Page, found: OneCycle) -> None:
    cycle = found.cycle
    if cycle is None:
        page.summary(f"Cycle {found.asked} decided nothing.")
        return
    pods = sum(len(each.pods) for each in cycle.placed)
    text = f"Cycle {cycle.number}: pods placed {pods}, evicted {len(cycle.evicted)}"
    page.summary(f"{text}; jobs that waited at its end: {len(found.diagnoses)}.")
    if cycle.number != found.asked:
        page.line(f"cycle {found.asked} changed nothing; this is the last one before it that did")
    page.facts(
        {
            "At": f"{timestamp(cycle.at)} ({page.ago(cycle.at)})",
            "Took": f"{cycle.seconds * 1000:.0f}ms",
            "Admitted": short(", ".join(cycle.admitted)),
            "Errors": "; ".join(cycle.errors),
        }
    )
    for title, columns, rows in (
        ("Placed", PLACED_COLUMNS, cycle.placed),
        ("Evicted", EVICTED_COLUMNS, cycle.evicted),
        ("Diagnoses that changed", WAITING_COLUMNS, cycle.diagnoses),
    ):
        if rows:
            page.heading(title)
            page.table(columns, rows)


def _placed_nodes(row: Placed) -> str:
    counts = Counter(row.pods.values())
    return ", ".join(f"{node} ({count})" if count > 1 else node for node, count in counts.items())


REASON_COLUMNS = (Column("JOBS", lambda row: str(row.jobs)), Column("CODE", lambda row: row.code))
POD_COLUMNS = (
    Column("POD", lambda row: row.pod),
    Column("JOB", lambda row: row.job, spare=2),
    Column("QUEUE", lambda row: row.queue),
    Column("USER", lambda row: row.user),
    Column("STATUS", lambda row: row.status, coloured=True),
    Column("REQUESTS", lambda row: listed(row.requests), sentence=True),
)
REFUSED_COLUMNS = (
    Column("JOB", lambda row: row.job),
    Column("USER", lambda row: row.user),
    Column("REASON", lambda row: row.reason, sentence=True),
)
CODE_COLUMNS = (
    Column("JOBS", lambda row: str(row.jobs)),
    Column("CLASS", lambda row: row.class_),
    Column("CODE", lambda row: row.code),
    Column("EXAMPLES", lambda row: short(", ".join(row.examples)), spare=1),
    Column("MEANING", lambda row: row.meaning, sentence=True),
)
PLACED_COLUMNS = (
    Column("JOB", lambda row: short(row.job)),
    Column("PODS", lambda row: str(len(row.pods))),
    Column("NODES", _placed_nodes, sentence=True),
)
EVICTED_COLUMNS = (
    Column("POD", lambda row: row.pod),
    Column("NODE", lambda row: row.node),
    Column("ACTION", lambda row: row.action),
    Column("FOR", lambda row: short(row.beneficiary)),
)
WAITING_COLUMNS = (
    Column("JOB", lambda row: short(row.job)),
    Column("CODE", lambda row: row.code),
    Column("MESSAGE", lambda row: row.message, sentence=True),
)
