"""The lives of pods: when each waited, started, ran and ended, and where that is on an axis of time."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from volcano.base.clock import timestamp
from volcano.kube.api.fields import at, items, wall_time
from volcano.kube.api.manifest import Manifest, condition_of, key_of
from volcano.kube.resources.pod_status import pod_status
from volcano.views.times import span

WAITING, STARTING, RUNNING, SUCCEEDED, FAILED = "Waiting", "Starting", "Running", "Succeeded", "Failed"
EVICTED = "Evicted"
ENDED = (SUCCEEDED, FAILED)
TICKS = 5
LEGEND = {
    WAITING: "Waiting for a node",
    STARTING: "Starting",
    RUNNING: "Running",
    SUCCEEDED: "Succeeded",
    FAILED: "Failed",
    EVICTED: "Evicted or deleted",
}


@dataclass(frozen=True, slots=True)
class Bar:
    """One part of a pod's life; `end` is None while it lasts."""

    stage: str
    begin: float
    end: float | None
    node: str = ""  # of a recorded run
    outcome: str = ""  # of a recorded run, in words


@dataclass(frozen=True, slots=True)
class Line:
    """The life of one pod, and of earlier ones with its name."""

    pod: str
    node: str
    bars: tuple[Bar, ...]
    status: str
    past: tuple[Bar, ...] = ()  # of earlier pods with this name
    outcomes: tuple[str, ...] = ()  # of these, in words

    @property
    def is_gone(self) -> bool:
        """Whether there is no pod with this name now."""
        return not self.bars


def timeline(pods: Iterable[Manifest]) -> tuple[Line, ...]:
    """When each pod waited, started, ran and ended."""
    return tuple(
        Line(
            key_of(pod).name,
            str(at(pod, "spec", "nodeName", default="")),
            _bars(pod),
            pod_status(pod) or WAITING,
        )
        for pod in pods
    )


def _bars(pod: Manifest) -> tuple[Bar, ...]:
    created = wall_time(at(pod, "metadata", "creationTimestamp")) or 0.0
    states = [each for each in _states(pod) if each]
    scheduled = _scheduled(pod)
    started = min((moment for state in states if (moment := _moment(state, "startedAt"))), default=None)
    phase = at(pod, "status", "phase", default="")
    ended = _ended(pod, states) if phase in ENDED else None
    marks = [(WAITING, created), (STARTING, scheduled), (RUNNING, started), (phase, ended)]
    known = [(stage, moment) for stage, moment in marks if moment is not None]
    bars: list[Bar] = []
    for place, (stage, begin) in enumerate(known):
        # Times have whole seconds and are set by several programs: a part never begins before the one before it.
        first = max(begin, bars[-1].begin) if bars else begin
        if stage in ENDED:
            bars.append(Bar(stage, first, first))
            continue
        later = known[place + 1][1] if place + 1 < len(known) else None
        bars.append(Bar(stage, first, max(later, first) if later is not None else None))
    return tuple(bars)


def _scheduled(pod: Manifest) -> float | None:
    """When the pod got its node."""
    if not at(pod, "spec", "nodeName"):
        return None
    condition = condition_of(pod, "PodScheduled") or {}
    moment = wall_time(condition.get("lastTransitionTime")) if condition.get("status") == "True" else None
    return moment if moment is not None else wall_time(at(pod, "status", "startTime"))


def _states(pod: Manifest) -> Iterable[object]:
    """States of all containers, also those before a restart."""
    for status in items(pod, "status", "containerStatuses"):
        for part in ("lastState", "state"):
            yield at(status, part, "running")
            yield at(status, part, "terminated")


def _moment(state: object, field: str) -> float | None:
    return wall_time(at(state, field))


def _ended(pod: Manifest, states: Iterable[object]) -> float | None:
    """When the last container ended; for a pod that never ran, when its state last changed."""
    finished = [moment for state in states if (moment := _moment(state, "finishedAt"))]
    changed = [
        moment
        for condition in items(pod, "status", "conditions")
        if (moment := wall_time(condition.get("lastTransitionTime")))
    ]
    return max(finished or changed, default=None)


def time_range(lines: Iterable[Line], now: float) -> tuple[float, float]:
    """First and last moment of the lines; parts that last go on until now."""
    bars = [bar for line in lines for bar in (*line.past, *line.bars)]
    moments = [bar.begin for bar in bars]
    ends = [now if bar.end is None else bar.end for bar in bars]
    return min(moments, default=now), max(ends, default=now)


def line_prop(line: Line, job: str, first: float, last: float, now: float) -> dict[str, Any]:
    """A pod as the chart in the browser gets it; places are percentages of the axis."""
    length = last - first
    parts = [f"{LEGEND.get(bar.stage, bar.stage)}{_lasted(bar, now)}" for bar in line.bars]
    node = f" on {line.node}" if line.node else ""
    life = f": {', '.join(parts)}" if parts else ""
    past = f"; earlier: {'; '.join(line.outcomes)}" if line.outcomes else ""
    return {
        "pod": line.pod,
        "name": line.pod.removeprefix(f"{job}-"),
        "title": f"{line.pod}{node}, {line.status}{life}{past}",
        "gone": line.is_gone,
        "bars": [
            {
                "stage": bar.stage.lower(),
                "left": round(100 * (bar.begin - first) / length, 2),
                "width": round(100 * ((now if bar.end is None else bar.end) - bar.begin) / length, 2),
                "title": _bar_title(bar, now),
            }
            for bar in (*line.past, *line.bars)
        ],
    }


def _bar_title(bar: Bar, now: float) -> str:
    if bar.outcome:
        return f"{bar.outcome}, at {timestamp(bar.begin)}"
    node = f" on {bar.node}" if bar.node else ""
    return f"{LEGEND.get(bar.stage, bar.stage)}{_lasted(bar, now)}{node}, from {timestamp(bar.begin)}"


def _lasted(bar: Bar, now: float) -> str:
    if bar.stage in (*ENDED, EVICTED):
        return ""
    if bar.end is None:
        return f" for {span(max(now - bar.begin, 0))} until now"
    return f" for {span(max(bar.end - bar.begin, 0))}"


def ticks(first: float, last: float) -> Sequence[dict[str, Any]]:
    """Marks of the axis: the time since the first pod was created."""
    return [
        {
            "at": 100 * place / TICKS,
            "text": f"+{span((last - first) * place / TICKS)}" if place else timestamp(first)[11:19],
        }
        for place in range(TICKS + 1)
    ]
