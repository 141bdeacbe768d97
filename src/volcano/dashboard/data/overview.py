"""Figures of the overview: the present state in numbers, and lines of charts of the last hour."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from volcano.dashboard.objects import Objects
from volcano.dashboard.samples import ACTIVE, Sample
from volcano.kube.api.fields import at, is_true
from volcano.kube.api.kinds import JOB, NODE, POD
from volcano.views.amounts import Amounts, resource_names, short_name, shown
from volcano.views.jobs import WAITING
from volcano.views.times import span

MINUTE = 60.0
Points = tuple[tuple[int, float], ...]  # milliseconds since the epoch, value


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of the overview; `part` (0 to 1) where it is a part of something."""

    name: str
    value: str
    text: str = ""
    part: float | None = None
    address: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One line or one kind of bar of a chart."""

    name: str
    points: Points


def figures(objects: Objects) -> tuple[Figure, ...]:
    """Jobs, nodes and resources now, of what the viewer may see."""
    board, found = objects.board, []
    if objects.scopes.of(JOB):
        phases = [job.phase for job in board.jobs]
        running = sum(phase in ACTIVE for phase in phases)
        waiting = sum(phase in WAITING and phase not in ACTIVE for phase in phases)
        found.append(Figure("Jobs", f"{running} running", f"{waiting} waiting", address="/jobs"))
    if objects.scopes.everywhere(NODE):
        nodes = objects.of(NODE)
        ready = sum(is_true(node, "Ready") for node in nodes)
        cordoned = sum(bool(at(node, "spec", "unschedulable")) for node in nodes)
        text = f"{cordoned} cordoned" if cordoned else ""
        part = ready / len(nodes) if nodes else None
        found.append(Figure("Nodes", f"{ready} of {len(nodes)} ready", text, part, "/nodes"))
        if objects.scopes.everywhere(POD):
            found += [
                _resource(name, board.used.get(name, 0.0), board.total[name])
                for name in shown_resources(board.total)
            ]
    return tuple(found)


def shown_resources(total: Amounts) -> list[str]:
    """Resources that the cluster has: cores, memory, then devices."""
    return [name for name in resource_names(total) if total.get(name)]


def _resource(name: str, used: float, most: float) -> Figure:
    part = used / most
    return Figure(
        title_of(name), f"{shown(name, used)} of {shown(name, most)}", f"{part:.0%} requested", part
    )


def title_of(resource: str) -> str:
    """`nvidia.com/gpu` is `GPU`, `memory` is `Memory`."""
    name = short_name(resource)
    return name.upper() if name in ("cpu", "gpu", "npu") else name[:1].upper() + name[1:]


# charts


def utilisation(samples: Sequence[Sample]) -> list[Line]:
    """Requested part of each resource in percent."""
    names = shown_resources(samples[-1].total) if samples else []
    return [Line(title_of(name), _points(samples, partial(_percent, name))) for name in names]


def jobs(samples: Sequence[Sample]) -> list[Line]:
    """Running and waiting jobs."""
    return [
        Line("Running", _points(samples, lambda sample: float(sample.running))),
        Line("Waiting", _points(samples, lambda sample: float(sample.pending))),
    ]


def throughput(samples: Sequence[Sample]) -> list[Line]:
    """Jobs that completed and failed, per minute."""
    return [
        Line("Completed", _by_minute(samples, lambda each: float(sum(sample.completed for sample in each)))),
        Line("Failed", _by_minute(samples, lambda each: float(sum(sample.failed for sample in each)))),
    ]


def cycle_times(samples: Sequence[Sample]) -> list[Line]:
    """Mean and longest time of the cycles that decided something, in milliseconds, per minute that has any."""
    return [
        Line("Mean", _by_minute(samples, _mean_cycle)),
        Line("Longest", _by_minute(samples, _longest_cycle)),
    ]


def ended_sentence(samples: Sequence[Sample]) -> str:
    """What ended in the time of the samples."""
    completed, failed = sum(sample.completed for sample in samples), sum(sample.failed for sample in samples)
    hours = max(samples[-1].at - samples[0].at, MINUTE) / 3600 if samples else 1.0
    return f"{completed} completed and {failed} failed in the last {span(hours * 3600)}."


def cycle_sentence(samples: Sequence[Sample]) -> str:
    """Mean of all cycles of the samples; says why there is none."""
    known = [sample.cycles for sample in samples if sample.cycles is not None]
    count = sum(times.count for times in known)
    if not known:
        return "The record of cycles cannot be read."
    if not count:
        return "No cycle decided anything in this time."
    mean = sum(times.seconds for times in known) / count
    longest = max(times.longest for times in known)
    return f"Mean {mean * 1000:.0f} ms, longest {longest * 1000:.0f} ms, of {count} cycles that decided something."


def now_sentence(lines: Iterable[Line], unit: str) -> str:
    """The newest value of each line, for those who cannot see the chart."""
    parts = [f"{line.name} {line.points[-1][1]:g}{unit}" for line in lines if line.points]
    return ", ".join(parts)


def _percent(name: str, sample: Sample) -> float | None:
    most = sample.total.get(name, 0.0)
    return round(100 * sample.used.get(name, 0.0) / most, 1) if most else None


def _points(samples: Iterable[Sample], value: Callable[[Sample], float | None]) -> Points:
    return tuple((int(sample.at * 1000), found) for sample in samples if (found := value(sample)) is not None)


def _by_minute(samples: Sequence[Sample], value: Callable[[Sequence[Sample]], float | None]) -> Points:
    """A value for each minute of the clock, at its middle."""
    minutes: dict[int, list[Sample]] = {}
    for sample in samples:
        minutes.setdefault(int(sample.at // MINUTE), []).append(sample)
    found = ((minute, value(each)) for minute, each in minutes.items())
    return tuple(
        (int((minute + 0.5) * MINUTE * 1000), amount) for minute, amount in found if amount is not None
    )


def _mean_cycle(samples: Sequence[Sample]) -> float | None:
    known = [sample.cycles for sample in samples if sample.cycles is not None and sample.cycles.count]
    count = sum(times.count for times in known)
    return round(1000 * sum(times.seconds for times in known) / count, 1) if count else None


def _longest_cycle(samples: Sequence[Sample]) -> float | None:
    longest = [
        sample.cycles.longest for sample in samples if sample.cycles is not None and sample.cycles.count
    ]
    return round(1000 * max(longest), 1) if longest else None
