"""The page of all jobs: filters, groups and actions on several jobs. Filters and groups are in the address."""

from collections.abc import Sequence
from typing import Any

from nicegui import background_tasks, events, ui

from volcano.dashboard.context import Context
from volcano.dashboard.data.jobs import (
    GROUP_LABELS,
    GROUPS,
    Group,
    JobFilter,
    JobItem,
    choices,
    grouped,
    job_items,
    keys_for,
)
from volcano.dashboard.pages.jobs import actions
from volcano.dashboard.pages.jobs.columns import job_columns
from volcano.dashboard.pages.tables import PagedTable
from volcano.dashboard.pages.widgets import colour_of, heading
from volcano.kube.api.kinds import JOB, POD_GROUP
from volcano.kube.api.manifest import Key
from volcano.services.jobs import DELETE

SHOWN_GROUPS = 24
TYPING_PAUSE = 250  # milliseconds after which the text is used


async def build(context: Context) -> None:
    _Listing(context)


class _Listing:
    """The elements of the page and what is shown in them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._filter = JobFilter.of_query(context.query)
        self._group = context.query.get("group", "")
        if self._group not in GROUPS:
            self._group = ""
        self._shown: list[JobItem] = []
        self._groups: list[Group] = []
        with ui.row().classes("w-full items-baseline gap-3"):
            heading("Jobs")
            self._count = ui.label().classes("volcano-muted").props('role="status"')
        self._missing = ui.label().classes("volcano-muted")
        self._selects: dict[str, ui.select] = {}
        self._build_filters()
        self._chips = ui.row().classes("w-full gap-2").props('role="group" aria-label="Groups"')
        self._bulk = ui.row().classes("volcano-card w-full items-center gap-2 q-py-sm")
        self._bulk.set_visibility(False)
        self._table = PagedTable(
            context,
            job_columns(context),
            key=lambda item: item.identity,
            label="Jobs",
            order="age",
            on_select=self._on_select,
            empty="No job matches.",
            sections=True,
        )
        self._table.section_by(GROUPS.get(self._group))
        self.update()
        context.on_change(self.update)

    def _build_filters(self) -> None:
        with ui.row().classes("w-full items-center gap-2"):
            text = ui.input("Filter", value=self._filter.text, on_change=self._on_text)
            text.props(f"dense outlined clearable debounce={TYPING_PAUSE} data-filter").style(
                "flex: 1 1 9rem; max-width: 20rem"
            )
            text.props["aria-label"] = "Filter by name, namespace, queue, user or reason"
            for name, label in GROUP_LABELS.items():
                self._selects[name] = self._select(name, label)
            group = ui.select(
                {"": "No groups", **{name: f"By {label.lower()}" for name, label in GROUP_LABELS.items()}},
                value=self._group,
                label="Group",
                on_change=self._on_group,
            )
            group.props("dense outlined options-dense").style("width: 8.6rem")
            self._clear = ui.button("Clear", icon="filter_alt_off", on_click=self._on_clear).props(
                "flat dense"
            )

    def _select(self, name: str, label: str) -> ui.select:
        def changed(event: events.ValueChangeEventArguments[Any]) -> None:
            self._set_filter(self._filter.with_value(name, str(event.value or "")))

        value = getattr(self._filter, name)
        select = ui.select(
            [value] if value else [], value=value or None, label=label, with_input=True, clearable=True,
            on_change=changed,
        )  # fmt: skip
        return select.props("dense outlined options-dense").style("width: 8.6rem")

    # -- changes by the viewer

    def _on_text(self, event: events.ValueChangeEventArguments[Any]) -> None:
        self._set_filter(self._filter.with_value("text", str(event.value or "")))

    def _on_group(self, event: events.ValueChangeEventArguments[Any]) -> None:
        self._group = str(event.value or "")
        self._context.set_query(group=self._group)
        self._table.section_by(GROUPS.get(self._group))
        self.update()

    def _on_clear(self) -> None:
        self._set_filter(JobFilter())
        ui.navigate.to(self._context.path + (f"?group={self._group}" if self._group else ""))

    def _set_filter(self, wanted: JobFilter) -> None:
        if wanted == self._filter:
            return
        self._filter = wanted
        self._context.set_query(**wanted.query(), page="")
        self.update()

    # -- what is shown

    def update(self) -> None:
        objects = self._context.objects
        items = objects.get(job_items)
        self._shown = self._filter.chosen(items)
        total = f"{len(items):,} {'job' if len(items) == 1 else 'jobs'}"
        self._count.set_text(f"{len(self._shown):,} of {total}" if self._filter.is_set else total)
        self._clear.set_visibility(self._filter.is_set)
        for name, values in objects.get(choices).items():
            select = self._selects[name]
            if select.options != list(values) and (not select.value or select.value in values):
                select.set_options(list(values), value=select.value)
        self._missing.set_text(missing_text(self._context))
        self._missing.set_visibility(bool(self._missing.text))
        self._show_groups()
        self._table.show(self._shown)

    def _show_groups(self) -> None:
        groups = grouped(self._shown, self._group) if self._group else []
        self._chips.set_visibility(bool(groups))
        if groups == self._groups:
            return
        self._groups = groups
        self._chips.clear()
        with self._chips:
            for group in groups[:SHOWN_GROUPS]:
                self._group_button(group)
            if len(groups) > SHOWN_GROUPS:
                ui.label(f"and {len(groups) - SHOWN_GROUPS} more").classes("volcano-muted self-center")

    def _group_button(self, group: Group) -> None:
        phases = ", ".join(f"{count} {phase}" for phase, count in group.phases)
        chosen = getattr(self._filter, self._group) == group.name
        button = ui.button(on_click=lambda: self._choose_group("" if chosen else group.name))
        button.props("outline dense size=sm" + (" color=primary" if chosen else " color=grey-7"))
        button.props["aria-pressed"] = "true" if chosen else "false"
        button.props["aria-label"] = f"{GROUP_LABELS[self._group]} {group.name}: {phases}"
        button.props["title"] = phases
        with button, ui.row(wrap=False).classes("items-center gap-2 q-px-xs"):
            ui.label(group.name)
            ui.label(f"{group.jobs:,}").classes("font-semibold")
            with (
                ui.row(wrap=False)
                .classes("gap-0 rounded overflow-hidden")
                .style("width: 3rem; height: .4rem")
            ):
                for phase, count in group.phases:
                    ui.element("span").style(f"flex: {count}; height: 100%; background: {colour_of(phase)}")

    def _choose_group(self, name: str) -> None:
        self._selects[self._group].set_value(name or None)

    def _on_select(self, _keys: list[str]) -> None:
        background_tasks.create(self._show_bulk(), name="show actions")

    async def _show_bulk(self) -> None:
        """The bar with the actions on the selected jobs, those that the viewer may do."""
        selected = self._table.selected
        self._bulk.set_visibility(bool(selected))
        self._bulk.clear()
        if not selected:
            return
        items = self._context.objects.get(job_items)
        offered = []
        for action in actions.ORDER:
            keys = await actions.permitted(self._context, action, keys_for(action, items, selected))
            if keys:
                offered.append((action, keys))
        self._bulk.clear()
        with self._bulk:
            ui.label(f"{len(selected):,} selected").props('role="status"')
            if len(selected) < len(self._shown):
                ui.button(
                    f"Select all {len(self._shown):,}",
                    on_click=lambda: self._table.select([item.identity for item in self._shown]),
                ).props("flat dense")
            ui.button("Clear selection", on_click=self._table.clear_selection).props("flat dense")
            ui.space()
            if not offered:
                ui.label("You may not change these jobs, or none of them can be.").classes("volcano-muted")
            for action, keys in offered:
                self._bulk_button(action, keys)

    def _bulk_button(self, action: str, keys: Sequence[Key]) -> None:
        async def act() -> None:
            if await actions.run(self._context, action, keys):
                self._table.clear_selection()

        button = ui.button(f"{action.capitalize()} {len(keys):,}", icon=actions.ICONS[action], on_click=act)
        button.props("outline dense" + (" color=negative" if action == DELETE else ""))


def missing_text(context: Context) -> str:
    """A sentence about jobs that the viewer may not list; "" when all are shown."""
    scopes = context.objects.scopes
    if scopes.everywhere(JOB) and scopes.everywhere(POD_GROUP):
        return ""
    namespaces = sorted(scopes.of(JOB) | scopes.of(POD_GROUP))
    if not namespaces:
        return "You may not list jobs (jobs.batch.volcano.sh) in any namespace."
    some = ", ".join(namespaces[:5]) + (f" and {len(namespaces) - 5} more" if len(namespaces) > 5 else "")
    return f"You may list jobs in these namespaces only: {some}."
