"""`volcano config plan`: what another configuration of the scheduler would do in a live cluster."""

import argparse
import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

from volcano.analysis.plan.config_plan import ConfigPlan, config_plan
from volcano.analysis.plan.tables import UNCHANGED, Section, sections, waiting_sentence
from volcano.analysis.rerun.state import ClusterState
from volcano.cli.errors import CommandError
from volcano.cli.session import Session
from volcano.cli.volcano.configuration import read
from volcano.kube.api.errors import ApiError
from volcano.kube.client.kubeconfig import Overrides
from volcano.scheduler.engine.config import Config, ConfigError, parse, shipped
from volcano.scheduler.snapshot_file import SnapshotError
from volcano.services.connection import Connection
from volcano.services.document import document
from volcano.services.errors import ServiceError
from volcano.services.plan import plan_config

MOST_ROWS = 20


def plan(arguments: argparse.Namespace) -> int:
    """Prints the plan; writes nothing to the cluster."""
    try:
        new = parse(read(arguments.file), arguments.file)
    except ConfigError as error:
        raise CommandError(str(error)) from None
    for warning in new.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    found = _saved(arguments.snapshot, new) if arguments.snapshot else _live(arguments, new)
    for note in found.notes:
        print(f"note: {note}", file=sys.stderr)
    if arguments.output == "json":
        print(json.dumps(document(replace(found, notes=())), indent=2))
    else:
        _show(Session(), found)
    return 0


def _saved(path: str, new: Config) -> ConfigPlan:
    """The plan for the cluster in a snapshot file, compared with the configuration in it."""
    try:
        state = ClusterState.of_snapshot(Path(path).read_bytes())
        present = parse(state.config_text or shipped(), path)
    except (SnapshotError, ConfigError) as error:
        raise CommandError(f"{path}: {error}") from None
    return config_plan(state, present, new)


def _live(arguments: argparse.Namespace, new: Config) -> ConfigPlan:
    """The plan for a cluster, compared with the configuration of its scheduler."""
    connection = Connection(kubeconfig=arguments.kubeconfig, overrides=Overrides(context=arguments.context))

    async def planned() -> ConfigPlan:
        try:
            return await plan_config(connection.client, connection.clock, new)
        finally:
            await connection.close()

    try:
        return asyncio.run(planned())
    except ApiError as error:
        raise CommandError(f"the cluster cannot be read: {error.message}") from None
    except ServiceError as error:
        raise CommandError(str(error)) from None


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
