"""The tab of the timeline: when each pod waited, started, ran and ended."""

from nicegui import events, ui
from nicegui.element import Element

from volcano.clock import timestamp
from volcano.dashboard.data.timeline import LEGEND, Line, line_prop, ticks, time_range, timeline
from volcano.dashboard.pages.jobs.open_job import OpenJob
from volcano.dashboard.pages.widgets import STATIC, card, nothing

STEPS = 200  # bars that last are drawn longer when they grew by this part of the axis


class Timeline(Element, component=STATIC / "timeline.js"):
    """Bars of pods on one axis of time."""

    def __init__(self) -> None:
        super().__init__()
        self.props["lines"] = []
        self.props["ticks"] = []


async def build(job: OpenJob) -> None:
    _Chart(job)


class _Chart:
    """The chart, drawn again when a pod has changed or bars that last have grown visibly."""

    def __init__(self, job: OpenJob) -> None:
        self._job = job
        self._pods: object = None  # of which the lines are
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
                nothing("This job has no pods yet.")
            self._timeline = Timeline().classes("w-full")
            self._timeline.on("choose", self._choose)
        self._note = ui.label().classes("volcano-muted")
        job.on_update("timeline", self._update)

    async def _choose(self, event: events.GenericEventArguments) -> None:
        await self._job.choose_pod(str(event.args))
        self._job.open_tab("pods")

    def _update(self) -> None:
        pods, now = self._job.view.pods, self._job.context.objects.now
        same = self._pods is pods
        if not same:
            self._pods, self._lines = pods, timeline(pods)
        first, last = time_range(self._lines, now)
        end = last // max((last - first) / STEPS, 1.0)
        if same and end == self._end:
            return
        self._end = end
        last = max(last, first + 1)
        name = self._job.key.name
        self._timeline.props["lines"] = [line_prop(line, name, first, last, now) for line in self._lines]
        self._timeline.props["ticks"] = ticks(first, last)
        self._timeline.set_visibility(bool(pods))
        self._empty.set_visibility(not pods)
        self._note.set_visibility(bool(pods))
        self._note.set_text(
            f"From {timestamp(first)} to {timestamp(last)}. Pods that were deleted are not shown."
        )
