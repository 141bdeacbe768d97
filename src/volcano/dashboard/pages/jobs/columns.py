"""Columns of tables of jobs: on the page of all jobs and on that of a queue."""

from typing import Any

from volcano.base.clock import timestamp
from volcano.dashboard.context import Context
from volcano.dashboard.data.jobs import JobItem
from volcano.dashboard.pages.tables import LINK, PHASE, TIME, Column
from volcano.dashboard.pages.widgets import colour_of
from volcano.views.amounts import short_name, shown
from volcano.views.times import span

SHOWN_RESOURCES = 3
NAME = (
    '<a class="volcano-link volcano-name" :href="props.value.href">{{ props.value.text }}</a>'
    '<span v-if="props.value.group" class="volcano-muted q-ml-xs" title="A PodGroup without a Volcano Job">'
    "PodGroup{{ props.value.owner }}</span>"
)
HOLDS = '<span class="volcano-holds">{{ props.value }}</span>'
STATE = f'{PHASE}<div v-if="props.value.code" class="lt-md volcano-muted volcano-code">{{{{ props.value.code }}}}</div>'
REASON = (
    '<span v-if="props.value.code" :title="props.value.message" class="volcano-reason"><b>{{ props.value.code }}</b> '
    '<span class="volcano-muted">{{ props.value.message }}</span></span>'
)


def job_columns(context: Context) -> tuple[Column[JobItem], ...]:
    """Columns, of which some are hidden on narrow screens."""

    def age(item: JobItem) -> dict[str, str]:
        seconds = max(context.objects.now - item.row.created, 0)
        return {"text": span(seconds), "title": timestamp(item.row.created)}

    def share(item: JobItem) -> float:
        return item.row.dominant(context.objects.board.total)

    return (
        Column(
            "name", "Name",
            _name, lambda item: item.key.name, NAME,
        ),
        Column("namespace", "Namespace", lambda item: item.key.namespace, lambda item: item.key, wide_only=True),
        Column(
            "queue", "Queue", lambda item: {"text": item.row.queue, "href": f"/queues/{item.row.queue}"},
            lambda item: item.row.queue, LINK, wide_only=True,
        ),
        Column("user", "User", lambda item: item.user, lambda item: item.user, wide_only=True),
        Column(
            "phase", "State",
            lambda item: {"text": item.row.phase, "colour": colour_of(item.row.phase), "code": _reason(item)},
            lambda item: item.row.phase, STATE,
        ),
        Column(
            "pods", "Pods", lambda item: f"{item.row.ready}/{item.row.wanted}", lambda item: item.row.wanted,
            align="right",
        ),
        Column("age", "Age", age, lambda item: -item.row.created, TIME, align="right"),
        Column("holds", "Holds", _holds, share, HOLDS, wide_only=True),
        Column(
            "reason", "Reason", lambda item: {"code": _reason(item), "message": item.row.waits_for},
            lambda item: item.code, REASON, wide_only=True,
        ),
    )  # fmt: skip


def _name(item: JobItem) -> dict[str, Any]:
    owner = f" of {item.owner}" if item.owner else ""
    return {"text": item.key.name, "href": item.address, "group": item.row.grouped_only, "owner": owner}


def _reason(item: JobItem) -> str:
    return item.code or ("Waiting" if item.row.waits_for else "")


def _holds(item: JobItem) -> str:
    """Requests of the pods that have a node: `cpu 96, gpu 96`."""
    held = [(name, amount) for name, amount in sorted(item.row.holds.items()) if amount]
    return ", ".join(f"{short_name(name)} {shown(name, amount)}" for name, amount in held[:SHOWN_RESOURCES])
