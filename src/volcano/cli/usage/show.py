"""`vcctl usage`: a table with bars, CSV or JSON."""

import argparse
import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import orjson

from volcano.accounting.api import DIMENSIONS, GPU, PERIODS, USAGE, parse_usage
from volcano.base.clock import micro_timestamp, timestamp
from volcano.cli import flags
from volcano.cli.accounting import add_period, ask, hours, number_text, period_of
from volcano.cli.errors import UsageError
from volcano.cli.printing.bars import Gauge, plain
from volcano.cli.printing.tables import Column, Layout, Place, selected
from volcano.cli.printing.times import span
from volcano.cli.session import Session
from volcano.cli.usage.prices import read_prices
from volcano.cli.usage.report import Report, ReportRow, build_report, requested_dimensions, row_manifest

FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")
FORMATS: Final = ("", "csv", "json")
BAR: Final = 20
TITLES: Final = {
    "queue": "Queue",
    "user": "User",
    "namespace": "Namespace",
    "job": "Job",
    "gpu-type": "GPU type",
}
NONE: Final = "<none>"


def run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--by",
        default="queue",
        metavar="NAMES",
        help=f"sum up by these, separated by commas: {', '.join(DIMENSIONS)} (default queue)",
    )
    add_period(parser, default="the first of this month")
    parser.add_argument("--period", default="", help="divide the time by day, week or month")
    parser.add_argument("-q", "--queue", default="", help="only usage of this queue")
    parser.add_argument("--for-user", default="", metavar="USER", help="only usage of this user")
    parser.add_argument("--job", default="", help="only usage of this job")
    parser.add_argument("--gpu-type", default="", metavar="TYPE", help="only usage of GPUs of this type")
    flags.add_namespace(parser)
    flags.add_everywhere(parser, hidden=True)
    parser.add_argument(
        "--prices", type=Path, default=None, metavar="FILE", help="add costs, with the prices of this file"
    )
    parser.add_argument("-o", "--output", default="", metavar="FORMAT", help="csv or json")


async def run(arguments: argparse.Namespace, session: Session) -> int:
    """Prints the usage of a period."""
    if arguments.output not in FORMATS:
        raise UsageError(f"-o: {arguments.output!r} is none of csv, json")
    by = dimensions(arguments.by)
    if arguments.period and arguments.period not in PERIODS:
        raise UsageError(f"--period {arguments.period!r}: choose from {', '.join(PERIODS)}")
    now = session.clock.now().wall
    start, end = period_of(arguments, now)
    prices = read_prices(arguments.prices) if arguments.prices else None
    answer = await ask(
        session,
        USAGE,
        arguments.namespace or arguments.short_n,
        by=",".join(requested_dimensions(by, prices)),
        period=arguments.period,
        queue=arguments.queue,
        user=arguments.for_user,
        job=arguments.job,
        gpuType=arguments.gpu_type,
        **{"from": micro_timestamp(start), "to": micro_timestamp(end)},
    )
    report = build_report(map(parse_usage, answer["items"]), by, prices)
    for text in (
        *answer.get("warnings", ()),
        *(f"GPUs of type {name!r} have no price" for name in report.unpriced),
    ):
        session.warn(f"warning: {text}")
    if arguments.output == "json":
        session.write(json_text(report, start, end))
    elif arguments.output == "csv":
        session.write(csv_text(report), end="")
    else:
        write_table(session, report, start, end)
    return 0


