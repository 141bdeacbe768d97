"""The page of one queue: what it holds, how its share comes about, and its jobs."""

from nicegui import ui

from volcano.analysis.explain.case import counted
from volcano.analysis.explain.queue import QueueExplanation
from volcano.dashboard.context import Context
from volcano.dashboard.data.jobs import JobFilter, job_items
from volcano.dashboard.data.queues import (
    SHARE_TITLES,
    QueueRow,
    find_queue,
    queue_rows,
    share_row,
)
from volcano.dashboard.pages.bars import OWN, BarRows, bar_of, bare_row, legend, tree_row
from volcano.dashboard.pages.explanation import Explanation
from volcano.dashboard.pages.jobs.columns import job_columns
from volcano.dashboard.pages.queue_actions import QueueActions
from volcano.dashboard.pages.share_charts import QueueChart
from volcano.dashboard.pages.tables import PagedTable
from volcano.dashboard.pages.widgets import card, heading, link, nothing, small_table
from volcano.kube.api.kinds import JOB
from volcano.services.explain.cluster import explain_queue
from volcano.views.amounts import quantity_shown, short_name


async def build(context: Context) -> None:
    name = context.parameters["name"]
    with ui.row().classes("w-full items-center justify-between"):
        heading(f"Queue {name}")
        actions = QueueActions(context, name)
    row = find_queue(context.objects, name)
    if row is None:
        nothing(f"There is no queue {name}, or you may not list queues.")
        return
    page = QueuePage(context, name, actions)
    page.build()
    await page.update()
    context.on_change(page.update)


class QueuePage:
    """Facts, bars and tables of a queue, updated with the cluster."""

    def __init__(self, context: Context, name: str, actions: QueueActions) -> None:
        self._context = context
        self._name = name
        self._actions = actions

    def build(self) -> None:
        with card():
            with ui.row().classes("w-full items-center gap-4 q-mb-sm"):
                self._path = ui.row().classes("items-center gap-1").props('aria-label="Ancestors"')
                self._facts = ui.label()
            self._bars = BarRows(f"Resources of queue {self._name}")
            legend()
        self._chart = QueueChart(self._context, self._name)
        Explanation(
            self._context,
            "Share step by step",
            lambda connection: explain_queue(connection.client, connection.clock, self._name),
            _show_explanation,
        )
        with card("Child queues") as self._children_card:
            self._children = BarRows(f"Child queues of {self._name}")
        with card("Jobs of the queue and its descendants"):
            link("Filter and group these jobs", f"/jobs?queue={self._name}")
            self._jobs = PagedTable(
                self._context,
                job_columns(self._context),
                key=lambda item: item.identity,
                label="Jobs of the queue",
                order="age",
                empty="The queue has no jobs.",
                sections=True,
            )
            if not self._context.objects.scopes.everywhere(JOB):
                nothing("Jobs of namespaces in which you may not list them are not shown.")
        self._shown_path: tuple[str, ...] = ()

    async def update(self) -> None:
        objects = self._context.objects
        row = find_queue(objects, self._name)
        if row is None:
            self._facts.set_text("The queue has been deleted.")
            return
        self._show_path(row)
        state = (
            f"{row.state}, weight {row.weight}, {row.share:.0%} of the cluster, {counted(row.pods, 'pod')}"
        )
        balance = f"; {row.balance()}" if row.balance() else ""
        self._facts.set_text(
            f"{state}; {counted(row.running, 'job')} running, {row.pending} pending{balance}"
        )
        self._bars.show([bare_row(row.name, (bar_of(bar, OWN) for bar in row.bars))])
        self._chart.show(row)
        children = [each for each in objects.get(queue_rows) if each.parent == self._name]
        self._children_card.set_visibility(bool(children))
        self._children.show(
            [{**tree_row(each, scale=OWN, collapsed=(), is_filtered=True), "depth": 0} for each in children]
        )
        self._jobs.show(JobFilter(queue=self._name).chosen(objects.get(job_items)))
        await self._actions.update(row.state, row.weight)

    def _show_path(self, row: QueueRow) -> None:
        if row.path == self._shown_path:
            return
        self._shown_path = row.path
        self._path.clear()
        with self._path:
            for above in row.path[:-1]:
                link(above, f"/queues/{above}")
                ui.label("/").props("aria-hidden=true").classes("volcano-muted")


def _show_explanation(found: QueueExplanation) -> None:
    plugin = found.plugin or "none: shares are not limited"
    ui.label(
        f"Plugin: {plugin}. Jobs that hold resources: {found.jobs.holding}; jobs that wait: {found.jobs.waiting}."
    ).classes("volcano-muted")
    ui.label(
        "The cluster, divided by weight, within limit and request, at least the guarantee. What other queues do not "
        "request is divided, too: a queue can deserve more than by its weight alone."
    )
    small_table("Share step by step", SHARE_TITLES, map(share_row, found.resources))
    if not found.reasons:
        return
    ui.label("Waiting jobs by reason:")
    small_table("Reasons", ("Reason", "Jobs"), [(row.code, str(row.jobs)) for row in found.reasons])
    ui.label("Waiting jobs in the order of the queue:")
    small_table(
        "Waiting jobs",
        ("Job", "User", "Pods", "Priority", "Reason", "Requests"),
        [
            (
                (row.job, f"/jobs/{row.job}"),
                row.user,
                str(row.pods),
                str(row.priority or ""),
                row.code,
                ", ".join(
                    f"{short_name(name)} {quantity_shown(name, amount)}"
                    for name, amount in row.requests.items()
                ),
            )
            for row in found.waiting
        ],
    )
