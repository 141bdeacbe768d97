"""Reports of `volcano simulate --report` in one directory. Nothing outside that directory is read."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from volcano.simulate.results.series import Points, Series
from volcano.simulate.results.summary import Summary, table_rows

SUMMARY, SERIES = "summary.json", "series.json"
DEEPEST = 3  # directories below the directory of reports
MOST_DIRECTORIES = 2000  # that are looked at: the directory may be a home directory
MOST_REPORTS = 200
MOST_ENTRIES = 10_000  # of one directory
LONGEST_NAME = 500
LARGEST = 32 * 1024 * 1024


class ReportError(Exception):
    """A report that cannot be shown, with the reason."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A report in the list: its directory, relative to that of all reports, and when it was written."""

    name: str
    written: float


@dataclass(frozen=True, slots=True)
class Report:
    """A report: its title, and the results of each configuration."""

    name: str
    title: str
    notes: tuple[str, ...]
    summaries: tuple[Summary, ...]
    series: tuple[Series, ...]  # none in a report without them


@dataclass(frozen=True, slots=True)
class Column:
    """One configuration of one report in a comparison."""

    label: str
    summary: Summary
    series: Series | None


def find_reports(directory: Path) -> list[Listed]:
    """Reports in a directory and below it, the newest first."""
    found = []
    for place in _directories(directory):
        try:
            written = (place / SUMMARY).lstat()
        except OSError:
            continue
        name = place.relative_to(directory).as_posix()
        found.append(Listed(name, written.st_mtime))
    return sorted(found, key=lambda each: (-each.written, each.name))[:MOST_REPORTS]


def _directories(directory: Path) -> Iterator[Path]:
    """The directory and those below it, without links and hidden ones."""
    level, seen = [directory], 0
    for _ in range(DEEPEST + 1):
        below: list[Path] = []
        for place in level:
            seen += 1
            if seen > MOST_DIRECTORIES:
                return
            yield place
            below += _inside(place)
        level = below


def _inside(place: Path) -> list[Path]:
    try:
        with os.scandir(place) as entries:
            names = [
                each.name
                for each in islice(entries, MOST_ENTRIES)
                if each.is_dir(follow_symlinks=False) and not each.name.startswith(".")
            ]
    except OSError:
        return []
    return [place / name for name in sorted(names)]


def read_report(directory: Path, name: str) -> Report:
    """The report of this name. Raises ReportError, also for a name that leads out of the directory."""
    place = directory / name
    try:
        inside = len(name) <= LONGEST_NAME and place.resolve().is_relative_to(directory.resolve())
    except (OSError, ValueError):
        inside = False
    if not inside:
        raise ReportError(f"{name[:60]!r}: there is no such report in the directory of reports")
    summaries = _summaries(name, _json(directory, place / SUMMARY, name))
    if not (place / SERIES).exists():
        return Report(name, name, (), summaries, ())
    title, notes, series = _series(name, _json(directory, place / SERIES, name))
    return Report(name, title, notes, summaries, series)


def _json(directory: Path, path: Path, name: str) -> Any:
    try:
        resolved = path.resolve(strict=True)
        if not resolved.is_relative_to(directory.resolve()) or not resolved.is_file():
            raise ReportError(f"{name}: {path.name} is not a file in the directory of reports")
        with resolved.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise ReportError(f"{name}: {path.name}: {error.strerror}") from None
    if len(data) > LARGEST:
        raise ReportError(f"{name}: {path.name} is larger than {LARGEST // 1024 // 1024} MiB")
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{name}: {path.name} is not JSON: {error}") from None


def _summaries(name: str, document: Any) -> tuple[Summary, ...]:
    if not isinstance(document, list) or not document:
        raise ReportError(f"{name}: {SUMMARY} is not that of `volcano simulate --report`")
    try:
        return tuple(Summary.from_json(each) for each in document)
    except ValueError as error:
        raise ReportError(f"{name}: {SUMMARY}: {error}") from None


