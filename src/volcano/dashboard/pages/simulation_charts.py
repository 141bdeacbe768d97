"""Line charts that look the same in both themes."""

from collections.abc import Sequence
from typing import Any

from nicegui import ui

from volcano.dashboard.data.simulations import Chart, Line

# Distinguishable with any colour vision, on light and on dark ground; dashes and names tell lines apart as well.
COLOURS = ("#3b82c4", "#d9822b", "#3a9d6a", "#c2538f", "#8a6fd1", "#a3892b", "#2aa3a8", "#7d8896")
TEXT, GRID = "#8593a5", "rgba(133, 147, 165, .28)"


def line_chart(chart: Chart) -> ui.echart:
    """One chart with a legend; screen readers get its title and the names of the lines."""
    element = ui.echart(chart_options(chart)).classes("w-full").style("height: 19rem")
    element.props["role"] = "img"
    element.props["aria-label"] = f"{chart.title}: {', '.join(line.name for line in chart.lines)}"
    return element


def chart_options(chart: Chart) -> dict[str, Any]:
    """Options of ECharts."""
    percent = {":formatter": "value => Math.round(100 * value) + ' %'"} if chart.share else {}
    shown: dict[str, Any] = (
        {":valueFormatter": "value => (100 * value).toFixed(1) + ' %'"}
        if chart.share
        else {":valueFormatter": "value => Number(value.toPrecision(4))"}
    )
    return {
        "animation": False,
        "color": list(COLOURS),
        "textStyle": {"color": TEXT},
        "grid": {"left": 8, "right": 18, "top": 16, "bottom": 62, "containLabel": True},
        "legend": {
            "type": "scroll",
            "bottom": 0,
            "textStyle": {"color": TEXT},
            "data": [line.name for line in chart.lines],
        },
        "tooltip": {"trigger": "axis", "confine": True, **shown},
        "xAxis": {
            "type": "log" if chart.logarithmic else "value",
            "name": chart.across,
            "nameLocation": "middle",
            "nameGap": 26,
            "max": "dataMax",
            "splitLine": {"show": False},
            "axisLabel": {"color": TEXT, "hideOverlap": True, "showMaxLabel": chart.logarithmic},
        },
        "yAxis": {
            "type": "value",
            "min": 0,
            "axisLabel": {"color": TEXT, **percent},
            "splitLine": {"lineStyle": {"color": GRID}},
            **({"max": 1} if chart.share and _largest(chart.lines) > 0.6 else {}),
        },
        "series": [_series(position, line) for position, line in enumerate(chart.lines)],
    }


def _largest(lines: Sequence[Line]) -> float:
    return max((value for line in lines for _, value in line.points), default=0.0)


def _series(position: int, line: Line) -> dict[str, Any]:
    colour = COLOURS[(position if line.colour < 0 else line.colour) % len(COLOURS)]
    return {
        "type": "line",
        "name": line.name,
        "data": [list(point) for point in line.points],
        "showSymbol": False,
        "lineStyle": {"width": 1.5, "type": "dashed" if line.dashed else "solid"},
        "itemStyle": {"color": colour},
    }
