"""`vcctl job list --start`: when jobs that wait are expected to start."""

import argparse
from collections.abc import Callable
from typing import Any

from volcano.base.clock import timestamp
from volcano.cli.objects import namespace
from volcano.cli.printing.output import is_table, render
from volcano.cli.printing.tables import Column
from volcano.cli.session import Session
from volcano.kube.api.manifest import Manifest, key_of
from volcano.services.starts import JobStart, expected_starts

NOTHING = "No jobs wait"
UNKNOWN = "unknown"
BASIS = {
    "walltime": "walltimes of running jobs",
    "history": "run times of finished jobs",
    "reservation": "reserved nodes",
}


async def show_starts(
    keep: Callable[[Manifest], bool], arguments: argparse.Namespace, session: Session
) -> int:
    """Prints the jobs that wait with the interval in which they are expected to start."""
    inside = namespace(arguments, session)
    found = await expected_starts(
        session.client, session.clock, namespace=inside, labels=arguments.label_selector, keep=keep
    )
    for note in found.notes:
        session.warn(note)
    rows = found.jobs
    if not is_table(arguments.output):
        output = "json" if arguments.output == "name" else arguments.output
        session.write(render(output, {"items": [_document(row) for row in rows]}))
        return 0
    if not rows:
        session.write(NOTHING)
        return 0
    columns = COLUMNS if not inside else COLUMNS[1:]
    session.table(columns, rows, headers=not arguments.no_headers, padded=True)
    return 0


def _document(row: JobStart) -> dict[str, Any]:
    earliest, latest = row.interval or (None, None)
    key = key_of(row.job)
    return {
        "namespace": key.namespace,
        "name": key.name,
        "earliest": None if earliest is None else timestamp(earliest),
        "latest": None if latest is None else timestamp(latest),
        "basis": row.basis or None,
        "waitsFor": row.waits_for,
    }


def _earliest(row: JobStart) -> str:
    interval = row.interval
    return UNKNOWN if interval is None else "-" if interval[0] is None else timestamp(interval[0])


def _latest(row: JobStart) -> str:
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