def _series(name: str, document: Any) -> tuple[str, tuple[str, ...], tuple[Series, ...]]:
    try:
        return (
            str(document["title"]),
            tuple(str(note) for note in document["notes"]),
            tuple(Series.from_json(each) for each in document["configurations"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ReportError(f"{name}: {SERIES}: {error}") from None


# -- comparisons -------------------------------------------------------------------------------------


def columns_of(reports: Sequence[Report]) -> list[Column]:
    """The configurations of all reports; with the name of the report where there are several."""
    return [
        Column(
            summary.name if len(reports) == 1 else f"{report.name}: {summary.name}",
            summary,
            next((each for each in report.series if each.name == summary.name), None),
        )
        for report in reports
        for summary in report.summaries
    ]


def figures(columns: Sequence[Column]) -> list[tuple[str, list[str]]]:
    """Rows of the table, as `volcano simulate` prints them: a figure, and its value in each column."""
    return table_rows([column.summary for column in columns])


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a chart."""

    name: str
    points: Points
    dashed: bool = False
    colour: int = -1  # position of the colour; that of the line if negative


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of lines. Shares are between 0 and 1; times are in the unit of the axis."""

    title: str
    across: str
    up: str
    lines: tuple[Line, ...]
    share: bool = False
    logarithmic: bool = False


UNITS = ((180.0, 1.0, "seconds"), (10800.0, 60.0, "minutes"), (259200.0, 3600.0, "hours"))


def charts(columns: Sequence[Column]) -> list[Chart]:
    """Charts of the columns that have figures over time."""
    known = [(column.label, column.series) for column in columns if column.series is not None]
    if not known:
        return []
    unit, name = _unit(max((series.times[-1] for _, series in known if series.times), default=0.0))
    resource = "gpu" if any("gpu" in series.allocated for _, series in known) else "cpu"
    title = "GPUs" if resource == "gpu" else "CPU"
    time = f"Time ({name})"
    allocated = []
    for position, (label, series) in enumerate(known):
        level = series.allocated.get(resource, ())
        allocated.append(Line(label, _over_time(series, level, unit), colour=position))
        if series.used.get(resource, level) != level:
            used = _over_time(series, series.used[resource], unit)
            allocated.append(Line(f"{label}, used", used, dashed=True, colour=position))
    found = [
        Chart(f"{title} allocated", time, "Share of the cluster", tuple(allocated), share=True),
        Chart("Waiting pods", time, "Pods", _lines(known, lambda each: _over_time(each, each.waiting, unit))),
        Chart(
            "Waiting time of jobs",
            "Waited at most (seconds)",
            "Share of jobs",
            _lines(known, _waited),
            share=True,
            logarithmic=True,
        ),
        Chart(
            "Fragmentation: free resources that pods seen so far cannot use",
            time,
            "Share of what is free",
            _lines(known, lambda each: tuple((at / unit, value) for at, value in each.fragmentation)),
            share=True,
        ),
    ]
    for label, series in known:
        found.append(_queues(label, series, unit, time))
    return [chart for chart in found if any(line.points for line in chart.lines)]


def _queues(label: str, series: Series, unit: float, time: str) -> Chart:
    lines = []
    for position, (name, share) in enumerate(series.queue_share.items()):
        lines.append(Line(name, _over_time(series, share, unit), colour=position))
        if len(series.queue_share) > 1:
            deserved = _over_time(series, series.queue_deserved.get(name, ()), unit)
            lines.append(Line(f"{name}, deserved", deserved, dashed=True, colour=position))
    return Chart(f"Queues, {label}", time, "Dominant share", tuple(lines), share=True)


def _lines(known: Sequence[tuple[str, Series]], points: Callable[[Series], Points]) -> tuple[Line, ...]:
    return tuple(
        Line(label, points(series), colour=position) for position, (label, series) in enumerate(known)
    )


def _waited(series: Series) -> Points:
    """Times from 0.1 s: a logarithmic axis has no zero."""
    count = len(series.waits)
    return tuple((max(wait, 0.1), (position + 1) / count) for position, wait in enumerate(series.waits))


def _over_time(series: Series, values: Sequence[float], unit: float) -> Points:
    return tuple((at / unit, value) for at, value in zip(series.times, values, strict=False))


def _unit(longest: float) -> tuple[float, str]:
    for limit, unit, name in UNITS:
        if longest < limit:
            return unit, name
    return 86400.0, "days"
