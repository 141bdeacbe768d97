"""`volcano config plan`: what another configuration of the scheduler would do in a live cluster."""

import argparse
import asyncio
import json
import sys
from pathlib import Path

from volcano.analysis.plan.config_plan import ConfigPlan, as_data, config_plan
from volcano.analysis.rerun.live_config import read_config, read_options
from volcano.analysis.rerun.state import ClusterState, MissingRights
from volcano.cli.config_plan_screen import UNCHANGED, Section, sections, waiting_sentence
from volcano.cli.errors import CommandError
from volcano.cli.session import Session
from volcano.cli.volcano.configuration import read
from volcano.kube.api.errors import ApiError
from volcano.kube.client.kubeconfig import Overrides
from volcano.scheduler.engine.config import Config, ConfigError, parse, shipped
from volcano.scheduler.snapshot_file import SnapshotError
from volcano.services.connection import Connection
from volcano.services.errors import Unreachable

MOST_ROWS = 20


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
    session = Session(
        Connection(kubeconfig=arguments.kubeconfig, overrides=Overrides(context=arguments.context))
    )

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
    except Unreachable as error:
        raise CommandError(str(error)) from None
    if state.not_listed:
        names = ", ".join(kind.plural for kind in state.not_listed)
        print(f"note: you may not list {names}; the plan does not take them into account", file=sys.stderr)
    return state, config


def _show(session: Session, found: ConfigPlan) -> None:
    if found.changes_nothing:
        session.write(f"The new configuration {UNCHANGED}")
    for section in sections(found):
        _write(session, section)
    if sentence := waiting_sentence(found):
        session.write(sentence)


def _write(session: Session, section: Section) -> None:
    title, columns, rows = section
    session.write(f"{title}:")
    session.table(columns, rows[:MOST_ROWS], indent="  ")
    if len(rows) > MOST_ROWS:
        session.write(f"  ... and {len(rows) - MOST_ROWS} more; -o json prints all")
    session.write()
