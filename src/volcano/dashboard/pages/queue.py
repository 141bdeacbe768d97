"""The page of one queue: what it holds, how its share comes about, and its jobs."""

from argparse import Namespace

from nicegui import ui

from volcano.analysis.explanation.case import Data, counted
from volcano.cli.explain.subjects import of_queue
from volcano.cli.shares import shown
from volcano.cli.top.board import JobRow
from volcano.dashboard.context import Context
from volcano.dashboard.data.queues import QueueRow, find_queue, queue_rows
from volcano.dashboard.pages.bars import OWN, BarRows, bar_of, bare_row, legend, tree_row
from volcano.dashboard.pages.explanation import Explanation
from volcano.dashboard.pages.queue_actions import QueueActions
from volcano.dashboard.pages.share_charts import QueueChart
from volcano.dashboard.pages.tables import LINK, PHASE, TIME, Column, PagedTable
from volcano.dashboard.pages.widgets import card, colour_of, heading, link, nothing, small_table, time_cell
from volcano.kube.kinds import JOB
from volcano.kube.manifest import Key

SHARE_COLUMNS = {
    "resource": "Resource", "cluster": "Cluster", "weight": "Weight", "byWeight": "By weight", "limit": "Limit",
    "requested": "Requested", "guarantee": "Guarantee", "deserved": "Deserved now", "allocated": "Allocated",
    "borrowed": "Borrowed", "lent": "Lent",
}  # fmt: skip


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
        arguments = Namespace(key=Key("", self._name), cycle="", at="")
        Explanation(
            self._context,
            "Share step by step",
            lambda session: of_queue(session, arguments),
            _show_explanation,
        )
        with card("Child queues") as self._children_card:
            self._children = BarRows(f"Child queues of {self._name}")
        with card("Jobs of the queue and its descendants"):
            link("Filter and group these jobs", f"/jobs?queue={self._name}")
            self._jobs = PagedTable(
                self._context,
                (*JOB_COLUMNS, self._age_column(), REASON_COLUMN),
                key=lambda job: str(job.key),
                label="Jobs of the queue",
                order="age",
                empty="The queue has no jobs.",
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
        self._jobs.show(objects.board.jobs_in(self._name))
        await self._actions.update(row.state, row.weight)

    def _age_column(self) -> Column[JobRow]:
        return Column(
            "age",
            "Age",
            lambda job: time_cell(job.created, self._context.objects.now),
            lambda job: -job.created,
            TIME,
            wide_only=True,
        )

    def _show_path(self, row: QueueRow) -> None:
        if row.path == self._shown_path:
            return
        self._shown_path = row.path
        self._path.clear()
        with self._path:
            for above in row.path[:-1]:
                link(above, f"/queues/{above}")
                ui.label("/").props("aria-hidden=true").classes("volcano-muted")


JOB_COLUMNS: tuple[Column[JobRow], ...] = (
    Column(
        "name",
        "Name",
        lambda job: {"text": job.key.name, "href": f"/jobs/{job.key.namespace}/{job.key.name}"},
        lambda job: job.key.name,
        LINK,
    ),
    Column(
        "namespace", "Namespace", lambda job: job.key.namespace, lambda job: job.key.namespace, wide_only=True
    ),
    Column("queue", "Queue", lambda job: job.queue, lambda job: job.queue, wide_only=True),
    Column(
        "phase",
        "Phase",
        lambda job: {"text": job.phase, "colour": colour_of(job.phase)},
        lambda job: job.phase,
        PHASE,
    ),
    Column("pods", "Pods", lambda job: f"{job.ready}/{job.wanted}", lambda job: job.wanted, align="right"),
    Column(
        "holds",
        "Holds",
        lambda job: ", ".join(f"{shown(name, amount)} {name}" for name, amount in job.holds.items()),
        wide_only=True,
    ),
)
REASON_COLUMN: Column[JobRow] = Column(
    "reason",
    "Reason",
    lambda job: job.waits_for,
    lambda job: job.waits_for,
    '<span class="volcano-reason" style="max-width: 20rem" :title="props.value">{{ props.value }}</span>',
    wide_only=True,
)


def _show_explanation(found: Data) -> None:
    plugin = found["plugin"] or "none: shares are not limited"
    holding, waiting = found["jobs"]["holding"], found["jobs"]["waiting"]
    ui.label(f"Plugin: {plugin}. Jobs that hold resources: {holding}; jobs that wait: {waiting}.").classes(
        "volcano-muted"
    )
    ui.label(
        "The cluster, divided by weight, within limit and request, at least the guarantee. The scheduler divides what "
        "other queues do not request, too: a queue can deserve more now than by its weight alone, which the bars show."
    )
    small_table(
        "Share step by step",
        SHARE_COLUMNS.values(),
        [[str(row[name]) for name in SHARE_COLUMNS] for row in found["resources"]],
    )
    if not found["reasons"]:
        return
    ui.label("Waiting jobs by reason:")
    small_table("Reasons", ("Reason", "Jobs"), [(row["code"], str(row["jobs"])) for row in found["reasons"]])
    ui.label("Waiting jobs in the order of the queue:")
    small_table(
        "Waiting jobs",
        ("Job", "User", "Pods", "Priority", "Reason", "Requests"),
        [
            (
                (row["job"], f"/jobs/{row['job']}"),
                row.get("user", ""),
                str(row["pods"]),
                str(row["priority"] or ""),
                row.get("code", ""),
                ", ".join(f"{name} {amount}" for name, amount in row["requests"].items()),
            )
            for row in found["waiting"]
        ],
    )
