"""`vcctl queue tree`: hierarchy of queues with allocated and deserved resources."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from volcano.cli import flags
from volcano.cli.printing.bars import Gauge, plain
from volcano.cli.printing.output import render
from volcano.cli.printing.tables import Column
from volcano.cli.quantities import amount_columns
from volcano.cli.session import Session
from volcano.kube.api.errors import Forbidden
from volcano.kube.api.kinds import JOB, NODE, POD, POD_GROUP, QUEUE
from volcano.kube.api.manifest import Manifest
from volcano.views.amounts import Amounts, short_name, shown
from volcano.views.board import Picture, board, slim
from volcano.views.queues import QueueShare, queue_data

BAR = 10


def run_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_data_output(parser, "json or yaml: the tree as nested data")


async def run(arguments: argparse.Namespace, session: Session) -> int:
    seen = board(await _read(session))
    shares, total = seen.queues, seen.total
    if arguments.output:
        session.write(render(arguments.output, nested(shares, total)))
        return 0
    branches = dict(zip((share.name for share in shares), drawn(shares), strict=True))
    session.table(tree_columns(branches, total), shares)
    return 0


async def _read(session: Session) -> Picture:
    """What shares are computed from. Raises Forbidden without the right to list queues."""
    found = {QUEUE: (await session.client.list(QUEUE)).items}
    for kind in (NODE, JOB, POD_GROUP, POD):
        try:
            found[kind] = (await session.client.list(kind, decode=slim)).items
        except Forbidden as error:
            session.warn(f"shares are not known{'' if kind == NODE else ' exactly'}: {error.message}")
    queues, jobs, groups, pods, nodes = (found.get(each, []) for each in (QUEUE, JOB, POD_GROUP, POD, NODE))
    complete = len(found.keys() & {JOB, POD_GROUP, POD}) == 3
    return Picture(queues, jobs, groups, pods, nodes, session.clock.now().wall, complete=complete)


def drawn(shares: Sequence[QueueShare]) -> list[str]:
    """Name of every queue with its branch."""
    lines = []
    for index, share in enumerate(shares):
        rails = [
            "│  " if _goes_on(shares[index:], share.path[: level + 1]) else "   "
            for level in range(1, share.depth)
        ]
        corner = ("├─ " if _goes_on(shares[index:], share.path) else "└─ ") if share.depth else ""
        lines.append("".join(rails) + corner + share.name)
    return lines


def _goes_on(rest: Sequence[QueueShare], path: tuple[str, ...]) -> bool:
    """Whether a later sibling of the queue at `path` exists."""
    return any(
        len(other.path) == len(path) and other.path[:-1] == path[:-1] and other.path != path for other in rest
    )


def tree_columns(branches: Mapping[str, str], total: Amounts) -> list[Column]:
    """Columns of a queue: position, share as a bar, allocated and deserved."""

    def share(queue: QueueShare) -> str:
        part = queue.share(total)
        return f"{plain(Gauge(part, 1.0), BAR)} {part:4.0%}"

    def limit(queue: QueueShare) -> str:
        limits = [f"{short_name(name)}={shown(name, amount)}" for name, amount in queue.capability.items()]
        return ",".join(limits) or "–"

    return [
        Column("Queue", lambda queue: branches[queue.name]),
        Column("State", lambda queue: queue.state, coloured=True, spare=1),
        Column("Weight", lambda queue: str(queue.weight), spare=2),
        Column("Share", share),
        *amount_columns(total),
        Column("Capability", limit, spare=3),
    ]


def nested(shares: Sequence[QueueShare], total: Amounts) -> list[Manifest]:
    """Queues as nested data."""
    by_path: dict[tuple[str, ...], dict[str, Any]] = {}
    top: list[Manifest] = []
    for share in shares:
        node = {**queue_data(share, total), "children": []}
        by_path[share.path] = node
        (by_path[share.path[:-1]]["children"] if share.depth else top).append(node)
    return top
