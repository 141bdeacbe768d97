"""The tab of logs: of one pod or all, of one container or all, as they are written."""

from collections import deque
from collections.abc import Sequence
from typing import Any

from nicegui import background_tasks, ui
from nicegui.element import Element

from volcano.dashboard.pages.jobs.open_job import OpenJob
from volcano.dashboard.pages.widgets import STATIC
from volcano.kube.api.fields import items
from volcano.kube.api.manifest import Key, Manifest, key_of
from volcano.services.logs.lines import Line
from volcano.services.logs.sources import Source, Wanted, sources
from volcano.services.logs.streams import LogStreams
from volcano.views.columns import printable

ALL_PODS, DEFAULT, ALL_CONTAINERS = "All pods", "Default container", "All containers"
MOST_PODS = 50  # whose logs are shown at once
MOST_LINES = 5000  # in the browser
PERIOD = 0.25  # seconds between two batches of lines
LINES = {100: "Last 100 lines", 1000: "Last 1,000 lines", 5000: "Last 5,000 lines"}
GOLDEN_ANGLE = 137  # of hues: neighbours differ


class LogView(Element, component=STATIC / "log_view.js"):
    """Lines of text, the latest at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.props["most"] = MOST_LINES
        self.props["label"] = "Log"

    def add(self, lines: Sequence[tuple[str, int, str]]) -> None:
        self.run_method("add", lines)

    def clear_lines(self) -> None:
        self.run_method("clear")

    def save(self, name: str) -> None:
        self.run_method("save", name)


async def build(job: OpenJob) -> None:
    _Logs(job)


class _Logs:
    """The choice of logs and the streams that belong to it."""

    def __init__(self, job: OpenJob) -> None:
        self._job = job
        self._lines: deque[tuple[str, int, str]] = deque(maxlen=MOST_LINES)  # not sent yet
        self._streams: LogStreams | None = None
        self._followed: LogStreams | None = None  # the same, once what was written before has been read
        self._hues: dict[tuple[Key, str], int] = {}  # by pod and container
        with ui.row().classes("w-full items-center gap-3"):
            self._pods = ui.select(
                [ALL_PODS], value=ALL_PODS, label="Pod", with_input=True, on_change=self._on_pod
            )
            self._containers = ui.select(
                [DEFAULT, ALL_CONTAINERS], value=DEFAULT, label="Container", on_change=self._restart
            )
            self._tail = ui.select(LINES, value=1000, label="Lines", on_change=self._restart)
            for select, width in ((self._pods, "w-64"), (self._containers, "w-44"), (self._tail, "w-40")):
                select.props("dense outlined options-dense").classes(width)
            self._follow = ui.switch("Follow", value=True, on_change=self._restart)
            self._timestamps = ui.switch("Times", value=False, on_change=self._restart)
            self._previous = ui.switch("Before the last restart", value=False, on_change=self._restart)
            ui.space()
            ui.button("Clear", icon="clear_all", on_click=self._clear).props("flat dense")
            ui.button("Download", icon="download", on_click=self._save).props("flat dense")
        self._note = ui.label().classes("volcano-muted").props('role="status"')
        self._view = LogView().classes("w-full")
        self._offer()
        ui.timer(PERIOD, self._flush)
        ui.context.client.on_delete(self._stop)
        job.on_update("logs", self._update)
        self._restart()

    # -- the choice

    def _offer(self) -> None:
        """Pods and containers that can be chosen now."""
        names = [ALL_PODS, *(key_of(pod).name for pod in self._job.view.pods)]
        chosen = self._job.pod or ALL_PODS
        if self._pods.options != names or self._pods.value != chosen:
            self._pods.set_options([*names, *([] if chosen in names else [chosen])], value=chosen)
        containers = [DEFAULT, ALL_CONTAINERS, *_containers(self._job.view.pods)]
        if self._containers.options != containers:
            value = self._containers.value if self._containers.value in containers else DEFAULT
            self._containers.set_options(containers, value=value)

    def _on_pod(self) -> None:
        name = str(self._pods.value or ALL_PODS)
        self._job.context.set_query(pod="" if name == ALL_PODS else name)
        self._restart()

    def _wanted(self) -> Wanted:
        container = str(self._containers.value)
        return Wanted(
            container="" if container in (DEFAULT, ALL_CONTAINERS) else container,
            all_containers=container == ALL_CONTAINERS,
            tail=int(self._tail.value or 1000),
            previous=bool(self._previous.value),
        )

    def _sources(self) -> list[Source]:
        wanted, view = self._wanted(), self._job.view
        chosen = [pod for pod in view.pods if self._job.pod in ("", key_of(pod).name)]
        job = view.manifest
        found = []
        for pod in chosen[:MOST_PODS]:
            have = {
                str(each.get("name"))
                for part in ("containers", "initContainers")
                for each in items(pod, "spec", part)
            }
            found += [source for source in sources(pod, job, wanted) if source.container in have]
        return found

    # -- the streams

    def _restart(self) -> None:
        self._stop()
        self._lines.clear()
        self._view.clear_lines()
        chosen = self._sources()
        self._hues = {_owner(source): place * GOLDEN_ANGLE % 360 for place, source in enumerate(chosen)}
        connection = self._job.context.viewer.connection
        streams = LogStreams(
            connection.client, connection.clock, self._wanted(),
            lambda: {key_of(pod): pod for pod in self._job.view.pods},
            self._receive, lambda error: self._say(error.message),
        )  # fmt: skip
        self._streams = streams
        self._say(self._limits(chosen))
        background_tasks.create(self._begin(streams, chosen), name="read logs")

    async def _begin(self, streams: LogStreams, chosen: list[Source]) -> None:
        await streams.read(chosen)
        if streams is self._streams and self._follow.value and not self._previous.value:
            self._followed = streams
            streams.follow(chosen)

    def _update(self) -> None:
        """Follows pods that came after the choice was made."""
        if self._pods.value != (self._job.pod or ALL_PODS):
            self._offer()
            self._restart()
            return
        self._offer()
        if self._followed is None:
            return
        chosen = self._sources()
        for source in chosen:
            self._hues.setdefault(_owner(source), len(self._hues) * GOLDEN_ANGLE % 360)
        self._followed.follow(chosen)

    def _stop(self) -> None:
        if self._streams is not None:
            self._streams.end()
            self._streams = self._followed = None

    def _receive(self, lines: Sequence[tuple[Source, Line]]) -> None:
        several = len(self._hues) > 1
        for source, line in lines:
            stamp = f"{line.stamp} " if self._timestamps.value and line.stamp else ""
            # Only what follows the last carriage return stays on a terminal, as progress bars expect.
            text = printable(line.text.rpartition("\r")[2].replace("\t", "    "))
            self._lines.append(
                (source.title if several else "", self._hues.get(_owner(source), 0), stamp + text)
            )

    def _flush(self) -> None:
        if not self._lines or self._job.tab != "logs":
            return
        lines = list(self._lines)
        self._lines.clear()
        self._view.add(lines)

    # -- what is said about them

    def _limits(self, chosen: list[Source]) -> str:
        pods = len(self._job.view.pods)
        if not self._job.pod and pods > MOST_PODS:
            return f"Logs of the first {MOST_PODS} of {pods} pods are shown; choose a pod to see another."
        return "" if chosen else "There is no pod to read from yet; lines appear when there is one."

    def _say(self, text: str) -> None:
        self._note.set_text(text)
        self._note.set_visibility(bool(text))

    def _clear(self) -> None:
        self._view.clear_lines()

    def _save(self) -> None:
        self._view.save(f"{self._job.pod or self._job.key.name}.log")


def _owner(source: Source) -> tuple[Key, str]:
    """Pod and container: the pod of a restarted job keeps the colour of the one before it."""
    return source.pod, source.container


def _containers(pods: Sequence[Manifest]) -> list[str]:
    """Names of the containers of the pods."""
    names: dict[str, Any] = {}
    for pod in pods:
        for part in ("initContainers", "containers"):
            names |= dict.fromkeys(str(each.get("name", "")) for each in items(pod, "spec", part))
    return list(names)
