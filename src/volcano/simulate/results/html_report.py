"""HTML report: one file that needs nothing else, with the table and the plots of all configurations."""

from collections.abc import Sequence
from functools import partial
from html import escape

from volcano.simulate.results.recorder import Recorder
from volcano.simulate.results.summary import CDF, Summary, percent, seconds, table_rows
from volcano.simulate.results.svg import COLOURS, Axis, Line, gantt_chart, line_chart

STYLE = """
body{font:14px/1.45 system-ui,sans-serif;color:#222;max-width:1180px;margin:24px auto;padding:0 16px}
h1{font-size:22px}h2{font-size:17px;margin-top:32px}
table{border-collapse:collapse}th,td{padding:3px 14px 3px 0;text-align:right;border-bottom:1px solid #eee}
th:first-child,td:first-child{text-align:left}td.text{text-align:left}
figure{margin:14px 0;break-inside:avoid}figcaption{font-weight:600;margin-bottom:4px}
svg{width:100%;height:auto;background:#fff}.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(520px,1fr));gap:18px}
.legend{font-size:12px}.legend span{margin-right:14px;white-space:nowrap}
.legend i{display:inline-block;width:18px;height:3px;margin-right:5px;vertical-align:middle}
.note{color:#555}
"""
MOST_QUEUES = len(COLOURS)


def html_report(title: str, results: Sequence[tuple[Summary, Recorder]], notes: Sequence[str] = ()) -> str:
    """The whole page."""
    summaries = [summary for summary, _ in results]
    body = [f"<h1>{escape(title)}</h1>"]
    body += [f'<p class="note">{escape(note)}</p>' for note in notes]
    if any(summary.interrupted for summary in summaries):
        body.append(
            '<p class="note">The simulation was interrupted: the figures of the last column are partial.</p>'
        )
    body.append(_table(summaries))
    body.append(
        f'<h2>Over time</h2><div class="plots">{_allocation(results)}{_waiting(results)}{_waits(results)}'
    )
    body.append(f"{_fragmentation(results)}</div>")
    for summary, recorder in results:
        body.append(f"<h2>{escape(summary.name)}</h2>")
        body.append(f'<div class="plots">{_queue_shares(summary, recorder)}{_gantt(summary, recorder)}</div>')
        body.append(_queue_table(summary))
        body.append(_unplaced(summary))
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def _time_axis(results: Sequence[tuple[Summary, Recorder]]) -> Axis:
    longest = max((summary.virtual_seconds for summary, _ in results), default=0.0)
    for limit, unit, name in (
        (180.0, 1.0, "seconds"),
        (10800.0, 60.0, "minutes"),
        (259200.0, 3600.0, "hours"),
    ):
        if longest < limit:
            return Axis(f"time ({name})", partial(_in_units, unit), unit=unit)
    return Axis("time (days)", lambda value: f"{value / 86400:g}", unit=86400.0)


def _in_units(unit: float, value: float) -> str:
    return f"{value / unit:g}"


def _series(recorder: Recorder, column: int) -> list[tuple[float, float]]:
    ends, levels = recorder.timeline.averages()
    return [(float(at), float(level)) for at, level in zip(ends, levels[:, column], strict=True)]


SHARE = Axis("share of the cluster", lambda value: f"{100 * value:.0f} %", largest=1.0)


def _allocation(results: Sequence[tuple[Summary, Recorder]]) -> str:
    """Allocation of the scarcest resource, and its use where that differs."""
    gpus = any(recorder.capacity[2] > 0 for _, recorder in results)
    column, resource = (2, "GPU") if gpus else (0, "CPU")
    lines = []
    for index, (summary, recorder) in enumerate(results):
        colour = COLOURS[index % len(COLOURS)]
        lines.append(Line(f"{summary.name}: {resource} allocated", _series(recorder, column), colour))
        if summary.utilisation != summary.allocation:
            lines.append(
                Line(f"{summary.name}: {resource} used", _series(recorder, column + 3), colour, dashed=True)
            )
        elif gpus:
            lines.append(Line(f"{summary.name}: CPU allocated", _series(recorder, 0), colour, dashed=True))
    return line_chart("Utilisation and allocation", lines, _time_axis(results), SHARE)


