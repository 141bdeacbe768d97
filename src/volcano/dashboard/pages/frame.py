"""The frame around every page: navigation, the viewer, the theme, and a line when the API server does not answer."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from nicegui import ui

from volcano.dashboard.context import Context
from volcano.dashboard.pages.page import Page

THEMES = {"auto": None, "light": False, "dark": True}
NEXT_THEME = {"auto": "light", "light": "dark", "dark": "auto"}
THEME_ICONS = {"auto": "brightness_auto", "light": "light_mode", "dark": "dark_mode"}
LOG_OUT = 'fetch("/logout", { method: "POST" }).then(() => location.assign("/login"))'


@contextmanager
def frame(page: Page, pages: Sequence[Page], context: Context) -> Iterator[None]:
    """Elements created inside are the content of the page."""
    shown = [each for each in pages if each.navigation]
    ui.add_head_html('<link rel="stylesheet" href="/static/dashboard.css" />')
    keys = {each.key: each.paths[0] for each in shown if each.key}
    ui.add_body_html(f"<script>const PAGES = {json.dumps(keys)};</script>")
    ui.add_body_html('<script src="/static/shortcuts.js"></script>')
    ui.colors(primary="#1565c0", positive="#2e7d32", negative="#c62828", warning="#b26a00")
    dark = ui.dark_mode(THEMES[context.viewer.theme])
    with ui.header().classes("items-center q-py-xs q-px-sm").style("background: #22303f; color: #fff"):
        menu = ui.button(icon="menu").props('flat dense color=white aria-label="Navigation"')
        ui.image("/static/icon.svg").classes("w-7 h-7").props('alt="" no-spinner')
        ui.link("Volcano", "/").classes("text-lg text-white no-underline font-semibold")
        ui.space()
        _theme_button(dark, context)
        with (
            ui.button(icon="account_circle").props(
                f'flat dense color=white aria-label="{_attribute(context.viewer.name)}"'
            ),
            ui.menu().props("auto-close"),
        ):
            ui.item(context.viewer.name).props("dense disable")
            ui.menu_item("Log out", on_click=lambda: ui.run_javascript(LOG_OUT))
    # Opened by the browser if it is wide enough.
    drawer = ui.left_drawer(value=False, bordered=True).props("width=190 breakpoint=900 show-if-above")
    with drawer, ui.element("nav").classes("volcano-nav w-full").props('aria-label="Pages"'):
        for each in shown:
            current = 'aria-current="page"' if _same_section(each, page) else ""
            hint = f'title="g {each.key}"' if each.key else ""
            with ui.element("a").props(f'href="{each.paths[0]}" {current} {hint}'):
                ui.icon(each.icon, size="sm").props("aria-hidden=true")
                ui.label(each.title)
    menu.on_click(drawer.toggle)
    with ui.element("div").classes("volcano-page w-full") as main:
        _unreachable_line(context)
        with ui.column().classes("w-full gap-4"):
            yield
    ui.skip_link(target=main)


def _same_section(each: Page, page: Page) -> bool:
    return each is page or (not page.navigation and page.paths[0].startswith(f"{each.paths[0]}/"))


def _theme_button(dark: ui.dark_mode, context: Context) -> None:
    viewer = context.viewer
    button = ui.button(icon=THEME_ICONS[viewer.theme]).props("flat dense color=white")

    def label() -> None:
        button.props(
            f'icon={THEME_ICONS[viewer.theme]} aria-label="Theme: {viewer.theme}" title="Theme: {viewer.theme}"'
        )

    def change() -> None:
        viewer.theme = NEXT_THEME[viewer.theme]
        dark.set_value(THEMES[viewer.theme])
        label()

    label()
    button.on_click(change)


def _unreachable_line(context: Context) -> None:
    line = (
        ui.label()
        .classes("w-full q-pa-sm rounded text-white")
        .style("background: #c62828")
        .props('role="alert"')
    )

    def update() -> None:
        reason = context.feed.unreachable
        line.set_visibility(bool(reason))
        line.set_text(f"The API server does not answer; what is shown may be out of date. {reason}")

    update()
    context.on_change(update)


def _attribute(text: str) -> str:
    return text.replace("\\", "").replace('"', "")
