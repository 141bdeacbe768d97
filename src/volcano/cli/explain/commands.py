"""`vcctl explain job|pod|queue|node|cycle|cluster`: flags, and the flow from reading to printing."""

import argparse
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from volcano.cli import flags
from volcano.cli.errors import UsageError, near
from volcano.cli.explain.layout import Page
from volcano.cli.objects import named, target
from volcano.cli.printing.output import render
from volcano.cli.session import Session
from volcano.services.document import document

if TYPE_CHECKING:
    from volcano.cli.explain.screens import Explanation

PARTS = ("nodes", "scores", "victims", "plugins")
MOST_RERUNS = 1000
PAUSE = 2.0  # seconds between two looks at the cluster
CLEAR = "\x1b[H\x1b[2J"


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
    from volcano.services.explain.jobs import explain_job

    key = target(arguments, session, "job name is mandatory to explain a particular job")

    async def explain() -> "Explanation":
        return await explain_job(
            session.client,
            session.clock,
            key,
            details=_parts(arguments),
            reruns=arguments.reruns,
            **_moment(arguments),
        )

    return await _show(arguments, session, explain)


async def pod(arguments: argparse.Namespace, session: Session) -> int:
    from volcano.services.explain.pods import explain_pod

    key = target(arguments, session, "pod name is mandatory to explain a particular pod")

    async def explain() -> "Explanation":
        return await explain_pod(
            session.client, session.clock, key, details=_parts(arguments), **_moment(arguments)
        )

    return await _show(arguments, session, explain)


async def queue(arguments: argparse.Namespace, session: Session) -> int:
    from volcano.services.explain.cluster import explain_queue, explain_waiting

    name = named(arguments, "queue name is mandatory to explain a particular queue").name

    async def explain() -> "Explanation":
        if moment := _moment(arguments):
            return await explain_waiting(session.client, queue=name, **moment)
        return await explain_queue(session.client, session.clock, name)

    return await _show(arguments, session, explain)


async def node(arguments: argparse.Namespace, session: Session) -> int:
    from volcano.services.explain.cluster import explain_node

    name = named(arguments, "node name is mandatory to explain a particular node").name
    return await _show(
        arguments, session, lambda: explain_node(session.client, session.clock, name), past=False
    )


async def cluster(arguments: argparse.Namespace, session: Session) -> int:
    from volcano.services.explain.cluster import explain_cluster, explain_waiting

    async def explain() -> "Explanation":
        if moment := _moment(arguments):
            return await explain_waiting(session.client, **moment)
        return await explain_cluster(session.client, session.clock)

    return await _show(arguments, session, explain)


async def cycle(arguments: argparse.Namespace, session: Session) -> int:
    from volcano.services.explain.cluster import explain_cycle

    if arguments.number and not arguments.number.isdigit():
        raise UsageError(f"{arguments.number!r} is not the number of a cycle")
    number = int(arguments.number) if arguments.number else None
    return await _show(
        arguments, session, lambda: explain_cycle(session.client, number, at=arguments.at), past=False
    )


def _parts(arguments: argparse.Namespace) -> list[str]:
    return [part for part in arguments.verbose if not part.isdigit()]


def _moment(arguments: argparse.Namespace) -> dict[str, Any]:
    """The cycle or time in the past that is asked for, as keywords."""
    if arguments.cycle:
        return {"cycle": int(arguments.cycle)}
    return {"at": arguments.at} if arguments.at else {}


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


async def _show(
    arguments: argparse.Namespace,
    session: Session,
    explain: "Callable[[], Awaitable[Explanation]]",
    *,
    past: bool = True,
) -> int:
    """Prints an explanation, with `--watch` again whenever it changes; `past`: the subject has `--cycle` and `--at`."""
    if arguments.output not in ("", "json", "yaml"):
        raise UsageError(f"-o: {arguments.output!r} is none of json, yaml")
    if past:
        _check_moment(arguments)
    from volcano.cli.explain import screens

    before = None
    while True:
        found = await explain()
        data = document(found)
        comparable = {name: value for name, value in data.items() if name != "estimate"}
        if comparable != before:
            if arguments.output:
                session.write(render(arguments.output, data))
            else:
                session.write(CLEAR if arguments.watch and session.terminal else "", end="")
                screens.show(Page(session), found)
            session.stdout.flush()
        if not arguments.watch:
            return 0
        before = comparable
        await session.clock.sleep(PAUSE)


def _check_moment(arguments: argparse.Namespace) -> None:
    if arguments.cycle and arguments.at:
        raise UsageError("--cycle and --at are given; choose one")
    if arguments.cycle and not arguments.cycle.isdigit():
        raise UsageError(f"--cycle: {arguments.cycle!r} is not the number of a cycle")
    if arguments.watch and (arguments.cycle or arguments.at):
        raise UsageError("--watch shows the present; leave out --cycle and --at")
