"""Analyses that take a moment: an indicator while they run, and a sentence when they fail."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from nicegui import ui

from volcano.dashboard.context import Context
from volcano.services.connection import Connection

Result = TypeVar("Result")


async def computed(context: Context, analysis: Callable[[Connection], Awaitable[Result]]) -> Result | None:
    """Result of an analysis; None after an error, which is shown where the elements are being created, and when these
    are not shown any more."""
    with ui.row().classes("items-center gap-3").props('role="status"') as waiting:
        ui.spinner(size="sm").props("aria-hidden=true")
        ui.label("Computing ...").classes("volcano-muted")
    found, message = await context.try_compute(analysis)
    if waiting.is_deleted:
        return None
    waiting.delete()
    if message:
        ui.label(message).classes("volcano-muted").props('role="alert"')
    return found
