"""`vcctl plan`: shows what would happen to a job, without creating it."""

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from volcano.cli import flags
from volcano.cli.errors import CommandError, UsageError
from volcano.cli.printing.output import render
from volcano.cli.session import Session
from volcano.kube.api.manifest import Key, Manifest
from volcano.services.document import document

if TYPE_CHECKING:
    from volcano.scheduler.engine.config import Config

NOT_NOW = 5  # exit code: the job would not start now
OUTPUTS = ("", "table", "json", "yaml")


def run_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-f",
        "--filename",
        default="",
        metavar="FILE",
        help="YAML or JSON file with jobs; - for standard input",
    )
    add("--from-running", default="", metavar="NAME", help="a job that exists, with another number of pods")
    add("--replicas", type=int, default=None, metavar="N", help="with --from-running: the number of pods")
    add("--task", default="", metavar="TASK", help="with --replicas: the task that is scaled")
    add(
        "--allow-preempt",
        action="store_true",
        help="let the scheduler evict pods for the job, and show which",
    )
    add(
        "--scheduler-conf",
        default="",
        metavar="FILE",
        help="configuration to plan with (default: that of the scheduler)",
    )
    flags.add_namespace(parser)
    add("-o", "--output", default="", metavar="FORMAT", help="table, json or yaml")


async def run(arguments: argparse.Namespace, session: Session) -> int:
    """Plans the jobs of a file, or a running job with other replicas. Creates nothing."""
    _check(arguments)
    from volcano.services.plan import plan_new, plan_scaled

    namespace = arguments.namespace or arguments.short_n or session.namespace
    config, allowed = _config(arguments.scheduler_conf), arguments.allow_preempt
    if arguments.from_running:
        found = await plan_scaled(
            session.client,
            session.clock,
            Key(namespace, arguments.from_running),
            arguments.replicas,
            task=arguments.task,
            config=config,
            allow_preempt=allowed,
        )
    else:
        found = await plan_new(
            session.client,
            session.clock,
            _documents(arguments.filename),
            namespace=namespace,
            source=arguments.filename,
            config=config,
            allow_preempt=allowed,
        )
    for note in found.notes:
        session.warn(f"note: {note}")
    if arguments.output in ("json", "yaml"):
        session.write(render(arguments.output, document(replace(found, notes=()))))
    else:
        from volcano.cli.plan_screen import show

        show(session, found.jobs)
    return 0 if found.starts else NOT_NOW


def _check(arguments: argparse.Namespace) -> None:
    if bool(arguments.filename) is bool(arguments.from_running):
        raise UsageError("give either a file with -f, or a job that exists with --from-running")
    if arguments.replicas is not None and not arguments.from_running:
        raise UsageError("--replicas belongs to --from-running; in a file, change the replicas of the task")
    if arguments.replicas is not None and arguments.replicas < 1:
        raise UsageError(f"--replicas: {arguments.replicas} is less than 1")
    if arguments.from_running and arguments.replicas is None:
        raise UsageError("--from-running needs --replicas N")
    if arguments.output not in OUTPUTS:
        raise UsageError(f"-o: {arguments.output!r} is none of table, json, yaml")


def _documents(path: str) -> list[Manifest]:
    from volcano.embedded.files import FileError, read_files

    try:
        documents = read_files([path])
    except FileError as error:
        raise CommandError(str(error)) from None
    if not documents:
        raise CommandError(f"{path}: there is no object in this file")
    return [document.manifest for document in documents]


def _config(chosen: str) -> "Config | None":
    """The chosen configuration; None for that of the scheduler."""
    from volcano.scheduler.engine.config import PRESETS, ConfigError, parse, shipped

    if not chosen:
        return None
    try:
        if chosen in PRESETS:
            return parse(shipped(PRESETS[chosen]), chosen)
        with open(chosen, encoding="utf-8") as file:
            return parse(file.read(), chosen)
    except ConfigError as error:
        raise CommandError(str(error)) from None
