"""`vcctl fairshare`: shares, usage and fair-share factors of queues and their users, as `sshare` of Slurm."""

import argparse
from collections.abc import Iterator
from typing import Any

from volcano.cli import flags
from volcano.cli.errors import near
from volcano.cli.fairshare.state import FairShareState, read_state
from volcano.cli.printing.output import render
from volcano.cli.printing.tables import Column
from volcano.cli.session import Session
from volcano.kube.api.names import ROOT_QUEUE
from volcano.scheduler.plugins.fairshare import Share
from volcano.services.errors import NotFoundError

HOUR = 3600.0
NO_USER = "(none)"  # jobs without a user


def run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-q", "--queue", default="", help="only this queue and its users")
    parser.add_argument("-u", "--of-user", default="", metavar="USER", help="only this user, in all queues")
    flags.add_data_output(parser)


async def run(arguments: argparse.Namespace, session: Session) -> int:
    state = await read_state(session)
    queues = state.standing.tree.queues
    if arguments.queue and arguments.queue not in queues:
        raise NotFoundError(f"queue {arguments.queue!r} does not exist{near(arguments.queue, queues)}")
    rows = [
        share
        for share in ordered(state)
        if (not arguments.queue or share.queue == arguments.queue)
        and (not arguments.of_user or share.user == arguments.of_user)
    ]
    if arguments.output:
        session.write(render(arguments.output, as_data(state, rows)))
        return 0
    session.table(COLUMNS, rows)
    session.write("")
    session.write(
        f"Usage: priced hours, half-life {_time(state.settings.half_life)}, from {state.usage_source}."
    )
    return 0


def ordered(state: FairShareState) -> Iterator[Share]:
    """Queues from the root down, each followed by its users and then by the queues below it."""
    tree = state.standing.tree
    yield from _below(tree.queues[ROOT_QUEUE], state)


def _below(queue: Share, state: FairShareState) -> Iterator[Share]:
    tree = state.standing.tree
    yield queue
    yield from tree.users(queue.queue).values()
    for name in tree.children(queue.queue):
        yield from _below(tree.queues[name], state)


def _name(share: Share) -> str:
    return "  " * max(share.level - (share.user is not None), 0) + share.queue


COLUMNS = [
    Column("Queue", _name),
    Column("User", lambda share: "" if share.user is None else share.user or NO_USER),
    Column("Share", lambda share: f"{share.share:g}", spare=2),
    Column("Norm-Share", lambda share: f"{share.normalised_share:.4f}"),
    Column("Usage", lambda share: f"{share.usage / HOUR:.2f}"),
    Column("Effective-Usage", lambda share: f"{share.effective_usage:.4f}", spare=1),
    Column("Factor", lambda share: f"{share.factor:.4f}" if share.level else ""),
]


def _time(seconds: float) -> str:
    return f"{seconds / 86400:g} days" if seconds >= 172800 else f"{seconds / HOUR:g} hours"


def as_data(state: FairShareState, rows: list[Share]) -> dict[str, Any]:
    return {
        "configured": state.configured,
        "usageSource": state.usage_source,
        "halfLifeSeconds": state.settings.half_life,
        "items": [
            {
                "queue": share.queue,
                **({} if share.user is None else {"user": share.user}),
                "share": share.share,
                "normalisedShare": share.normalised_share,
                "usageSeconds": share.usage,
                "effectiveUsage": share.effective_usage,
                "factor": share.factor,
            }
            for share in rows
        ],
    }
