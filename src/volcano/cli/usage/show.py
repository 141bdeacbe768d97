"""`vcctl usage`: a table with bars, CSV or JSON."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from volcano.accounting.api import DIMENSIONS, GPU, PERIODS
from volcano.base.clock import micro_timestamp, timestamp
from volcano.cli import flags
from volcano.cli.accounting import add_period, period_of
from volcano.cli.errors import UsageError
from volcano.cli.printing.bars import Gauge, plain
from volcano.cli.printing.tables import Column, Place
from volcano.cli.session import Session
from volcano.services.accounting import hours, number_text
from volcano.services.prices import read_prices
from volcano.services.usage import TITLES, UsageGroup, UsageReport, csv_text, read_usage
from volcano.views.times import span

FORMATS: Final = ("", "csv", "json")
BAR: Final = 20
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
    report = await read_usage(
        session.client,
        start=start,
        end=end,
        by=by,
        period=arguments.period,
        namespace=arguments.namespace or arguments.short_n,
        queue=arguments.queue,
        user=arguments.for_user,
        job=arguments.job,
        gpu_type=arguments.gpu_type,
        prices=prices,
    )
    for note in report.notes:
        session.warn(f"warning: {note}")
    if arguments.output == "json":
        session.write(json_text(report))
    elif arguments.output == "csv":
        session.write(csv_text(report), end="")
    else:
        write_table(session, report)
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


def write_table(session: Session, report: UsageReport) -> None:
    session.write(f"Usage from {timestamp(report.start)} to {timestamp(report.end)}")
    if not report.rows:
        session.write("No pods ran in this time.")
        return
    rows = [*report.rows, *([report.total] if len(report.rows) > 1 else [])]
    session.table(table_columns(report), rows, padded=True)


def table_columns(report: UsageReport) -> Sequence[Column]:
    largest = max((report.size(row) for row in report.rows), default=0.0)
    has_gpus, is_divided = bool(report.total.resources.get(GPU)), any(row.period for row in report.rows)
    first = [*(["Period"] if is_divided else []), *(TITLES[name] for name in report.by)]

    def title(row: UsageGroup, name: str, header: str) -> str:
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


def _group_column(name: str, title: Callable[[UsageGroup, str, str], str]) -> Column:
    return Column(TITLES[name], lambda row: title(row, name, TITLES[name]))


def _hours(row: UsageGroup, name: str) -> str:
    return number_text(hours(row.resources, name))


def _part(report: UsageReport, row: UsageGroup) -> str:
    total = report.size(report.total)
    return f"{100 * report.size(row) / total:.0f} %" if total else ""


def json_text(report: UsageReport) -> str:
    priced = report.prices is not None
    document = {
        "from": micro_timestamp(report.start),
        "to": micro_timestamp(report.end),
        "by": list(report.by),
        **({"currency": report.prices.currency} if report.prices is not None else {}),
        "items": [row_manifest(row, priced=priced) for row in report.rows],
        "total": row_manifest(report.total, priced=priced),
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()


def row_manifest(row: UsageGroup, *, priced: bool) -> dict[str, Any]:
    """One row as JSON: hours, of memory GiB-hours."""
    return {
        **({"period": row.period} if row.period else {}),
        "group": dict(row.group),
        "hours": dict(row.hours),
        "runs": row.runs,
        "evictions": row.evictions,
        "meanWaitingSeconds": row.mean_waiting,
        **({"cost": row.cost} if priced else {}),
    }
