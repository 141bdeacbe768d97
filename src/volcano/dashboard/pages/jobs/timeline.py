"""The tab of the timeline: when each pod waited, started, ran and ended, also pods that were deleted."""

from nicegui import background_tasks, events, ui
from nicegui.element import Element

from volcano.accounting.api import RUNS, Run, parse_run
from volcano.base.clock import timestamp
from volcano.dashboard.data.past_runs import owner_uid, with_past_runs
from volcano.dashboard.data.timeline import LEGEND, Line, line_prop, ticks, time_range, timeline
from volcano.dashboard.pages.jobs.open_job import OpenJob
from volcano.dashboard.pages.widgets import STATIC, card, nothing
from volcano.kube.api.errors import ApiError
from volcano.kube.api.manifest import uid_of
from volcano.services.accounting import ask_all
from volcano.services.errors import ServiceError

STEPS = 200  # bars that last are drawn longer when they grew by this part of the axis
MOST_RUNS = 5000  # the newest
PAUSE = 3.0  # seconds between two requests for recorded runs
RECORDED_WITHIN = 30.0  # seconds after a pod was deleted, in which its run is asked for


class Timeline(Element, component=STATIC / "timeline.js"):
    """Bars of pods on one axis of time."""

    def __init__(self) -> None:
        super().__init__()
        self.props["lines"] = []
        self.props["ticks"] = []


async def build(job: OpenJob) -> None:
    _Chart(job, _RecordedRuns(job))


class _RecordedRuns:
    """Runs of the job that accounting recorded, read with the viewer's credentials at first and when pods disappear."""

    def __init__(self, job: OpenJob) -> None:
        self._job = job
        self._known: frozenset[str] = frozenset()  # UIDs of pods
        self._asked = 0.0  # wall time
        self._ask_until = float("inf")  # wall time; the first answer ends it
        self._running = False
        self.runs: tuple[Run, ...] = ()
        self.problem = ""  # why they are not known

    def update(self) -> None:
        """Begins to read them where that is due; `runs` is another tuple when it is done."""
        now = self._job.context.objects.now
        present = frozenset(map(uid_of, self._job.view.pods))
        if self._known - present:
            self._ask_until = now + RECORDED_WITHIN
        self._known = present
        if not self._running and now <= self._ask_until and now - self._asked >= PAUSE:
            self._running, self._asked = True, now
            background_tasks.create(self._read(), name="read recorded runs")

    async def _read(self) -> None:
        uid, connection = owner_uid(self._job.view), self._job.context.viewer.connection
        try:
            items = (
                await ask_all(connection.client, RUNS, self._job.key.namespace, MOST_RUNS, jobUID=uid)
                if uid
                else []
            )
            self.runs, self.problem = tuple(map(parse_run, items)), ""
        except (ApiError, ServiceError, KeyError, ValueError) as error:
            self.problem = error.message if isinstance(error, ApiError) else str(error)
        finally:
            self._running = False
        if self._ask_until == float("inf"):
            self._ask_until = self._asked
        if self._job.tab == "timeline":
            await self._job.update_tab()


class _Chart:
    """The chart, drawn again when a pod has changed or bars that last have grown visibly."""

    def __init__(self, job: OpenJob, recorded: _RecordedRuns) -> None:
        self._job = job
        self._recorded = recorded
        self._drawn: tuple[object, object, str] = ((), (), "")  # pods, runs and the problem with them
        self._lines: tuple[Line, ...] = ()
        self._end = 0.0  # of the axis, in steps
        with card("Timeline"):
            with ui.row().classes("gap-4 q-mb-sm"):
                for stage, text in LEGEND.items():
                    with ui.row(wrap=False).classes("items-center gap-2"):
                        ui.element("span").classes(
                            f"volcano-stage volcano-legend volcano-stage-{stage.lower()}"
                        )
                        ui.label(text).classes("text-sm")
            self._empty = ui.element("div")
            with self._empty:
                nothing("No pod of this job is known.")
            self._timeline = Timeline().classes("w-full")
            self._timeline.on("choose", self._choose)
        self._note = ui.label().classes("volcano-muted").props("role=status")
        job.on_update("timeline", self._update)

    async def _choose(self, event: events.GenericEventArguments) -> None:
        await self._job.choose_pod(str(event.args))
        self._job.open_tab("pods")

    def _update(self) -> None:
        self._recorded.update()
        pods, now = self._job.view.pods, self._job.context.objects.now
        drawn = (pods, self._recorded.runs, self._recorded.problem)
        same = all(new is old for new, old in zip(drawn, self._drawn, strict=True))
        if not same:
            self._drawn = drawn
            self._lines = with_past_runs(timeline(pods), self._recorded.runs, set(map(uid_of, pods)))
        first, last = time_range(self._lines, now)
        end = last // max((last - first) / STEPS, 1.0)
        if same and end == self._end:
            return
        self._end = end
        last = max(last, first + 1)
        name = self._job.key.name
        self._timeline.props["lines"] = [line_prop(line, name, first, last, now) for line in self._lines]
        self._timeline.props["ticks"] = ticks(first, last)
        self._timeline.set_visibility(bool(self._lines))
        self._empty.set_visibility(not self._lines)
        self._note.set_text(self._sentences(first, last))

    def _sentences(self, first: float, last: float) -> str:
        """The time on the axis, and what is missing."""
        parts = [f"From {timestamp(first)} to {timestamp(last)}."] if self._lines else []
        if self._recorded.problem:
            parts.append(f"Pods that were deleted are not shown: {self._recorded.problem}")
        elif len(self._recorded.runs) >= MOST_RUNS:
            parts.append(f"Of pods that were deleted, only those of the last {MOST_RUNS:,} runs are shown.")
        return " ".join(parts)
