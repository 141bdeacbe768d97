"""Cells in groups, such as nodes in racks: each a link, coloured by a percentage.

Drawn by a Vue component, so that a thousand cells are one element and the one with the keyboard focus keeps it.
"""

from collections.abc import Iterable
from pathlib import Path

from nicegui import ui

from volcano.dashboard.data.nodes import Group

STATIC = Path(__file__).parents[1] / "static"


class CellMap(ui.element, component=STATIC / "cells.js"):
    """A heat map of nodes. `show` sends the groups if they differ."""

    def __init__(self, label: str, prefix: str) -> None:
        """Cells link to `prefix` and their name."""
        super().__init__()
        self._props["label"] = label
        self._props["prefix"] = prefix
        self._props["groups"] = []
        self._props["resource"] = ""
        self._groups: tuple[Group, ...] = ()
        self.classes("w-full")

    def show(self, groups: Iterable[Group], resource: str) -> None:
        found = tuple(groups)
        if found == self._groups and resource == self._props["resource"]:
            return
        self._groups = found
        self._props["resource"] = resource
        self._props["groups"] = [
            {
                "name": group.name,
                "summary": group.summary,
                "cells": [
                    {"name": cell.name, "percent": cell.percent, "state": cell.state} for cell in group.cells
                ],
            }
            for group in found
        ]
        self.update()


def legend() -> None:
    """Meaning of the colours and signs."""
    with ui.element("div").classes("volcano-key"):
        with ui.element("span"):
            ui.label("0 %")
            ui.element("span").classes("volcano-scale").props("aria-hidden=true")
            ui.label("100 % used")
        for state, sign, text in (("Cordoned", "–", "cordoned"), ("NotReady", "×", "not ready")):
            with ui.element("span"):
                with (
                    ui.element("span").classes(f"volcano-cell volcano-cell-{state}").props("aria-hidden=true")
                ):
                    ui.label(sign)
                ui.label(text)
