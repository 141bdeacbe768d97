"""`vcctl job logs`: logs of a job's pods, interleaved, each line prefixed with its pod."""

import argparse

from volcano.base.captured_log import captured_log
from volcano.cli import flags
from volcano.cli.errors import UsageError, value_of
from volcano.cli.job.log_printer import Printer
from volcano.cli.objects import target
from volcano.cli.session import Session
from volcano.kube.api import duration
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Manifest
from volcano.services.logs.follow import follow_logs, read_logs
from volcano.services.logs.sources import Wanted, check
from volcano.services.objects import find


def run_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_target(parser, "job")
    add = parser.add_argument
    add(
        "-f", "--follow", action="store_true", help="stay, follow pods that start later, and end with the job"
    )
    add(
        "-t",
        "--task",
        default="",
        metavar="TASK",
        help="only this task's pods (default: the pods of every task)",
    )
    add("-i", "--index", type=int, default=None, metavar="N", help="only the pods of this index")
    add("--all", action="store_true", help="every container of every pod, init containers included")
    add("-c", "--container", default="", metavar="NAME", help="this container (default: each pod's main one)")
    add("--tail", type=int, default=None, metavar="N", help="only the last N lines of each pod")
    add("--since", default="", metavar="TIME", help="only lines younger than this, such as 10s, 5m or 1h")
    add("-p", "--previous", action="store_true", help="of the container that ran before the last restart")
    add("--timestamps", action="store_true", help="print when each line was written")
    add("--no-prefix", action="store_true", help="print the lines alone, without the pod's name")
    parser.description = (
        "Print the logs of a job's pods, interleaved; --task and --index select some of them."
    )


async def run(arguments: argparse.Namespace, session: Session) -> int:
    wanted = wanted_of(arguments)
    key = target(arguments, session, "job name is mandatory to read the logs of a particular job")
    job = await find(session.client, JOB, key)
    check(wanted, job)
    shown = {"timestamps": arguments.timestamps, "prefix": not arguments.no_prefix}
    if arguments.follow:
        await follow(session, job, wanted, **shown)
        return 0
    logs = await read_logs(session.client, job, wanted)
    for note in logs.notes:
        session.warn(note)
    Printer(session, job, wanted, **shown).lines(logs.lines)
    return 1 if logs.is_unreadable else 0


def wanted_of(arguments: argparse.Namespace) -> Wanted:
    """Selection described by the flags."""
    if arguments.tail is not None and arguments.tail < 0:
        raise UsageError(f"--tail: {arguments.tail} is negative; give a number of lines")
    if arguments.all and arguments.container:
        raise UsageError("--all and --container exclude each other: all containers, or one")
    if arguments.follow and arguments.previous:
        raise UsageError("--follow and --previous exclude each other: what is over cannot be followed")
    since = None
    if arguments.since:
        with value_of("--since"):
            since = duration.parse(arguments.since)
    return Wanted(
        arguments.task, arguments.index, arguments.container, arguments.all, arguments.tail, since,
        arguments.previous,
    )  # fmt: skip


async def follow(
    session: Session, job: Manifest, wanted: Wanted, *, timestamps: bool = False, prefix: bool = True
) -> str:
    """Prints lines as they are written until the job ends; returns its final phase."""
    printer = Printer(session, job, wanted, timestamps=timestamps, prefix=prefix)
    with captured_log():  # interrupted connections are retried; their messages are noise
        return await follow_logs(
            session.client, session.clock, job, wanted, on_lines=printer.lines, on_note=session.warn
        )
