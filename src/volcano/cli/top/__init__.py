"""`vcctl top`: queues and jobs with their shares, live on a terminal, otherwise one table."""

import argparse
from typing import TYPE_CHECKING

from volcano.cli import flags

if TYPE_CHECKING:
    from volcano.cli.session import Session

DESCRIPTION = (
    "Watch queues, jobs and nodes, full screen. Keys: arrows move, Enter opens a queue's jobs and a job's pods, Esc "
    "goes back,\ns changes the order, / filters, n shows nodes, p suspends, r resumes and d deletes a job, ? helps, "
    "q quits."
)


def run_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_namespace(parser)
    parser.add_argument(
        "--once", action="store_true", help="print one table and end; so does a pipe or a file"
    )
    flags.add_data_output(parser, "json or yaml, with --once")
    parser.description = DESCRIPTION


async def run(arguments: argparse.Namespace, session: "Session") -> int:
    namespace = arguments.namespace or arguments.short_n
    if session.terminal and not arguments.once and not arguments.output:
        from volcano.cli.top import keyboard, live

        descriptor = keyboard.terminal()
        if descriptor is not None:
            return await live.run(session, namespace, descriptor)
    from volcano.cli.top import once

    return await once.run(session, namespace, arguments.output)