def _waiting(results: Sequence[tuple[Summary, Recorder]]) -> str:
    lines = [
        Line(summary.name, _series(recorder, 6), COLOURS[index % len(COLOURS)])
        for index, (summary, recorder) in enumerate(results)
    ]
    return line_chart("Waiting pods", lines, _time_axis(results), Axis("pods"))


def _waits(results: Sequence[tuple[Summary, Recorder]]) -> str:
    lines = []
    for index, (summary, recorder) in enumerate(results):
        points = list(zip(recorder.wait.quantiles(CDF), CDF, strict=True))
        lines.append(Line(summary.name, points, COLOURS[index % len(COLOURS)]))
    x = Axis("waiting time (seconds, logarithmic)", lambda value: f"{value:g}", logarithmic=True)
    return line_chart("Waiting time: share of jobs that waited at most so long", lines, x, SHARE_OF_JOBS)


SHARE_OF_JOBS = Axis("share of jobs", lambda value: f"{100 * value:.0f} %", largest=1.0)


def _fragmentation(results: Sequence[tuple[Summary, Recorder]]) -> str:
    lines = [
        Line(summary.name, recorder.fragmentation, COLOURS[index % len(COLOURS)])
        for index, (summary, recorder) in enumerate(results)
    ]
    y = Axis("share of what is free", lambda value: f"{100 * value:.0f} %", largest=1.0)
    return line_chart(
        "Fragmentation: free resources that pods seen so far cannot use", lines, _time_axis(results), y
    )


def _queue_shares(summary: Summary, recorder: Recorder) -> str:
    asking = [row for row, queue in enumerate(summary.queues) if queue.deserved]
    order = sorted(asking, key=lambda row: -summary.queues[row].share)[:MOST_QUEUES]
    lines = []
    for index, row in enumerate(order):
        name, colour = recorder.queues[row], COLOURS[index]
        lines.append(Line(name, _series(recorder, 7 + row), colour))
        if len(order) > 1:
            deserved = _series(recorder, 7 + len(recorder.queues) + row)
            lines.append(Line(f"{name}, deserved", deserved, colour, dashed=True))
    return line_chart("Queues: dominant share", lines, _time_axis([(summary, recorder)]), SHARE)


def _gantt(summary: Summary, recorder: Recorder) -> str:
    colours = {name: COLOURS[row % len(COLOURS)] for row, name in enumerate(recorder.queues)}
    bars = [
        (bar.node, bar.start, bar.end, colours[bar.queue], f"{bar.job} ({bar.queue})")
        for bar in recorder.bars
    ]
    title = f"Nodes: pods on {len(recorder.gantt_nodes)} of the nodes, by queue"
    return gantt_chart(title, recorder.gantt_nodes, bars, _time_axis([(summary, recorder)]))


def _table(summaries: Sequence[Summary]) -> str:
    head = "".join(f"<th>{escape(summary.name)}</th>" for summary in summaries)
    rows = "".join(
        f"<tr><td>{escape(name)}</td>{''.join(f'<td>{escape(value)}</td>' for value in values)}</tr>"
        for name, values in table_rows(summaries)
    )
    return f"<table><tr><th>configuration</th>{head}</tr>{rows}</table>"


def _queue_table(summary: Summary) -> str:
    rows = "".join(
        f"<tr><td>{escape(queue.name)}</td><td>{queue.weight:g}</td><td>{percent(queue.share)}</td>"
        f"<td>{percent(queue.deserved)}</td>"
        f"<td>{percent(queue.satisfaction) if queue.deserved else 'no demand'}</td></tr>"
        for queue in summary.queues
    )
    head = "<tr><th>queue</th><th>weight</th><th>share</th><th>deserved</th><th>share of deserved</th></tr>"
    return f"<table>{head}{rows}</table>"


def _unplaced(summary: Summary) -> str:
    if not summary.reasons:
        return ""
    rows = "".join(
        f'<tr><td>{count}</td><td class="text">{escape(reason)}</td></tr>'
        for reason, count in summary.reasons.items()
    )
    waited = f"{summary.unplaced} jobs never started; the mean wait of the others was {seconds(summary.wait.mean)}."
    return f"<p>{escape(waited)}</p><table><tr><th>jobs</th><th>reason</th></tr>{rows}</table>"
