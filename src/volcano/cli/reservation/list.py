"""`vcctl reservation list`: nodes reserved by administrators, and for gangs that wait."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from volcano.base.clock import timestamp
from volcano.cli import flags
from volcano.cli.printing.output import is_table, render
from volcano.cli.printing.tables import Column
from volcano.cli.session import Session
from volcano.kube.api.errors import Forbidden, NotFound
from volcano.kube.api.kinds import NODE, NODE_RESERVATION, POD_GROUP, Kind
from volcano.kube.api.manifest import Manifest, key_of, labels_of
from volcano.model.node import Node
from volcano.model.reservations import parse_reservation, reserved_gang, reserved_nodes

NOTHING = "No reservations found"
SHOWN = 4  # names of nodes


class Row(NamedTuple):
    """One reservation."""

    kind: str  # Nodes or Gang
    name: str
    owner: str  # the queue or gang that the nodes are for
    state: str
    start: float | None
    end: float | None
    nodes: tuple[str, ...]
    node_count: int
    reason: str

    def document(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "for": self.owner,
            "state": self.state,
            "start": None if self.start is None else timestamp(self.start),
            "end": None if self.end is None else timestamp(self.end),
            "nodeCount": self.node_count,
            "nodes": list(self.nodes),
            "reason": self.reason,
        }


def run_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_output(parser)


async def run(arguments: argparse.Namespace, session: Session) -> int:
    """Lists reservations."""
    reservations, groups, nodes = [
        await _objects(session, kind) for kind in (NODE_RESERVATION, POD_GROUP, NODE)
    ]
    rows = [*_windows(reservations, nodes, session.clock.now().wall), *_gangs(groups)]
    if not is_table(arguments.output):
        items = [row.document() for row in rows]
        session.write(render("json" if arguments.output == "name" else arguments.output, {"items": items}))
        return 0
    if not rows:
        session.write(NOTHING)
        return 0
    session.table(COLUMNS, rows, wide=arguments.output == "wide", padded=True)
    return 0


async def _objects(session: Session, kind: Kind) -> Sequence[Manifest]:
    """Objects of a kind; none where the user may not list them, or the cluster does not have the kind."""
    try:
        return (await session.client.list(kind)).items
    except (Forbidden, NotFound):
        return ()


def _windows(manifests: Sequence[Manifest], nodes: Sequence[Manifest], now: float) -> Iterator[Row]:
    known = [Node(key_of(node).name, {}, labels=labels_of(node)) for node in nodes]
    for manifest in manifests:
        found = parse_reservation(manifest)
        names = reserved_nodes(found, known) if known else list(found.nodes)
        state = "Waiting" if now < found.start else "Active" if now < found.end else "Ended"
        owner = f"queue {found.queue}" if found.queue else "maintenance"
        yield Row(
            "Nodes", found.name, owner, state, found.start, found.end, tuple(names), len(names), found.reason
        )


def _gangs(groups: Sequence[Manifest]) -> Iterator[Row]:
    for group in groups:
        found = reserved_gang(group)
        if found is not None:
            key = key_of(group)
            name = f"{key.namespace}/{key.name}"
            queue = (group.get("spec") or {}).get("queue") or ""
            owner = f"gang of queue {queue}"
            yield Row(
                "Gang", name, owner, "Waiting", found.start, None, found.nodes, found.count, found.reason
            )


def _time(moment: float | None) -> str:
    return "-" if moment is None else timestamp(moment)


def _nodes(row: Row) -> str:
    shown = ", ".join(row.nodes[:SHOWN])
    return f"{row.node_count}: {shown}{', ...' if row.node_count > len(row.nodes[:SHOWN]) else ''}"


COLUMNS = (
    Column("Name", lambda row: str(row.name)),
    Column("For", lambda row: str(row.owner)),
    Column("State", lambda row: str(row.state), coloured=True),
    Column("Start", lambda row: _time(row.start)),
    Column("End", lambda row: _time(row.end), spare=2),
    Column("Nodes", _nodes, sentence=True),
    Column("Reason", lambda row: str(row.reason), wide=True, sentence=True),
)
