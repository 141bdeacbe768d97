"""`volcano config plan`: what another configuration of the scheduler would do in a live cluster."""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from volcano.analysis.config_plan import ChangedShare, ConfigPlan, Eviction, Start, as_data, config_plan
from volcano.analysis.live_config import read_config, read_options
from volcano.analysis.state import ClusterState, MissingRights
from volcano.cli.errors import CommandError as ConnectionFailure
from volcano.cli.printing.tables import Column, Layout, selected
from volcano.cli.session import Session
from volcano.clients.kubeconfig import Overrides
from volcano.entry.configuration import read
from volcano.entry.errors import CommandError
from volcano.kube.errors import ApiError
from volcano.scheduler.engine.config import Config, ConfigError, parse, shipped
from volcano.scheduler.snapshot_file import SnapshotError

MOST_ROWS = 20


class _Row(NamedTuple):
    queue: str
    resource: str
    deserved: str
    deserved_after: str
    allocated: str
    allocated_after: str


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


def plan(arguments: argparse.Namespace) -> int:
    """Prints the plan; writes nothing to the cluster."""
    try:
        new = parse(read(arguments.file), arguments.file)
    except ConfigError as error:
        raise CommandError(str(error)) from None
    for warning in new.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    state, present = _saved(arguments.snapshot) if arguments.snapshot else _live(arguments)
    found = config_plan(state, present, new)
    if arguments.output == "json":
        print(json.dumps(as_data(found), indent=2))
    else:
        _show(Session(), found)
    return 0


def _saved(path: str) -> tuple[ClusterState, Config]:
    """The cluster in a snapshot file, and the configuration in it."""
    try:
        state = ClusterState.of_snapshot(Path(path).read_bytes())
        return state, parse(state.config_text or shipped(), path)
    except (SnapshotError, ConfigError) as error:
        raise CommandError(f"{path}: {error}") from None


def _live(arguments: argparse.Namespace) -> tuple[ClusterState, Config]:
    """The cluster, and the configuration of its scheduler."""
    session = Session(kubeconfig=arguments.kubeconfig, overrides=Overrides(context=arguments.context))

    async def take() -> tuple[ClusterState, Config]:
        try:
            live = await read_config(session.client)
            if live.note:
                print(f"note: {live.note}", file=sys.stderr)
            options = await read_options(session.client)
            state = await ClusterState.read(session.client, session.clock, options, config=live.config)
            return state, live.config
        finally:
            await session.client.close()

    try:
        state, config = asyncio.run(take())
    except ApiError as error:
        raise CommandError(f"the cluster cannot be read: {error.message}") from None
    except MissingRights as error:
        raise CommandError(f"the cluster cannot be read: {error}") from None
    except ConnectionFailure as error:
        raise CommandError(str(error)) from None
    if state.not_listed:
        names = ", ".join(kind.plural for kind in state.not_listed)
        print(f"note: you may not list {names}; the plan does not take them into account", file=sys.stderr)
    return state, config


def _show(session: Session, found: ConfigPlan) -> None:
    if found.changes_nothing:
        session.write("The new configuration changes nothing now: shares, jobs and pods stay as they are.")
    rows = [row for share in found.shares for row in _rows(share)]
    _section(session, "Shares that change:", SHARES, rows)
    _section(session, "Jobs that would start:", STARTS, found.starting)
    _section(session, "Jobs that would start now, but not with it:", STARTS, found.not_starting)
    _section(session, "Pods that would be evicted:", EVICTIONS, found.evictions)
    if found.waiting:
        jobs = "1 job waits" if found.waiting == 1 else f"{found.waiting} jobs wait"
        session.write(f"{jobs} with both configurations.")


def _rows(share: ChangedShare) -> list[_Row]:
    """The resources of a queue that change."""
    before, after = share.before.as_data(), share.after.as_data()
    names = dict.fromkeys((*before["deserved"], *after["deserved"], *after["allocated"]))
    rows = [
        _Row(
            share.queue,
            name,
            before["deserved"].get(name, "-"),
            after["deserved"].get(name, "-"),
            before["allocated"].get(name, "0"),
            after["allocated"].get(name, "0"),
        )
        for name in names
    ]
    return [row for row in rows if row.deserved != row.deserved_after or row.allocated != row.allocated_after]


def _section(
    session: Session, title: str, columns: Sequence[Column], rows: "Sequence[_Row | Start | Eviction]"
) -> None:
    if not rows:
        return
    session.write(title)
    layout = Layout(
        selected(columns, wide=False, terminal=session.terminal),
        rows[:MOST_ROWS],
        terminal=session.terminal,
        colour=session.colour,
        room=session.width,
    )
    for line in (layout.header(), *(layout.row(row) for row in rows[:MOST_ROWS])):
        session.write(f"  {line}".rstrip())
    if len(rows) > MOST_ROWS:
        session.write(f"  ... and {len(rows) - MOST_ROWS} more; -o json prints all")
    session.write()
