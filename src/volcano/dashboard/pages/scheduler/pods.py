"""Results of the plugins for one pod: why it has its node, or why it has none."""

from typing import Any

from nicegui import events, ui

from volcano.dashboard.context import Context
from volcano.dashboard.objects import Objects
from volcano.dashboard.pages.explained import show_details, show_pod
from volcano.dashboard.pages.jobs.computing import computed
from volcano.dashboard.pages.widgets import card, heading
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import Key, key_of
from volcano.services.explain.pods import explain_pod

MOST_SUGGESTED = 20
PARTS = ("scores", "plugins")  # of `vcctl explain pod -v`


async def build(context: Context) -> None:
    """The tab: a name, and the explanation of the pod."""
    ui.label(
        "Shows how the plugins score the nodes for a pod that runs, and which nodes they exclude for one that waits."
    ).classes("volcano-muted")
    with ui.row().classes("w-full items-center gap-3"):
        name = ui.input("Pod (namespace/name)", value=context.query.get("pod", ""))
        name.props("dense outlined clearable debounce=200 data-filter").classes("w-96 max-w-full")
        button = ui.button("Explain", icon="troubleshoot")
    result = ui.column().classes("w-full gap-4").props("aria-live=polite")

    def suggest(event: events.ValueChangeEventArguments[Any]) -> None:
        name.set_autocomplete(_suggestions(context.objects, str(event.value or "")))

    async def explain() -> None:
        namespace, _, pod = str(name.value or "").strip().rpartition("/")
        if not pod:
            ui.notify("Write the name of a pod, such as default/train-worker-0.", type="warning")
            return
        key = Key(namespace or "default", pod)
        context.set_query(pod=f"{key.namespace}/{key.name}")
        result.clear()
        with result, card():
            found = await computed(
                context,
                lambda connection: explain_pod(connection.client, connection.clock, key, details=PARTS),
            )
            if found is None:
                return
            show_pod(found, context.objects.now)
            for part, rows in found.details.items():
                if rows:
                    heading(part.capitalize(), 2)
                    show_details(part, rows)

    name.on_value_change(suggest)
    name.on("keydown.enter", explain)
    button.on_click(explain)
    if context.query.get("pod"):
        ui.timer(0.1, explain, once=True)  # the page is shown before the analysis ends


def _suggestions(objects: Objects, text: str) -> list[str]:
    """Pods that the viewer may list and whose name contains a text."""
    found: list[str] = []
    for pod in objects.of(POD) if text else ():
        key = key_of(pod)
        name = f"{key.namespace}/{key.name}"
        if text in name:
            found.append(name)
            if len(found) == MOST_SUGGESTED:
                break
    return sorted(found)
