"""`vcctl job logs`: logs of a job's pods, interleaved, each line prefixed with its pod."""

import argparse

from volcano.apiserver.endpoints.tables.pods import pod_status
from volcano.cli import flags
from volcano.cli.errors import UsageError
from volcano.cli.job.following import phase_of, why
from volcano.cli.job.log_follow import follow
from volcano.cli.job.log_lines import Line, in_order, parse_line
from volcano.cli.job.log_sources import Printer, Wanted, check, has_started, place_of, sources, target_of
from volcano.cli.objects import find, target
from volcano.cli.session import Session
from volcano.kube.api import duration
from volcano.kube.api.errors import BadRequest, NotFound
from volcano.kube.api.kinds import JOB, POD
from volcano.kube.api.manifest import Key, Manifest, key_of
from volcano.kube.api.names import JOB_NAME
from volcano.kube.client.protocol import Query


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
    job = await find(session, JOB, key)
    check(wanted, job)
    if arguments.follow:
        await follow(session, job, wanted)
        return 0
    return await print_once(session, job, wanted)


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
        try:
            since = duration.parse(arguments.since)
        except ValueError as error:
            raise UsageError(f"--since: {error}") from None
    return Wanted(
        arguments.task, arguments.index, arguments.container, arguments.all, arguments.tail, since,
        arguments.previous, arguments.timestamps, not arguments.no_prefix,
    )  # fmt: skip


async def print_once(session: Session, job: Manifest, wanted: Wanted) -> int:
    """Prints existing lines in order of time; returns 1 if no pod's log could be read."""
    key = key_of(job)
    pods = [pod for pod in await _pods(session, key) if wanted.takes(pod)]
    if not pods:
        reason = await why(session, job)
        session.warn(f"job {key} is {phase_of(job)} and has no pods yet" + (f": {reason}" if reason else ""))
        return 0
    chosen = []
    for pod in pods:
        for source in sources(pod, job, wanted):
            if has_started(pod, source.container):
                chosen.append(source)
            else:
                session.warn(f"{source.title}: has not started yet ({pod_status(pod) or 'Pending'})")
    logs: list[tuple[str, list[Line]]] = []
    by_number = {str(position): source for position, source in enumerate(chosen)}
    failures = 0
    for number_, source in by_number.items():
        try:
            reply = await session.client.raw("GET", target_of(source, wanted))
            logs.append((number_, [parse_line(raw) for raw in reply.body.splitlines()]))
        except (BadRequest, NotFound) as error:
            failures += 1
            session.warn(f"{source.title}: {error.message}")
    printer = Printer(session, job, wanted)
    for number_, line in in_order(logs):
        printer.line(by_number[number_], line)
    return 1 if chosen and failures == len(chosen) else 0


async def _pods(session: Session, job: Key) -> list[Manifest]:
    query = Query(job.namespace, labels=f"{JOB_NAME}={job.name}")
    return sorted((await session.client.list(POD, query)).items, key=place_of)
