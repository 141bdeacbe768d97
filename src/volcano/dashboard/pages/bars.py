"""Rows of a tree with one bar per resource: allocated, borrowed, and marks for guarantee, deserved and capability.

Drawn by a Vue component: slots of the page library are built anew with every update, and what had the keyboard focus
in them loses it; the rows of the component stay.
"""

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

from nicegui import events, ui

from volcano.dashboard.data.queues import TOLERANCE, QueueRow, ResourceBar
from volcano.dashboard.pages.widgets import colour_of

STATIC = Path(__file__).parents[1] / "static"
CLUSTER, OWN = "cluster", "queue"  # what the whole width of a bar stands for
Described = dict[str, Any]


class BarRows(ui.element, component=STATIC / "queue_tree.js"):
    """Rows with bars. `show` sends them if they differ."""

    def __init__(self, label: str, on_toggle: Callable[[str], None] | None = None) -> None:
        super().__init__()
        self._props["label"] = label
        self._props["rows"] = []
        self.classes("w-full")
        if on_toggle is not None:
            self.on("toggle", lambda event: on_toggle(_name(event)))

    def show(self, rows: list[Described]) -> None:
        if rows != self._props["rows"]:
            self._props["rows"] = rows
            self.update()


def tree_row(row: QueueRow, *, scale: str, collapsed: Collection[str], is_filtered: bool) -> Described:
    """A queue of the tree."""
    facts = [f"weight {row.weight}", f"{row.running} running", f"{row.pending} pending"]
    return {
        "name": row.name,
        "href": f"/queues/{row.name}",
        "depth": row.depth,
        "open": row.name not in collapsed if row.has_children and not is_filtered else None,
        "state": row.state,
        "colour": colour_of(row.state),
        "facts": [*facts, *([row.balance()] if row.balance() else [])],
        "bars": [bar_of(bar, scale) for bar in row.bars],
    }


def bare_row(name: str, bars: Iterable[Described]) -> Described:
    """Bars without the name before them."""
    return {"name": name, "bare": True, "bars": list(bars)}


def bar_of(bar: ResourceBar, scale: str) -> Described:
    """A bar: its parts in percent of the width."""
    whole = bar.total if scale == CLUSTER and bar.total else bar.largest
    within = bar.allocated - bar.borrowed
    marks = (("guarantee", bar.guarantee), ("deserved", bar.deserved), ("capability", bar.capability))
    return {
        "label": bar.label,
        "text": bar.text(),
        "title": bar.sentence(),
        "fill": _percent(within, whole),
        "over": _percent(bar.borrowed, whole) if bar.borrowed > TOLERANCE else 0,
        "marks": [
            {"kind": kind, "at": _percent(amount, whole)} for kind, amount in marks if amount is not None
        ],
    }


def usage_bar(label: str, text: str, part: float) -> Described:
    """A bar without marks: a used part."""
    title = f"{label}: {text} used"
    return {"label": label, "text": text, "title": title, "fill": _percent(part, 1.0), "over": 0, "marks": []}


def legend() -> None:
    """Meaning of the parts of a bar."""
    with ui.element("div").classes("volcano-key"):
        for style, text in (
            ("volcano-bar-fill", "allocated"),
            ("volcano-bar-over", "borrowed"),
            ("volcano-mark-deserved", "deserved"),
            ("volcano-mark-guarantee", "guarantee"),
            ("volcano-mark-capability", "capability"),
        ):
            with ui.element("span"):
                ui.element("i").classes(style).props("aria-hidden=true")
                ui.label(text)


def _percent(amount: float, whole: float) -> float:
    return round(min(amount / whole, 1.0) * 100, 1) if whole > 0 else 0.0


def _name(event: events.GenericEventArguments) -> str:
    return str(event.args[0] if isinstance(event.args, list) else event.args)
