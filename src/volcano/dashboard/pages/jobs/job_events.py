"""The tab of events: those of the job, its PodGroup and its pods."""

import asyncio

from nicegui import background_tasks, ui

from volcano.base.clock import timestamp
from volcano.dashboard.data.events import EventItem, event_items
from volcano.dashboard.pages.jobs.open_job import OpenJob
from volcano.dashboard.pages.tables import PHASE, Column, PagedTable
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import EVENT
from volcano.kube.api.manifest import Manifest, key_of
from volcano.kube.client.protocol import Query

FEW_OBJECTS = 20  # up to this many, the events of each are asked for; otherwise those of the whole namespace
PAUSE = 3.0  # seconds between two lists
PERIOD = 15.0  # seconds after which events are listed again although the job has not changed
ABOUT = '<span class="volcano-reason" style="max-width: 16rem" :title="props.value">{{ props.value }}</span>'
AGE = '<span class="volcano-age" :title="props.value.title">{{ props.value.text }}</span>'
MESSAGE = '<span class="volcano-message">{{ props.value }}</span>'
COLOURS = {"Normal": "var(--volcano-good)", "Warning": "var(--volcano-warn)"}
COLUMNS: tuple[Column[EventItem], ...] = (
    Column("age", "Age", lambda item: {"text": item.age, "title": timestamp(item.last)}, lambda item: -item.last, AGE),
    Column(
        "type", "Type", lambda item: {"text": item.type, "colour": COLOURS.get(item.type, "var(--volcano-idle)")},
        lambda item: item.type, PHASE, wide_only=True,
    ),
    Column("reason", "Reason", lambda item: item.reason, lambda item: item.reason),
    Column("about", "About", lambda item: item.about, lambda item: item.about, ABOUT, wide_only=True),
    Column("message", "Message", lambda item: item.message, lambda item: item.message, MESSAGE),
    Column("source", "From", lambda item: item.source, lambda item: item.source, wide_only=True),
)  # fmt: skip


async def build(job: OpenJob) -> None:
    _Events(job)


class _Events:
    """Events, listed with the viewer's permissions when the tab is opened and when the job has changed."""

    def __init__(self, job: OpenJob) -> None:
        self._job = job
        self._versions: tuple[str, ...] = ()
        self._listed = 0.0  # wall time
        self._events: list[Manifest] = []
        self._running = False
        self._problem = ui.label().classes("volcano-muted").props('role="alert"')
        self._problem.set_visibility(False)
        self._table = PagedTable(
            job.context, COLUMNS, key=lambda item: str(item.key), label="Events", order="age", prefix="event-",
            empty="No events. The API server keeps them for about an hour.",
        )  # fmt: skip
        job.on_update("events", self._update)

    def _update(self) -> None:
        now = self._job.context.objects.now
        view = self._job.view
        versions = tuple(str(each["metadata"].get("resourceVersion")) for each in (view.manifest, *view.pods))
        changed = versions != self._versions
        if not self._running and now - self._listed > (PAUSE if changed else PERIOD):
            self._versions, self._listed, self._running = versions, now, True
            background_tasks.create(self._list(), name="list events")

    async def _list(self) -> None:
        try:
            self._events = await self._read()
            self._problem.set_visibility(False)
            self._table.table.set_visibility(True)
        except ApiError as error:
            self._problem.set_text(error.message)
            self._problem.set_visibility(True)
            self._table.table.set_visibility(bool(self._events))
        finally:
            self._running = False
        self._table.show(event_items(self._events, self._names(), self._job.context.objects.now))

    def _names(self) -> list[str]:
        view = self._job.view
        group = [key_of(view.group).name] if view.group is not None else []
        return [self._job.key.name, *group, *(key_of(pod).name for pod in view.pods)]

    async def _read(self) -> list[Manifest]:
        client, namespace = self._job.context.viewer.connection.client, self._job.key.namespace
        names = list(dict.fromkeys(self._names()))
        if len(names) > FEW_OBJECTS:
            return (await client.list(EVENT, Query(namespace))).items
        queries = [Query(namespace, fields=f"involvedObject.name={name}") for name in names]
        found = await asyncio.gather(*(client.list(EVENT, query) for query in queries))
        return [event for listing in found for event in listing.items]
