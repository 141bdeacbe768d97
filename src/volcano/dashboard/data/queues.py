"""Queues as the dashboard shows them: the hierarchy with bars, borrowed and lent amounts, and jobs."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from volcano.analysis.explain.queue import ShareRow
from volcano.analysis.explain.tables import SHARE_COLUMNS
from volcano.dashboard.objects import Objects
from volcano.kube.api.names import ROOT_QUEUE
from volcano.views.amounts import Amounts, resource_names, short_name, shown
from volcano.views.board import Board
from volcano.views.queues import QueueShare

# Quantities are decimal fractions; smaller differences are rounding.
TOLERANCE = 1e-6
# Columns of the share of a queue, as `vcctl explain queue` prints it.
SHARE_TITLES = (
    "Resource", "Cluster", "Weight", "By weight", "Limit", "Requested", "Guarantee", "Deserved now", "Allocated",
    "Borrowed", "Lent",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ResourceBar:
    """What a queue holds of one resource, and the marks that limit it. None: not set."""

    resource: str
    allocated: float
    deserved: float | None
    guarantee: float | None
    capability: float | None
    total: float  # of the cluster; 0 when unknown
    borrowed: float = 0.0
    lent: float = 0.0
    is_computed: bool = False  # the deserved amount follows from weights

    @property
    def label(self) -> str:
        return short_name(self.resource)

    @property
    def largest(self) -> float:
        """The largest of the amounts."""
        amounts = (self.allocated, self.deserved, self.guarantee, self.capability)
        return max(amount for amount in amounts if amount is not None)

    def text(self) -> str:
        """Allocated and deserved, as `vcctl queue tree` prints them."""
        held = shown(self.resource, self.allocated)
        return f"{held}/{shown(self.resource, self.deserved)}" if self.deserved is not None else held

    def sentence(self) -> str:
        """Everything that the bar shows, in words."""
        parts = [f"{self.label}: {shown(self.resource, self.allocated)} allocated"]
        if self.deserved is not None:
            source = " by weight" if self.is_computed else ""
            parts.append(f"{shown(self.resource, self.deserved)} deserved{source}")
        for name, amount in (("guarantee", self.guarantee), ("capability", self.capability)):
            if amount is not None:
                parts.append(f"{name} {shown(self.resource, amount)}")
        for name, amount in (("borrowed", self.borrowed), ("lent", self.lent)):
            if amount > TOLERANCE:
                parts.append(f"{shown(self.resource, amount)} {name}")
        if self.total:
            parts.append(f"cluster {shown(self.resource, self.total)}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One queue of the tree. Jobs are those of the queue and its descendants."""

    name: str
    path: tuple[str, ...]
    depth: int
    state: str
    weight: int
    share: float  # dominant
    bars: tuple[ResourceBar, ...]
    pending: int
    running: int
    pods: int
    has_children: bool

    @property
    def parent(self) -> str:
        return self.path[-2] if len(self.path) > 1 else ""

    def balance(self) -> str:
        """What the queue borrows and lends, such as `borrows 3 gpu`; "" when it does neither."""
        parts = []
        for verb, amounts in (
            ("borrows", {bar: bar.borrowed for bar in self.bars}),
            ("lends", {bar: bar.lent for bar in self.bars}),
        ):
            named = [
                f"{shown(bar.resource, amount)} {bar.label}"
                for bar, amount in amounts.items()
                if amount > TOLERANCE
            ]
            if named:
                parts.append(f"{verb} {', '.join(named)}")
        return "; ".join(parts)


def queue_rows(objects: Objects) -> tuple[QueueRow, ...]:
    """All queues depth first."""
    return rows_of(objects.board)


def rows_of(board: Board) -> tuple[QueueRow, ...]:
    """Rows of a board."""
    parents = {share.parent for share in board.queues}
    names = shown_resources(board.queues, board.total)
    lending = {name: _lent(board.queues, name) for name in names}
    return tuple(
        QueueRow(
            name=share.name,
            path=share.path,
            depth=share.depth,
            state=share.state,
            weight=share.weight,
            share=share.share(board.total),
            bars=tuple(_bar(share, name, board.total, lending[name]) for name in names),
            pending=board.waiting(share.name),
            running=board.running(share.name),
            pods=share.pods,
            has_children=share.name in parents,
        )
        for share in board.queues
    )


def shown_resources(shares: Iterable[QueueShare], total: Amounts) -> list[str]:
    """Resources with a bar: those of the cluster, and where nodes may not be listed, those that queues hold."""
    held = {name: amount for share in shares for name, amount in share.allocated.items()}
    return resource_names({**held, **total})


def find_queue(objects: Objects, name: str) -> QueueRow | None:
    return next((row for row in objects.get(queue_rows) if row.name == name), None)


def top_level(rows: Sequence[QueueRow]) -> list[QueueRow]:
    """Queues below the root, which divide the cluster among themselves."""
    return [row for row in rows if row.name != ROOT_QUEUE and row.parent in ("", ROOT_QUEUE)]


def visible_rows(
    rows: Sequence[QueueRow], *, collapsed: Collection[str] = (), text: str = "", state: str = ""
) -> list[QueueRow]:
    """Rows of a tree without those below a collapsed queue; with a filter, those that match and their ancestors."""
    if text or state:
        matching = [row for row in rows if text.lower() in row.name.lower() and state in ("", row.state)]
        kept = {row.path[: length + 1] for row in matching for length in range(len(row.path))}
        return [row for row in rows if row.path in kept]
    return [row for row in rows if not any(above in collapsed for above in row.path[:-1])]


def _bar(share: QueueShare, name: str, total: Amounts, lent: Mapping[str, float]) -> ResourceBar:
    held, due = share.allocated.get(name, 0.0), share.deserved.get(name)
    return ResourceBar(
        resource=name,
        allocated=held,
        deserved=due,
        guarantee=share.guarantee.get(name),
        capability=share.capability.get(name),
        total=total.get(name, 0.0),
        borrowed=max(held - due, 0.0) if due is not None and share.name != ROOT_QUEUE else 0.0,
        lent=lent.get(share.name, 0.0),
        is_computed=name in share.computed,
    )


def _lent(shares: Sequence[QueueShare], name: str) -> dict[str, float]:
    """What each queue lends: the part of its deserved amount that it does not hold and others hold.

    Siblings lend to each other first, and to the outside what their parent lends, each in proportion to what it does
    not use; so siblings together lend as much as is borrowed.
    """
    siblings: dict[str, list[QueueShare]] = defaultdict(list)
    for share in shares:
        siblings[share.parent].append(share)
    found: dict[str, float] = {ROOT_QUEUE: 0.0}
    for share in shares:  # depth first: a parent is before its children
        if share.name in found:
            continue
        group = [each for each in siblings[share.parent] if each.name != ROOT_QUEUE]
        surplus = {each.name: each.deserved.get(name, 0.0) - each.allocated.get(name, 0.0) for each in group}
        unused = sum(amount for amount in surplus.values() if amount > 0)
        wanted = found.get(share.parent, 0.0) - sum(amount for amount in surplus.values() if amount < 0)
        part = min(wanted / unused, 1.0) if unused > 0 else 0.0
        found |= {each: max(amount, 0.0) * part for each, amount in surplus.items()}
    return found


def share_row(row: ShareRow) -> list[str]:
    """Texts of a resource: amounts as on the bars, `819.2` for `819200m`."""
    name, *amounts = (column.value(row) for column in SHARE_COLUMNS)
    return [short_name(name), *amounts]
