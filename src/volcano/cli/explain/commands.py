"""`vcctl explain job|pod|queue|node|cycle|cluster`: flags, and the flow from reading to printing."""

import argparse
from collections.abc import Awaitable, Callable
from typing import Any

from volcano.cli import flags
from volcano.cli.errors import NoServer, UsageError, near
from volcano.cli.explain import screens, subjects
from volcano.cli.explain.layout import Page
from volcano.cli.objects import named, target
from volcano.cli.printing.output import render
from volcano.cli.session import Session

PARTS = ("nodes", "scores", "victims", "plugins")
MOST_RERUNS = 1000
PAUSE = 2.0  # seconds between two looks at the cluster
CLEAR = "\x1b[H\x1b[2J"
Data = dict[str, Any]
# Computes the data of one subject.
Explain = Callable[[Session, argparse.Namespace], Awaitable[Data]]


def job_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_target(parser, "job")
    _add_flags(parser, parts=True)
    parser.add_argument(
        "--reruns",
        type=_reruns,
        default=0,
        metavar="N",
        help="re-runs of the scheduler to find changes that would start the job (default: those of about 1.5 s)",
    )


def pod_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_target(parser, "pod")
    _add_flags(parser, parts=True)


def queue_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_named(parser, "queue")
    _add_flags(parser)


def node_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_named(parser, "node")
    _add_flags(parser, past=False)


def cluster_arguments(parser: argparse.ArgumentParser) -> None:
    _add_flags(parser)


def cycle_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "number", nargs="?", default="", metavar="N", help="number of the cycle (default: the last ones)"
    )
    parser.add_argument(
        "--at", default="", metavar="TIME", help="the cycle at a time such as 2026-11-17T18:00:00Z"
    )
    _add_output(parser)


async def job(arguments: argparse.Namespace, session: Session) -> int:
    arguments.key = target(arguments, session, "job name is mandatory to explain a particular job")
    return await _show(arguments, session, subjects.of_job)


async def pod(arguments: argparse.Namespace, session: Session) -> int:
    arguments.key = target(arguments, session, "pod name is mandatory to explain a particular pod")
    return await _show(arguments, session, subjects.of_pod)


async def queue(arguments: argparse.Namespace, session: Session) -> int:
    arguments.key = named(arguments, "queue name is mandatory to explain a particular queue")
    return await _show(arguments, session, subjects.of_queue)


async def node(arguments: argparse.Namespace, session: Session) -> int:
    arguments.key = named(arguments, "node name is mandatory to explain a particular node")
    return await _show(arguments, session, subjects.of_node)


async def cluster(arguments: argparse.Namespace, session: Session) -> int:
    return await _show(arguments, session, subjects.of_cluster)


async def cycle(arguments: argparse.Namespace, session: Session) -> int:
    if arguments.number and not arguments.number.isdigit():
        raise UsageError(f"{arguments.number!r} is not the number of a cycle")
    return await _show(arguments, session, subjects.of_cycle)


def _reruns(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= MOST_RERUNS:
        raise UsageError(f"--reruns: {text!r} is not a number from 1 to {MOST_RERUNS}")
    return int(text)


def _part(text: str) -> str:
    """A part to show more about. A number is the verbosity of logs, which every command accepts and which shows nothing
    more here."""
    if text not in PARTS and not text.isdigit():
        raise UsageError(f"-v: {text!r} is none of {', '.join(PARTS)}{near(text, PARTS)}")
    return text


def _add_flags(parser: argparse.ArgumentParser, *, past: bool = True, parts: bool = False) -> None:
    if parts:
        parser.add_argument(
            "-v",
            "--verbose",
            action="append",
            default=[],
            type=_part,
            metavar="PART",
            help="more about nodes, scores, victims or plugins; repeatable",
        )
    if past:
        parser.add_argument("--cycle", default="", metavar="N", help="as it was after this cycle")
        parser.add_argument(
            "--at", default="", metavar="TIME", help="as it was at a time such as 2026-11-17T18:00:00Z"
        )
    _add_output(parser)


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", default="", metavar="FORMAT", help="json or yaml: the same as data")
    parser.add_argument("-w", "--watch", action="store_true", help="print it again whenever it changes")


async def _show(arguments: argparse.Namespace, session: Session, explain: Explain) -> int:
    if arguments.output not in ("", "json", "yaml"):
        raise UsageError(f"-o: {arguments.output!r} is none of json, yaml")
    arguments.verbose = [part for part in getattr(arguments, "verbose", ()) if not part.isdigit()]
    past = getattr(arguments, "cycle", ""), getattr(arguments, "at", "")
    if all(past):
        raise UsageError("--cycle and --at are given; choose one")
    if past[0] and not past[0].isdigit():
        raise UsageError(f"--cycle: {past[0]!r} is not the number of a cycle")
    if arguments.watch and any(past):
        raise UsageError("--watch shows the present; leave out --cycle and --at")
    before = None
    while True:
        found = await _computed(arguments, session, explain)
        comparable = {name: value for name, value in found.items() if name != "estimate"}
        if comparable != before:
            _print(arguments, session, found)
            session.stdout.flush()
        if not arguments.watch:
            return 0
        before = comparable
        await session.clock.sleep(PAUSE)


async def _computed(arguments: argparse.Namespace, session: Session, explain: Explain) -> Data:
    from volcano.analysis.rerun.state import MissingRights

    try:
        return await explain(session, arguments)
    except MissingRights as error:
        raise NoServer(str(error)) from None


def _print(arguments: argparse.Namespace, session: Session, found: Data) -> None:
    if arguments.output:
        session.write(render(arguments.output, found))
        return
    if arguments.watch and session.terminal:
        session.write(CLEAR, end="")
    screens.show(Page(session), found)
