"""The tab of the diagnosis: what `vcctl explain job` computes, now or as it was after an earlier cycle."""

from dataclasses import replace
from typing import Any

from nicegui import background_tasks, events, ui

from volcano.analysis.explain.explanations import JobExplanation
from volcano.analysis.explain.outlook import MOST_RERUNS
from volcano.dashboard.pages.explained import show_details, show_job
from volcano.dashboard.pages.jobs.computing import computed
from volcano.dashboard.pages.jobs.open_job import OpenJob
from volcano.dashboard.pages.widgets import card
from volcano.services.connection import Connection
from volcano.services.explain.jobs import explain_job

SEARCH_FLAG = "--reruns"
# The parts of -v, with what they show.
PARTS = {
    "nodes": "Nodes: why each node does not take its next pod",
    "scores": "Scores: how the plugins rate the nodes that could take it",
    "victims": "Victims: pods that could be evicted for it, and why others may not be",
    "plugins": "Plugins: which plugin answered which question",
}


async def build(job: OpenJob) -> None:
    _Diagnosis(job)


class _Diagnosis:
    """The explanation, computed when the tab is opened and again when the state of the job has changed."""

    def __init__(self, job: OpenJob) -> None:
        self._job = job
        self._moment = ""
        self._state: tuple[str, str] | None = None
        self._running = self._wanted = False
        self._reruns = 0
        with ui.row().classes("w-full items-center gap-3"):
            ui.button("Compute again", icon="refresh", on_click=self._compute).props("outline dense")
            moment = ui.input(
                "As it was at", placeholder="cycle or 2026-11-17T18:00:00Z", on_change=self._on_moment
            )
            moment.props("dense outlined clearable debounce=600").classes("w-64")
            ui.label("Empty means now").classes("volcano-muted")
            self._search = ui.button(
                "Search longer for changes", icon="manage_search", on_click=self._search_longer
            )
            self._search.props("flat dense").set_visibility(False)
        self._box = ui.column().classes("w-full gap-4")
        job.on_update("diagnosis", self._update)

    def _update(self) -> None:
        item = self._job.view.item
        state = (item.row.phase, item.code)
        if state != self._state and not self._moment:
            self._state = state
            background_tasks.create(self._compute(), name="explain a job")

    async def _on_moment(self, event: events.ValueChangeEventArguments[Any]) -> None:
        self._moment = str(event.value or "").strip()
        await self._compute()

    async def _compute(self) -> None:
        """Computes and shows; what was asked for meanwhile is computed afterwards."""
        self._wanted = True
        if self._running:
            return
        self._running = True
        try:
            while self._wanted and not self._box.is_deleted:
                self._wanted = False
                await self._compute_once()
        finally:
            self._running = False

    async def _compute_once(self) -> None:
        moment = self._moment
        cycle = int(moment) if moment.isdecimal() else None

        async def explain(connection: Connection) -> JobExplanation:
            return await explain_job(
                connection.client,
                connection.clock,
                self._job.key,
                reruns=self._reruns,
                cycle=cycle,
                at="" if cycle is not None else moment,
            )

        with self._box, ui.column().classes("w-full gap-4") as fresh:
            found = await computed(self._job.context, explain)
            if found is not None:
                show_job(self._offer_search(found), self._job.context.objects.now)
                if found.steps and not self._moment:
                    self._offer_details()
        for child in [] if fresh.is_deleted else list(self._box.default_slot.children):
            if child is not fresh:
                child.delete()

    def _offer_search(self, found: JobExplanation) -> JobExplanation:
        """A button in place of the note that names the flag of the command for a longer search."""
        notes = tuple(note for note in found.notes if SEARCH_FLAG not in note)
        self._search.set_visibility(len(notes) < len(found.notes))
        return replace(found, notes=notes)

    async def _search_longer(self) -> None:
        self._reruns = MOST_RERUNS
        try:
            await self._compute()
        finally:
            self._reruns = 0

    def _offer_details(self) -> None:
        with card("More"):
            for part, title in PARTS.items():
                self._offer(part, title)

    def _offer(self, part: str, title: str) -> None:
        async def show() -> None:
            if not section.value or box.default_slot.children:
                return
            with box:
                found = await computed(
                    self._job.context,
                    lambda connection: explain_job(
                        connection.client, connection.clock, self._job.key, details=(part,)
                    ),
                )
                if found is not None:
                    show_details(part, found.details.get(part, ()))

        section = ui.expansion(title, on_value_change=show).classes("w-full").props("dense")
        with section:
            box = ui.column().classes("w-full")
