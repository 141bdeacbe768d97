"""Reservations: NodeReservation objects of administrators, and what the condition Reserved says of a gang."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from volcano.base.clock import parse_timestamp, timestamp
from volcano.kube.api import duration, selectors
from volcano.kube.api.manifest import Manifest, key_of
from volcano.kube.api.selectors import LabelSelector
from volcano.model.node import Node

RESERVED = "Reserved"  # type of the condition
SHOWN_NODES = 8


@dataclass(frozen=True, slots=True)
class NodeReservation:
    """Nodes reserved for a queue, or for maintenance without one, from `start` to `end`."""

    name: str
    start: float
    end: float
    queue: str = ""
    nodes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    count: int | None = None  # so many of the selected nodes, the first by name; None for all
    # Seconds before the start from which pods without a known end are kept out; None: from now on.
    lead: float | None = None
    reason: str = ""


def parse_reservation(manifest: Manifest) -> NodeReservation:
    """Parses a NodeReservation. Raises ValueError and the like for a malformed one."""
    spec: Mapping[str, Any] = manifest.get("spec") or {}
    nodes: Mapping[str, Any] = spec.get("nodes") or {}
    selector = nodes.get("selector")
    lead = spec.get("leadTime")
    return NodeReservation(
        key_of(manifest).name,
        parse_timestamp(spec["startTime"]),
        parse_timestamp(spec["endTime"]),
        spec.get("queue") or "",
        tuple(nodes.get("names") or ()),
        None if selector is None else selectors.from_object(selector),
        nodes.get("count"),
        None if lead in (None, "") else duration.parse(str(lead)),
        spec.get("reason") or "",
    )


def reserved_nodes(reservation: NodeReservation, nodes: Iterable[Node]) -> list[str]:
    """Names of the reserved nodes that exist: those named, and of the selected ones the first by name."""
    named = frozenset(reservation.nodes)
    found = {node.name for node in nodes if node.name in named} if named else set()
    if reservation.selector is not None or (not named and reservation.count is not None):
        matching = sorted(
            node.name
            for node in nodes
            if reservation.selector is None or reservation.selector.matches(node.labels)
        )
        found.update(matching if reservation.count is None else matching[: reservation.count])
    return sorted(found)


# -- gangs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReservedGang:
    """Reservation of a gang: nodes, and when it starts at the latest; None when that is not known."""

    reason: str
    start: float | None
    nodes: tuple[str, ...]  # the first ones
    count: int
    message: str


_START = re.compile(r"starts at (\S+) at the latest")
_NODES = re.compile(r"on (\d+) node\(s\): ([^;]*)$")
_TEXTS = {
    "KnownEnds": "the gang starts at {} at the latest",
    "WalltimeExceeded": "the gang starts when pods end that have run longer than their walltime",
    "Starvation": "the gang has waited for too long: what becomes free is kept for it",
}


def reserved_message(reason: str, start: float | None, nodes: Sequence[str]) -> str:
    """Message of the condition; `reserved_gang` reads it."""
    text = _TEXTS[reason].format("" if start is None else timestamp(start))
    more = f" and {len(nodes) - SHOWN_NODES} more" if len(nodes) > SHOWN_NODES else ""
    return f"{text}, on {len(nodes)} node(s): {', '.join(nodes[:SHOWN_NODES])}{more}"


def reserved_gang(group: Manifest) -> ReservedGang | None:
    """Reservation for the gang of a PodGroup, from its condition; None when nothing is."""
    for condition in (group.get("status") or {}).get("conditions") or ():
        if condition.get("type") == RESERVED and condition.get("status") == "True":
            message = condition.get("message") or ""
            start, nodes = _START.search(message), _NODES.search(message)
            shown = nodes[2].partition(" and ")[0].split(", ") if nodes else []
            return ReservedGang(
                condition.get("reason") or "",
                parse_timestamp(start[1]) if start else None,
                tuple(shown),
                int(nodes[1]) if nodes else 0,
                message,
            )
    return None
