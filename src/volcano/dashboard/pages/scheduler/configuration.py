"""The scheduler's configuration: shown, checked, and compared with another one. Nothing is written to the cluster."""

from nicegui import ui

from volcano.analysis.plan.config_plan import ConfigPlan
from volcano.analysis.plan.tables import UNCHANGED, sections, waiting_sentence
from volcano.analysis.rerun.live_config import LiveConfig, read_config
from volcano.dashboard.context import Context
from volcano.dashboard.data.configuration import Checked, check, plugin_rows
from volcano.dashboard.pages.explained import show_table
from volcano.dashboard.pages.jobs.computing import computed
from volcano.dashboard.pages.widgets import card, facts, heading
from volcano.services.plan import plan_config
from volcano.views.columns import Column

EDITOR_THEME = "Quasar.Dark.isActive ? 'githubDark' : 'githubLight'"
PLUGINS = (
    Column("Tier", lambda row: str(row.tier)),
    Column("Plugin", lambda row: row.name),
    Column("Arguments", lambda row: row.arguments),
    Column("Not called", lambda row: row.disabled),
)


async def build(context: Context) -> None:
    """The tab: the present configuration, and an editor for another."""
    live = await read_config(context.viewer.connection.client)
    with card("Present configuration"):
        _show_present(live)
    with card("Check another configuration"):
        ui.label(
            "Edit or paste a configuration, then check it or compare its effect with that of the present one. "
            "Nothing is changed in the cluster."
        ).classes("volcano-muted q-mb-sm")
        editor = ui.codemirror(live.config.text, language="YAML", indent="  ").classes(
            "w-full volcano-editor"
        )
        editor.style("height: 22rem")
        editor.props.pop("theme", None)
        editor.props[":theme"] = EDITOR_THEME
        editor.props["aria-label"] = "Configuration in YAML"
        ui.label("Esc, then Tab leaves the editor.").classes("volcano-muted text-xs")
        with ui.row().classes("items-center gap-3 q-mt-sm"):
            checking = ui.button("Check", icon="rule").props("outline")
            comparing = ui.button("Show what it would change", icon="compare_arrows")
            ui.button("Reset", on_click=lambda: editor.set_value(live.config.text)).props("flat")
        result = ui.column().classes("w-full gap-3 q-mt-sm").props("aria-live=polite")

    def checked() -> Checked:
        found = check(str(editor.value or ""), live.config)
        result.clear()
        with result:
            _show_checked(found)
        return found

    async def compare() -> None:
        found = checked()
        if found.config is None:
            return
        new = found.config
        with result:
            plan = await computed(
                context, lambda connection: plan_config(connection.client, connection.clock, new)
            )
            if plan is not None:
                _show_effect(plan)

    checking.on_click(lambda: checked() and None)
    comparing.on_click(compare)


def _show_present(live: LiveConfig) -> None:
    config = live.config
    if live.note:
        ui.label(f"Note: {live.note}.").classes("volcano-muted")
    actions = {
        name: ", ".join(f"{key}: {value}" for key, value in config.arguments(name).values.items())
        for name in config.actions
    }
    facts((("Actions", ", ".join(config.actions)),))
    if any(actions.values()):
        facts((f"Arguments of {name}", text) for name, text in actions.items() if text)
    show_table(PLUGINS, plugin_rows(config))
    for text in config.warnings:
        ui.label(f"Warning: {text}").classes("volcano-muted")


def _show_checked(found: Checked) -> None:
    if found.problems:
        count = len(found.problems)
        title = "The configuration has an error" if count == 1 else f"The configuration has {count} errors"
        with ui.element("div").props('role="alert"'):
            ui.label(title).classes("font-semibold").style("color: var(--volcano-bad)")
            with ui.element("ul").classes("m-0"):
                for problem in found.problems:
                    with ui.element("li"):
                        ui.label(f"Line {problem.line}: {problem.text}" if problem.line else problem.text)
        return
    with ui.row().classes("items-center gap-2").props('role="status"'):
        ui.icon("check_circle", size="sm").style("color: var(--volcano-good)").props("aria-hidden=true")
        ui.label("The configuration is valid.")
    for text in found.warnings:
        ui.label(f"Warning: line {text}").style("color: var(--volcano-warn)")


def _show_effect(found: ConfigPlan) -> None:
    if found.changes_nothing:
        ui.label(f"It {UNCHANGED}").classes("font-semibold")
    for section in sections(found):
        heading(section.title, 2)
        show_table(section.columns, section.rows)
    if sentence := waiting_sentence(found):
        ui.label(sentence)
    for note in found.notes:
        ui.label(f"Note: {note}").classes("volcano-muted")
