"""The page itself: the form and the YAML in step, Preview and Create."""

import asyncio

from nicegui import events, ui

from volcano.dashboard.context import Context
from volcano.dashboard.data.submission import (
    Problem,
    Text,
    choices,
    copy_of,
    new_job,
    parse_text,
    problems_of,
    text_of,
)
from volcano.dashboard.pages.submit.form import Form
from volcano.dashboard.pages.submit.requests import HOME, create, missing_rights
from volcano.dashboard.pages.submit.results import show_preview
from volcano.dashboard.pages.widgets import card, heading
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Key, Manifest
from volcano.services.errors import ServiceError
from volcano.services.plan import plan_new

PAUSE = 0.3  # seconds without a key after which what was typed is read
EDITOR_THEME = "Quasar.Dark.isActive ? 'githubDark' : 'githubLight'"


async def build(context: Context) -> None:
    heading("Submit a job")
    page = _Submit(context, await _first_job(context))
    context.on_change(page.update)
    await page.check_rights()


async def _first_job(context: Context) -> Manifest:
    """A new Job, or a copy of the one that `from=NAMESPACE/NAME` in the address names."""
    namespace, _, name = context.query.get("from", "").partition("/")
    if name:
        try:
            return copy_of(await context.viewer.connection.client.get(JOB, Key(namespace, name)))
        except ApiError as error:
            ui.notify(error.message, type="negative")
    return new_job(context.query.get("namespace") or "default", context.query.get("queue") or "default")


class _Submit:
    """State of one open page."""

    def __init__(self, context: Context, job: Manifest) -> None:
        self._context = context
        self._text = text_of(job)
        self._parsed: Text = parse_text(self._text)
        self._changes = 0
        with ui.row().classes("w-full gap-4 items-start"):
            with ui.column().classes("grow basis-96 min-w-0 gap-4 volcano-form"):
                self._note = ui.label().classes("volcano-muted").props("role=status")
                self._form = Form(job, context.objects.get(choices), self._on_form)
            with ui.column().classes("grow basis-96 min-w-0 gap-4"):
                self._add_editor()
        self._add_buttons()
        self._result = ui.column().classes("w-full gap-4").props('aria-live=polite data-testid="preview"')
        self._show_state()

    def _add_editor(self) -> None:
        with card("YAML"):
            self._editor = ui.codemirror(
                self._text, language="YAML", indent="  ", on_change=self._on_typed
            ).classes("w-full volcano-editor")
            self._editor.props.pop("theme", None)
            self._editor.props[":theme"] = EDITOR_THEME
            ui.label("Esc, then Tab leaves the editor.").classes("volcano-muted text-xs")
            self._error = ui.label().classes("text-negative whitespace-pre-wrap").props("role=alert")

    def _add_buttons(self) -> None:
        with ui.row().classes("w-full gap-3 items-center"):
            self._preview = ui.button("Preview", icon="visibility", on_click=self._on_preview)
            self._preview.props("outline")
            self._create = ui.button("Create", icon="add", on_click=self._on_create)
            self._evictions = ui.checkbox("Preview with evictions", on_change=self._on_evictions)
            self._evictions.tooltip(
                "Let the scheduler evict pods for the job in the preview, and show which."
            )
            self._busy = ui.spinner(size="sm")
            self._busy.set_visibility(False)
            self._rights = ui.label().classes("volcano-muted")
        self._problems = ui.column().classes("w-full gap-1").props("role=alert")

    # -- both sides ----------------------------------------------------------------------------------

    async def update(self) -> None:
        self._form.choose_from(self._context.objects.get(choices))

    async def _on_typed(self, event: events.ValueChangeEventArguments[str]) -> None:
        if event.value == self._text:
            return
        self._text = event.value
        self._changes += 1
        change = self._changes
        await asyncio.sleep(PAUSE)
        if change == self._changes:
            await self._read_text()

    async def _read_text(self) -> None:
        self._parsed = parse_text(self._text)
        if self._parsed.job is not None:
            self._form.show(self._parsed.job)
        self._changed()
        await self.check_rights()

    def _on_form(self, job: Manifest) -> None:
        self._text = text_of(job)
        self._parsed = Text((job,), job=job)
        self._editor.set_value(self._text)
        self._changed()
        ui.timer(0, self.check_rights, once=True)

    def _changed(self) -> None:
        self._problems.clear()
        self._form.clear_problems()
        self._result.clear()
        self._show_state()

    def _show_state(self) -> None:
        parsed = self._parsed
        self._form.enable(parsed.job is not None)
        paused = "The form continues when the YAML is valid." if parsed.error else parsed.note
        self._note.set_text(paused)
        self._note.set_visibility(bool(paused))
        self._error.set_text(parsed.error)
        self._error.set_visibility(bool(parsed.error))
        self._preview.set_enabled(not parsed.error)
        self._create.set_enabled(not parsed.error)

    async def check_rights(self) -> None:
        """Shows the button that creates only to viewers who may."""
        try:
            missing = await missing_rights(self._context.viewer.rights, self._parsed.objects)
            text = f"You may not create {', '.join(missing)}." if missing else ""
        except ServiceError as error:
            text = str(error)
        self._create.set_visibility(not text)
        self._rights.set_text(text)

    # -- requests ------------------------------------------------------------------------------------

    async def _on_evictions(self) -> None:
        if self._result.default_slot.children:
            await self._on_preview()

    async def _on_preview(self) -> None:
        objects, allow = self._parsed.objects, bool(self._evictions.value)
        self._begin()
        try:
            # Later objects may need earlier ones, which a dry run does not create.
            if len(objects) == 1 and self._create.visible:
                await create(self._context.viewer.connection.client, objects, dry_run=True)
            found = await self._context.compute(
                lambda connection: plan_new(
                    connection.client,
                    connection.clock,
                    objects,
                    namespace=HOME,
                    source="YAML",
                    allow_preempt=allow,
                )
            )
        except (ApiError, ServiceError) as error:
            self._fail(error)
            return
        finally:
            self._end()
        if objects == self._parsed.objects:
            with self._result:
                show_preview(found)

    async def _on_create(self) -> None:
        self._begin()
        try:
            created = await create(
                self._context.viewer.connection.client, self._parsed.objects, dry_run=False
            )
        except (ApiError, ServiceError) as error:
            self._fail(error)
            return
        finally:
            self._end()
        jobs = [
            each for each in created if each["kind"] == JOB.kind and each["apiVersion"] == JOB.api_version
        ]
        ui.navigate.to(_page_of(jobs[0]) if len(jobs) == 1 else "/jobs")

    def _begin(self) -> None:
        self._busy.set_visibility(True)
        self._preview.disable()
        self._create.disable()
        self._problems.clear()
        self._form.clear_problems()
        self._result.clear()

    def _end(self) -> None:
        self._busy.set_visibility(False)
        self._show_state()

    def _fail(self, error: ApiError | ServiceError) -> None:
        problems = problems_of(error) if isinstance(error, ApiError) else [Problem(str(error))]
        others = self._form.show_problems(problems) if self._parsed.job else problems
        lines = [problem.message for problem in others]
        if len(others) < len(problems):
            lines.insert(0, "The server rejects the job: see the marked fields.")
        with self._problems:
            for line in lines:
                ui.label(line).classes("text-negative whitespace-pre-wrap")


def _page_of(job: Manifest) -> str:
    return f"/jobs/{job['metadata']['namespace']}/{job['metadata']['name']}"
