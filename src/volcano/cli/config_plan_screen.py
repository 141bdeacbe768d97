"""Tables of the plan of a scheduler configuration: of `volcano config plan` and of the dashboard."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from volcano.analysis.plan.config_plan import ChangedShare, ConfigPlan
from volcano.cli.printing.tables import Column

UNCHANGED = "changes nothing now: shares, jobs and pods stay as they are."


class ShareRow(NamedTuple):
    """A resource of a queue that the configuration changes."""

    queue: str
    resource: str
    deserved: str
    deserved_after: str
    allocated: str
    allocated_after: str


class Section(NamedTuple):
    """One table with its title."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Any]


SHARES = (
    Column("Queue", lambda row: row.queue),
    Column("Resource", lambda row: row.resource),
    Column("Deserved", lambda row: row.deserved),
    Column("New", lambda row: row.deserved_after),
    Column("Allocated", lambda row: row.allocated),
    Column("Afterwards", lambda row: row.allocated_after),
)
STARTS = (
    Column("Job", lambda start: start.job),
    Column("Queue", lambda start: start.queue),
    Column("Also now", lambda start: "yes" if start.anyway else "no"),
)
EVICTIONS = (
    Column("Pod", lambda each: f"{each.victim.namespace}/{each.victim.name}"),
    Column("Job", lambda each: each.job),
    Column("By", lambda each: each.victim.reason),
    Column("For", lambda each: each.on_behalf_of or "-"),
    Column("Also now", lambda each: "yes" if each.anyway else "no"),
)


def sections(plan: ConfigPlan) -> list[Section]:
    """The tables that have rows."""
    found = (
        Section("Shares that change", SHARES, [row for share in plan.shares for row in share_rows(share)]),
        Section("Jobs that would start", STARTS, plan.starting),
        Section("Jobs that would start now, but not with it", STARTS, plan.not_starting),
        Section("Pods that would be evicted", EVICTIONS, plan.evictions),
    )
    return [section for section in found if section.rows]


def waiting_sentence(plan: ConfigPlan) -> str:
    """How many jobs wait in any case; "" if none does."""
    jobs = "1 job waits" if plan.waiting == 1 else f"{plan.waiting} jobs wait"
    return f"{jobs} with both configurations." if plan.waiting else ""


def share_rows(share: ChangedShare) -> Iterator[ShareRow]:
    """The resources of a queue that change."""
    before, after = share.before.as_data(), share.after.as_data()
    for name in dict.fromkeys((*before["deserved"], *after["deserved"], *after["allocated"])):
        row = ShareRow(
            share.queue,
            name,
            before["deserved"].get(name, "-"),
            after["deserved"].get(name, "-"),
            before["allocated"].get(name, "0"),
            after["allocated"].get(name, "0"),
        )
        if row.deserved != row.deserved_after or row.allocated != row.allocated_after:
            yield row
