"""Charts over time. They are drawn as SVG, so that the style sheet colours their text in both themes."""

from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import ui

from volcano.dashboard.data.simulations import Chart as Curves
from volcano.dashboard.samples import KEPT, STEP

# Distinct in both themes, also for most people who do not distinguish red and green; shapes differ, too.
COLOURS = ("#2f80d0", "#d98a1f", "#8e63c9", "#2c9a78", "#c2527a", "#7b8794", "#a3892b", "#2aa3a8")
NAMED = {"Failed": "#d05050", "Completed": "#2c9a5a", "Waiting": "#d98a1f", "Longest": "#d98a1f"}
SHAPES = ("solid", "dashed", "dotted")
GRID_LINE = "rgba(128,140,155,.28)"
FEW_POINTS = 10  # are marked
MOST_OF_SHARE = 0.6  # from here on the axis of a share goes up to 100 %
HOUR = KEPT * STEP
SHORTEST = 300.0  # seconds that charts show, also just after the start


def last_hour(begun: float, now: float) -> dict[str, float]:
    """Bounds of the time axis of a chart of the last hour, of which something is known since `begun`."""
    return {"first": min(max(begun, now - HOUR), now - SHORTEST), "last": now}


class Chart:
    """A chart whose data changes. The browser gets new options only when they differ."""

    def __init__(
        self, label: str, *, unit: str = "", height: str = "14rem", whole_numbers: bool = False
    ) -> None:
        """`label` names the chart; what it shows now is added to it for those who cannot see it."""
        self._least_step = 1 if whole_numbers else 0
        self._label = label
        self._unit = unit
        self._shown: object = None
        self.element = (
            ui.echart(_empty(), renderer="svg").classes("w-full volcano-chart").style(f"height: {height}")
        )
        self.element.props["role"] = "img"
        self.element.props["aria-label"] = label

    def show_lines(
        self,
        lines: Mapping[str, Sequence[tuple[int, float]]],
        *,
        sentence: str = "",
        first: float = 0.0,
        last: float = 0.0,
        most: float | None = None,
    ) -> None:
        """Lines over time (milliseconds, value); `first` and `last` are the bounds of the time axis in seconds."""
        if self._same((lines, round(last), most)):
            return
        series = [
            _line(
                name,
                points,
                _colour(name, place),
                SHAPES[place % len(SHAPES)],
                marked=len(points) <= FEW_POINTS,
            )
            for place, (name, points) in enumerate(lines.items())
        ]
        self._set(series, _time_axis(first, last), most, sentence)

    def show_curves(self, curves: Curves) -> None:
        """Lines over another quantity than the time of day, such as the time of a simulation."""
        if self._same(curves):
            return
        largest = max((y for line in curves.lines for _, y in line.points), default=0.0)
        axis = {
            "type": "log" if curves.logarithmic else "value", "name": curves.across, "nameLocation": "middle",
            "nameGap": 26, "max": "dataMax", "splitLine": {"show": False},
        }  # fmt: skip
        most = 100.0 if curves.share and largest > MOST_OF_SHARE else None
        self._set(curve_series(curves), axis, most, ", ".join(line.name for line in curves.lines))

    def show_bars(
        self,
        bars: Mapping[str, Sequence[tuple[int, float]]],
        *,
        sentence: str = "",
        first: float = 0.0,
        last: float = 0.0,
    ) -> None:
        """Stacked bars over time."""
        if self._same((bars, round(last))):
            return
        series = [
            {
                "name": name, "type": "bar", "stack": "all", "data": points, "color": _colour(name, place),
                "barMaxWidth": 14, "animation": False,
            }
            for place, (name, points) in enumerate(bars.items())
        ]  # fmt: skip
        self._set(series, _time_axis(first, last), None, sentence)

    def show_groups(
        self, names: Sequence[str], bars: Mapping[str, Sequence[float]], *, sentence: str = ""
    ) -> None:
        """Stacked bars, one for each name, such as a day."""
        if self._same((names, bars)):
            return
        series = [
            {
                "name": name, "type": "bar", "stack": "all", "data": [*values], "color": _colour(name, place),
                "barMaxWidth": 48, "animation": False,
            }
            for place, (name, values) in enumerate(bars.items())
        ]  # fmt: skip
        self._set(series, {"type": "category", "data": [*names]}, None, sentence)

    def _same(self, shown: object) -> bool:
        same = shown == self._shown
        self._shown = shown
        return same

    def _set(
        self, series: list[dict[str, Any]], axis: dict[str, Any], most: float | None, sentence: str
    ) -> None:
        options = _empty()
        options["xAxis"] = {
            **axis,
            "axisLine": {"lineStyle": {"color": GRID_LINE}},
            "axisLabel": {
                "hideOverlap": True,
                "showMaxLabel": False if "max" in axis and "name" in axis else None,
            },
        }
        value = {
            "type": "value",
            "min": 0,
            "minInterval": self._least_step,
            "splitLine": {"lineStyle": {"color": GRID_LINE}},
        }
        value["axisLabel"] = {"formatter": "{value}" + (f" {self._unit}" if self._unit else "")}
        if most is not None:
            value["max"] = most
        options["yAxis"] = value
        options["series"] = series
        options["legend"]["show"] = len(series) > 1
        options["grid"]["top"] = 34 if len(series) > 1 else 12
        options["grid"]["bottom"] = 24 if "name" in axis else 4
        unit = f" + ' {self._unit}'" if self._unit else ""
        options["tooltip"][":valueFormatter"] = (
            f"value => value == null ? '-' : Number((+value).toPrecision(4)){unit}"
        )
        self.element.options.clear()
        self.element.options.update(options)
        self.element.props["aria-label"] = f"{self._label}. {sentence}" if sentence else self._label
        self.element.update()


def curve_series(curves: Curves) -> list[dict[str, Any]]:
    """Series of ECharts; shares become percentages."""
    scale = 100 if curves.share else 1
    return [
        _line(
            line.name,
            [(x, y * scale) for x, y in line.points],
            COLOURS[(place if line.colour < 0 else line.colour) % len(COLOURS)],
            "dashed" if line.dashed else "solid",
        )
        for place, line in enumerate(curves.lines)
    ]


def _line(
    name: str, points: Sequence[tuple[float, float]], colour: str, shape: str, *, marked: bool = False
) -> dict[str, Any]:
    return {
        "name": name, "type": "line", "data": points, "showSymbol": marked, "symbolSize": 5, "color": colour,
        "lineStyle": {"width": 2, "type": shape}, "animation": False,
    }  # fmt: skip


def _time_axis(first: float, last: float) -> dict[str, Any]:
    bounds = {"min": int(first * 1000), "max": int(last * 1000)} if last else {}
    return {"type": "time", "splitNumber": 4, **bounds}


def _colour(name: str, place: int) -> str:
    return NAMED.get(name, COLOURS[place % len(COLOURS)])


def _empty() -> dict[str, Any]:
    return {
        "useUTC": True,
        "backgroundColor": "transparent",
        "grid": {"left": 4, "right": 14, "top": 12, "bottom": 4, "containLabel": True},
        "legend": {
            "show": False,
            "type": "scroll",
            "top": 0,
            "left": 0,
            "icon": "roundRect",
            "itemHeight": 8,
        },
        "tooltip": {"trigger": "axis", "confine": True, "transitionDuration": 0},
        "xAxis": {"type": "time", "show": False},
        "yAxis": {"type": "value", "show": False},
        "series": [],
    }
