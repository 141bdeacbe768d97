"""`vcctl job list --start`: when jobs that wait are expected to start."""

import argparse
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from volcano.analysis.estimate.estimates import Estimate, estimate
from volcano.analysis.explain.case import shown_name
from volcano.analysis.rerun.live_config import read_config, read_options
from volcano.analysis.rerun.state import ClusterState, MissingRights
from volcano.base.clock import timestamp
from volcano.cli.objects import namespace
from volcano.cli.printing.output import is_table, render
from volcano.cli.printing.tables import Column
from volcano.cli.run_history import read_run_history
from volcano.cli.session import Session
from volcano.kube.api.kinds import JOB, POD_GROUP
from volcano.kube.api.manifest import Key, Manifest, key_of, uid_of
from volcano.kube.client.protocol import Query
from volcano.model.reservations import ReservedGang, reserved_gang
from volcano.views.jobs import WAITING

NOTHING = "No jobs wait"
UNKNOWN = "unknown"
BASIS = {
    "walltime": "walltimes of running jobs",
    "history": "run times of finished jobs",
    "reservation": "reserved nodes",
}


class Row(NamedTuple):
    """A job that waits and what is known about its start."""

    job: Manifest
    estimate: Estimate | None
    reserved: ReservedGang | None

    @property
    def interval(self) -> tuple[float | None, float] | None:
        """Earliest and latest start; a reservation only gives the latest."""
        latest = self.reserved.start if self.reserved is not None else None
        if self.estimate is not None:
            most = self.estimate.latest if latest is None else min(self.estimate.latest, latest)
            return min(self.estimate.earliest, most), most
        return None if latest is None else (None, latest)

    @property
    def basis(self) -> str:
        if self.estimate is not None:
            return self.estimate.basis
        return "reservation" if self.interval is not None else ""

    @property
    def waits_for(self) -> list[str]:
        """The jobs whose end it waits for."""
        return [shown_name(each) for each in self.estimate.waits_for] if self.estimate is not None else []

    def document(self) -> dict[str, Any]:
        earliest, latest = self.interval or (None, None)
        key = key_of(self.job)
        return {
            "namespace": key.namespace,
            "name": key.name,
            "earliest": None if earliest is None else timestamp(earliest),
            "latest": None if latest is None else timestamp(latest),
            "basis": self.basis or None,
            "waitsFor": self.waits_for,
        }


async def show_starts(
    keep: Callable[[Manifest], bool], arguments: argparse.Namespace, session: Session
) -> int:
    """Prints the jobs that wait with the interval in which they are expected to start."""
    inside = namespace(arguments, session)
    jobs = (await session.client.list(JOB, Query(namespace=inside, labels=arguments.label_selector))).items
    groups = (await session.client.list(POD_GROUP, Query(namespace=inside))).items
    waiting = [job for job in jobs if keep(job) and _phase(job) in WAITING]
    estimates = await _estimates(session) if waiting else {}
    rows = [_row(job, estimates, groups) for job in sorted(waiting, key=key_of)]
    if not is_table(arguments.output):
        text = render("json" if arguments.output == "name" else arguments.output, _documents(rows))
        session.write(text)
        return 0
    if not rows:
        session.write(NOTHING)
        return 0
    columns = COLUMNS if not inside else COLUMNS[1:]
    session.table(columns, rows, headers=not arguments.no_headers, padded=True)
    return 0


async def _estimates(session: Session) -> Mapping[str, Estimate]:
    """Estimates by the uid of the PodGroup; none where the user may not list what they are computed from."""
    live = await read_config(session.client)
    try:
        state = await ClusterState.read(
            session.client, session.clock, await read_options(session.client), config=live.config
        )
    except MissingRights as error:
        session.warn(f"only reserved starts are shown: {error}")
        return {}
    history = await read_run_history(session, state.snapshot())
    return estimate(state, live.config, history, state.now)


def _row(job: Manifest, estimates: Mapping[str, Estimate], groups: list[Manifest]) -> Row:
    key = key_of(job)
    names = (f"{key.name}-{uid_of(job)}", key.name)
    found = next((estimates[uid] for name in names if (uid := f"{key.namespace}/{name}") in estimates), None)
    own = next(
        (group for group in groups if key_of(group) in [Key(key.namespace, name) for name in names]), None
    )
    return Row(job, found, reserved_gang(own) if own is not None else None)


def _documents(rows: list[Row]) -> dict[str, Any]:
    return {"items": [row.document() for row in rows]}


def _phase(job: Manifest) -> str:
    return str(((job.get("status") or {}).get("state") or {}).get("phase") or "Pending")


def _earliest(row: Row) -> str:
    interval = row.interval
    return UNKNOWN if interval is None else "-" if interval[0] is None else timestamp(interval[0])


def _latest(row: Row) -> str:
    return UNKNOWN if row.interval is None else timestamp(row.interval[1])


COLUMNS = (
    Column("Namespace", lambda row: key_of(row.job).namespace),
    Column("Name", lambda row: key_of(row.job).name),
    Column("Queue", lambda row: str((row.job.get("spec") or {}).get("queue") or ""), spare=2),
    Column("Earliest", _earliest),
    Column("Latest", _latest),
    Column("Basis", lambda row: BASIS.get(row.basis, ""), spare=1),
    Column("WaitsFor", lambda row: ", ".join(row.waits_for), sentence=True),
)