def dimensions(text: str) -> tuple[str, ...]:
    """Parses `--by`."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in DIMENSIONS:
            raise UsageError(f"--by {name!r}: choose from {', '.join(DIMENSIONS)}")
    if not names:
        raise UsageError(f"--by is empty: choose from {', '.join(DIMENSIONS)}")
    return tuple(dict.fromkeys(names))


def write_table(session: Session, report: Report, start: float, end: float) -> None:
    session.write(f"Usage from {timestamp(start)} to {timestamp(end)}")
    if not report.rows:
        session.write("No pods ran in this time.")
        return
    columns = selected(table_columns(report), wide=False, terminal=session.terminal)
    rows = [*report.rows, *([report.total] if len(report.rows) > 1 else [])]
    layout = Layout(columns, rows, terminal=session.terminal, colour=session.colour, room=session.width)
    session.write(layout.header())
    for row in rows:
        session.write(layout.row(row))


def table_columns(report: Report) -> Sequence[Column]:
    largest = max((report.size(row) for row in report.rows), default=0.0)
    has_gpus, is_divided = bool(report.total.resources.get(GPU)), any(row.period for row in report.rows)
    first = [*(["Period"] if is_divided else []), *(TITLES[name] for name in report.by)]

    def title(row: ReportRow, name: str, header: str) -> str:
        if row is report.total:
            return "Total" if header == first[0] else ""
        return (row.period if name == "" else row.group[name]) or NONE

    columns = [
        *([Column("Period", lambda row: title(row, "", "Period"))] if is_divided else []),
        *(_group_column(name, title) for name in report.by),
        *([Column("GPU hours", lambda row: _hours(row, GPU))] if has_gpus else []),
        Column("CPU hours", lambda row: _hours(row, "cpu")),
        Column("GiB hours", lambda row: _hours(row, "memory"), spare=3),
        Column("Pods", lambda row: f"{row.runs:,}", spare=2),
        Column("Evicted", lambda row: f"{row.evictions:,}", spare=4),
        Column("Waited", lambda row: span(row.mean_waiting), spare=5),
    ]
    if report.prices is not None:
        columns.append(Column(f"Cost {report.prices.currency}".strip(), lambda row: f"{row.cost:,.2f}"))
    columns.append(
        Column(
            "Share",
            lambda row: "" if row is report.total else plain(Gauge(report.size(row), largest), BAR),
            only_in=Place.TERMINAL,
            spare=1,
        )
    )
    columns.append(Column("Part", lambda row: _part(report, row), spare=1))
    return columns


def _group_column(name: str, title: Callable[[ReportRow, str, str], str]) -> Column:
    return Column(TITLES[name], lambda row: title(row, name, TITLES[name]))


def _hours(row: ReportRow, name: str) -> str:
    return number_text(hours(row.resources, name))


def _part(report: Report, row: ReportRow) -> str:
    total = report.size(report.total)
    return f"{100 * report.size(row) / total:.0f} %" if total else ""


def json_text(report: Report, start: float, end: float) -> str:
    priced = report.prices is not None
    document = {
        "from": micro_timestamp(start),
        "to": micro_timestamp(end),
        "by": list(report.by),
        **({"currency": report.prices.currency} if report.prices is not None else {}),
        "items": [row_manifest(row, priced=priced) for row in report.rows],
        "total": row_manifest(report.total, priced=priced),
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()


def _plain(name: str) -> str:
    """A name that no spreadsheet takes for a formula: users choose some of these names."""
    return f"'{name}" if name.startswith(FORMULA_STARTS) else name


def csv_text(report: Report) -> str:
    """One line for each group; hours of every resource that occurs, of memory GiB-hours."""
    names = sorted(report.total.resources)
    is_divided = any(row.period for row in report.rows)
    header = [
        *(["period"] if is_divided else []),
        *report.by,
        *("memory_gib_hours" if name == "memory" else f"{name}_hours" for name in names),
        "pods",
        "evictions",
        "mean_waiting_seconds",
        *(["cost"] if report.prices is not None else []),
    ]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in report.rows:
        writer.writerow(
            [
                *([row.period] if is_divided else []),
                *map(_plain, row.group.values()),
                *(f"{hours(row.resources, name):.6g}" for name in names),
                row.runs,
                row.evictions,
                f"{row.mean_waiting:.1f}",
                *([f"{row.cost:.4f}"] if report.prices is not None else []),
            ]
        )
    return text.getvalue()
