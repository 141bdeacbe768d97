"""Plots as SVG text: line charts and a Gantt chart, without any library."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 760, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 12, 40
# Distinct also for readers who do not see red and green apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d3b", "#555555")
MOST_POINTS = 600


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart; dashed lines are for comparison."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: str
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis: title, and how its values are shown."""

    title: str
    shown: Callable[[float], str] = "{:g}".format
    logarithmic: bool = False
    largest: float | None = None  # None: that of the data
    unit: float = 1.0  # ticks are at round multiples of it


def line_chart(title: str, lines: Sequence[Line], x: Axis, y: Axis) -> str:
    """A chart with a legend below it."""
    xs = [point[0] for line in lines for point in line.points] or [0.0]
    ys = [point[1] for line in lines for point in line.points] or [0.0]
    across = _Scale(x, min(xs) if x.logarithmic else 0.0, max(xs), LEFT, WIDTH - RIGHT)
    up = _Scale(y, 0.0, y.largest if y.largest is not None else max(ys), HEIGHT - BOTTOM, TOP)
    parts = [_grid(across, up, x, y)]
    for line in lines:
        points = _thinned(line.points)
        path = " ".join(f"{across.at(px):.1f},{up.at(py):.1f}" for px, py in points)
        dash = ' stroke-dasharray="5 4"' if line.dashed else ""
        parts.append(
            f'<polyline fill="none" stroke="{line.colour}" stroke-width="1.6"{dash} points="{path}">'
            f"<title>{escape(line.name)}</title></polyline>"
        )
    return _figure(title, "".join(parts), HEIGHT, _legend(lines))


def gantt_chart(
    title: str, rows: Sequence[str], bars: Sequence[tuple[int, float, float, str, str]], x: Axis
) -> str:
    """Bars (row, start, end, colour, name) on named rows."""
    row_height = 12
    height = TOP + BOTTOM + row_height * max(len(rows), 1)
    across = _Scale(x, 0.0, max((bar[2] for bar in bars), default=1.0), LEFT + 70, WIDTH - RIGHT)
    parts = []
    for number, name in enumerate(rows):
        top = TOP + number * row_height
        parts.append(
            f'<text x="{LEFT + 64}" y="{top + 9}" text-anchor="end" font-size="9">{escape(name[-18:])}</text>'
            f'<line x1="{LEFT + 70}" x2="{WIDTH - RIGHT}" y1="{top + row_height - 1}" '
            f'y2="{top + row_height - 1}" stroke="#eee"/>'
        )
    for row, start, end, colour, name in bars:
        left, right = across.at(start), across.at(end)
        parts.append(
            f'<rect x="{left:.1f}" y="{TOP + row * row_height + 1}" width="{max(right - left, 0.6):.1f}" '
            f'height="{row_height - 3}" fill="{colour}" fill-opacity="0.55"><title>{escape(name)}</title></rect>'
        )
    for tick in across.ticks():
        parts.append(
            f'<text x="{across.at(tick):.1f}" y="{height - BOTTOM + 16}" text-anchor="middle" '
            f'font-size="10">{escape(x.shown(tick))}</text>'
        )
    parts.append(_axis_title(x.title, (WIDTH + LEFT + 70) / 2, height - 6))
    return _figure(title, "".join(parts), height, "")


class _Scale:
    """Values to positions."""

    def __init__(self, axis: Axis, low: float, high: float, first: float, last: float) -> None:
        self._log = axis.logarithmic
        self._low = max(low, 1.0) if axis.logarithmic else low
        self._high = max(high, self._low * 10 if axis.logarithmic else self._low + 1e-9)
        self._first, self._last = first, last
        self._unit = axis.unit

    def at(self, value: float) -> float:
        if self._log:
            share = math.log(max(value, self._low) / self._low) / math.log(self._high / self._low)
        else:
            share = (value - self._low) / (self._high - self._low)
        return self._first + min(max(share, 0.0), 1.0) * (self._last - self._first)

    def ticks(self) -> list[float]:
        if self._log:
            first = math.floor(math.log10(self._low))
            return [10.0**power for power in range(first, math.ceil(math.log10(self._high)) + 1)]
        low, high = self._low / self._unit, self._high / self._unit
        raw = (high - low) / 6
        size = 10 ** math.floor(math.log10(raw)) if raw > 0 else 1.0
        step = next((size * factor for factor in (1, 2, 5, 10) if size * factor >= raw), size)
        first = math.ceil(low / step)
        return [index * step * self._unit for index in range(first, math.floor(high / step + 1e-9) + 1)]


def _grid(across: _Scale, up: _Scale, x: Axis, y: Axis) -> str:
    parts = []
    for tick in up.ticks():
        at = up.at(tick)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#e5e5e5"/>'
            f'<text x="{LEFT - 6}" y="{at + 3:.1f}" text-anchor="end" font-size="10">{escape(y.shown(tick))}</text>'
        )
    for tick in across.ticks():
        at = across.at(tick)
        if LEFT - 1 <= at <= WIDTH - RIGHT + 1:
            parts.append(
                f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#f2f2f2"/>'
                f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 14}" text-anchor="middle" font-size="10">'
                f"{escape(x.shown(tick))}</text>"
            )
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(_axis_title(x.title, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8))
    parts.append(
        f'<text x="14" y="{middle}" font-size="11" text-anchor="middle" transform="rotate(-90 14 {middle})">'
        f"{escape(y.title)}</text>"
    )
    return "".join(parts)


def _axis_title(title: str, x: float, y: float) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="11" text-anchor="middle">{escape(title)}</text>'


def _legend(lines: Sequence[Line]) -> str:
    entries = (
        f'<span><i style="background:{line.colour};opacity:{0.5 if line.dashed else 1}"></i>{escape(line.name)}'
        f"{' (dashed)' if line.dashed else ''}</span>"
        for line in lines
    )
    return f'<div class="legend">{"".join(entries)}</div>'


def _figure(title: str, content: str, height: int, legend: str) -> str:
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">{content}</svg>{legend}</figure>'
    )


def _thinned(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    step = -(-len(points) // MOST_POINTS)
    return points if step <= 1 else [*points[::step], points[-1]]
