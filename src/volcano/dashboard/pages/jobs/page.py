"""The page of one job: what it is, and tabs with its pods, timeline, diagnosis, logs, events, YAML and a shell."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from nicegui import events, ui

from volcano.base.clock import timestamp
from volcano.dashboard.context import Context
from volcano.dashboard.data.gang import JobView, job_view
from volcano.dashboard.pages.jobs import actions, diagnosis, job_events, logs, manifest, pods, shell, timeline
from volcano.dashboard.pages.jobs.open_job import OpenJob
from volcano.dashboard.pages.widgets import card, facts, heading, link, phase
from volcano.kube.api.fields import at, number
from volcano.kube.api.kinds import JOB, POD, POD_GROUP
from volcano.kube.api.manifest import Key
from volcano.views.amounts import short_name, shown
from volcano.views.times import span

Fact = tuple[str, str | tuple[str, str]]
Build = Callable[[OpenJob], Awaitable[None]]
TABS: Mapping[str, tuple[str, str, Build]] = {
    "pods": ("Pods", "grid_view", pods.build),
    "timeline": ("Timeline", "view_timeline", timeline.build),
    "diagnosis": ("Diagnosis", "troubleshoot", diagnosis.build),
    "logs": ("Logs", "subject", logs.build),
    "events": ("Events", "event_note", job_events.build),
    "yaml": ("YAML", "data_object", manifest.build),
    "shell": ("Shell", "terminal", shell.build),
}


async def build(context: Context) -> None:
    key = Key(context.parameters["namespace"], context.parameters["name"])
    ui.page_title(f"{key.name} - Jobs - Volcano")
    view = job_view(context.objects, key)
    if view is None:
        await _absent(context, key)
        return
    await _JobPage(OpenJob(context, key, view)).build()


async def _absent(context: Context, key: Key) -> None:
    """A job that does not exist yet appears as soon as it does."""
    heading(key.name)
    with card():
        ui.label(f"There is no job {key.name} in namespace {key.namespace}.")
        if not await context.viewer.rights.may("list", JOB, key.namespace):
            ui.label(f"You may not list jobs in namespace {key.namespace}.").classes("volcano-muted")
        link("All jobs", "/jobs")

    def appear() -> None:
        if job_view(context.objects, key) is not None:
            ui.navigate.reload()

    context.on_change(appear)


class _JobPage:
    """The elements of the page."""

    def __init__(self, job: OpenJob) -> None:
        self._job = job
        self._context = job.context
        self._facts: list[Fact] = []
        self._state: tuple[str, ...] = ()
        self._offered: list[str] = []  # actions
        self._built: set[str] = set()
        self._panels: dict[str, ui.tab_panel] = {}

    async def build(self) -> None:
        with ui.element("nav").props('aria-label="Where this page is"').classes("volcano-muted"):
            link("Jobs", "/jobs")
            ui.label("/").classes("inline q-mx-xs")
            link(self._job.key.namespace, f"/jobs?namespace={self._job.key.namespace}")
        with ui.row().classes("w-full items-center gap-4"):
            heading(self._job.key.name)
            self._phase = ui.row().props('role="status"')
            ui.space()
            self._actions = ui.row().classes("gap-2")
        self._gone = ui.label("This job does not exist any more.").classes(
            "w-full q-pa-sm rounded text-white"
        )
        self._gone.style("background: #b26a00").props('role="alert"').set_visibility(False)
        self._reason = ui.element("div").classes("w-full")
        with card():
            self._facts_box = ui.element("div").classes("w-full")
        await self._build_tabs()
        self._context.on_change(self._update)
        await self._show()

    async def _build_tabs(self) -> None:
        offered = dict(TABS)
        key = self._job.key
        rights = self._context.viewer.rights
        if not await rights.may("create", POD, key.namespace, subresource="exec"):
            del offered["shell"]
        if not await rights.may("get", POD, key.namespace, subresource="log"):
            del offered["logs"]
        wanted = self._context.query.get("tab", "")
        first = wanted if wanted in offered else "pods"
        with (
            ui.tabs()
            .props(
                'dense no-caps align="left" inline-label outside-arrows mobile-arrows aria-label="Parts of the job"'
            )
            .classes("w-full") as tabs
        ):
            for name, (label, icon, _build) in offered.items():
                ui.tab(name, label, icon)
        tabs.set_value(first)

        def open_tab(name: str) -> None:
            tabs.set_value(name)

        tabs.on_value_change(self._on_tab)
        self._job.open_tab = open_tab
        with ui.tab_panels(tabs, value=first, animated=False, keep_alive=True).classes(
            "w-full bg-transparent"
        ):
            for name in offered:
                self._panels[name] = ui.tab_panel(name).classes("w-full").style("padding: 0")
        await self._open(first)

    async def _on_tab(self, event: events.ValueChangeEventArguments[Any]) -> None:
        name = str(event.value)
        self._context.set_query(tab="" if name == "pods" else name)
        await self._open(name)

    async def _open(self, name: str) -> None:
        """Builds a tab when it is first opened; only the open tab is updated."""
        self._job.tab = name
        if name not in self._built:
            self._built.add(name)
            with self._panels[name], ui.column().classes("w-full gap-4"):
                await TABS[name][2](self._job)
        await self._job.update_tab()

    async def _update(self) -> None:
        view = job_view(self._context.objects, self._job.key, self._job.view)
        self._gone.set_visibility(view is None)
        if view is None:
            self._actions.clear()
            self._state, self._offered = (), []
            return
        self._job.view = view
        await self._show()
        await self._job.update_tab()

    async def _show(self) -> None:
        view = self._job.view
        pairs = job_facts(view, self._context.objects.now)
        if pairs != self._facts:
            self._facts = pairs
            self._facts_box.clear()
            with self._facts_box, ui.element("div").classes("volcano-facts"):
                for column in (pairs[::2], pairs[1::2]):
                    with ui.element("div"):
                        facts(column)
        state = (view.item.row.phase, view.item.code, view.item.row.waits_for)
        if state != self._state:
            self._state = state
            self._phase.clear()
            with self._phase:
                phase(view.item.row.phase)
            self._show_reason()
            await self._show_actions()

    def _show_reason(self) -> None:
        item = self._job.view.item
        self._reason.clear()
        self._reason.set_visibility(bool(item.row.waits_for))
        with self._reason, card(), ui.row().classes("w-full items-center gap-3"):
            ui.icon("hourglass_top", size="sm").props("aria-hidden=true").style("color: var(--volcano-warn)")
            with ui.element("div").classes("flex-1").style("min-width: 12rem"):
                ui.label(item.code or "Waiting").classes("font-semibold")
                ui.label(item.row.waits_for)
            ui.button(
                "Diagnosis", icon="troubleshoot", on_click=lambda: self._job.open_tab("diagnosis")
            ).props("outline dense")

    async def _show_actions(self) -> None:
        item = self._job.view.item
        offered = [
            action
            for action in actions.ORDER
            if item.accepts(action) and await actions.permitted(self._context, action, [item.key])
        ]
        if offered == self._offered:
            return
        self._offered = offered
        self._actions.clear()
        with self._actions:
            for action in offered:
                actions.button(self._context, action, item.key)


def job_facts(view: JobView, now: float) -> list[Fact]:
    """Names and values at the top of the page; those without a value are left out."""
    row, spec = view.item.row, view.manifest.get("spec") or {}
    state = at(view.manifest, "status", "state", default={})
    retries = number(view.manifest, "status", "retryCount")
    values: dict[str, str | tuple[str, str]] = {
        "Kind": POD_GROUP.kind if row.grouped_only else JOB.kind,
        "Owner": view.item.owner,
        "Namespace": row.key.namespace,
        "Queue": (row.queue, f"/queues/{row.queue}"),
        "User": view.item.user,
        "Pods": f"{row.ready} of {row.wanted} run or have succeeded; at least {row.minimum} start together",
        "Holds": ", ".join(
            f"{short_name(name)} {shown(name, amount)}"
            for name, amount in sorted(row.holds.items())
            if amount
        ),
        "Created": f"{timestamp(row.created)} ({span(max(now - row.created, 0))} ago)",
        "Priority class": str(spec.get("priorityClassName") or ""),
        "Retries": f"{retries} of {number(spec, 'maxRetry')}" if retries else "",
        "Plugins": ", ".join(sorted(spec.get("plugins") or {})),
        "Message": str(state.get("message") or state.get("reason") or "")
        if isinstance(state, Mapping)
        else "",
        "Ran for": str(at(view.manifest, "status", "runningDuration", default="")),
    }
    return [(name, value) for name, value in values.items() if value]
