"""Queries on the database: usage of a period, runs, and jobs. All block."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, Connection, Row, Select, and_, case, func, literal, or_, select

from volcano.accounting.api import GPU, JobRecord, Outcome, Run, UsageRow, Workload
from volcano.accounting.periods import period_end, period_name, periods
from volcano.accounting.store.database import Database
from volcano.accounting.store.schema import JOBS, ROLLUPS, RUNS, WORKLOADS

COLUMNS: Final = {
    "queue": "queue",
    "user": "user_name",
    "namespace": "namespace",
    "job": "job",
    "gpu-type": "gpu_type",
}
MOST_PERIODS: Final = 400
_OF_JOBS: Final = ("job",)  # dimensions that roll-ups do not have


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """Usage in [start, end), summed by dimensions, of the runs that all filters select."""

    start: float
    end: float
    by: tuple[str, ...] = ("queue",)
    filters: Mapping[str, str] = field(default_factory=dict)  # by dimension
    period: str = ""  # divide the time by days, weeks or months


@dataclass(frozen=True, slots=True)
class UsageAnswer:
    rows: tuple[UsageRow, ...]
    warnings: tuple[str, ...] = ()


def usage(database: Database, query: UsageQuery, now: float) -> UsageAnswer:
    """The usage that a query asks for; open runs count up to `now`, and times in the future count nothing."""
    query = replace(query, end=min(query.end, now))
    if query.end <= query.start:
        return UsageAnswer(())
    with database.read() as connection:
        if not query.period:
            return UsageAnswer(tuple(_rows(connection, query)), tuple(_warnings(connection, query)))
        parts = list(periods(query.period, query.start, query.end))[-MOST_PERIODS:]
        rows = [
            replace(row, period=period_name(query.period, start))
            for start, end in parts
            for row in _rows(connection, replace(query, start=start, end=end))
        ]
        return UsageAnswer(tuple(rows), tuple(_warnings(connection, query)))


def _rows(connection: Connection, query: UsageQuery) -> list[UsageRow]:
    sums: dict[tuple[str, ...], _Sum] = {}
    for row in [*connection.execute(_of_runs(query)), *connection.execute(_of_rollups(query))]:
        key = tuple(row[: len(query.by)])
        sums.setdefault(key, _Sum()).add(row)
    return [
        UsageRow(
            dict(zip(query.by, key, strict=True)), found.resources, found.runs, found.evictions, found.waiting
        )
        for key, found in sorted(sums.items())
    ]


class _Sum:
    """Sum of rows that end with gpus, requests, seconds, runs, evictions and waiting time."""

    def __init__(self) -> None:
        self.resources: dict[str, float] = {}
        self.runs = self.evictions = 0
        self.waiting = 0.0

    def add(self, row: Row[Any]) -> None:
        gpus, requests, seconds, runs, evictions, waiting = tuple(row)[-6:]
        amounts = orjson.loads(requests)
        if gpus:
            amounts[GPU] = gpus
        for name, amount in amounts.items():
            self.resources[name] = self.resources.get(name, 0.0) + amount * float(seconds)
        self.runs += int(runs)
        self.evictions += int(evictions)
        self.waiting += float(waiting)


def _of_runs(query: UsageQuery) -> Select[Any]:
    """Sums by workload in one pass over an index, then by dimension: there are far fewer workloads than runs."""
    start, end = literal(query.start), literal(query.end)
    until = case((or_(RUNS.c.ended.is_(None), RUNS.c.ended > end), end), else_=RUNS.c.ended)
    since = case((RUNS.c.started < start, start), else_=RUNS.c.started)
    is_new = RUNS.c.started >= start
    waited = case((and_(is_new, RUNS.c.started > RUNS.c.created), RUNS.c.started - RUNS.c.created), else_=0.0)
    by_workload = (
        select(
            RUNS.c.workload,
            func.sum(_seconds(since, until)).label("seconds"),
            func.count().label("runs"),
            func.sum(RUNS.c.evictions).label("evictions"),
            func.sum(waited).label("waiting"),
        )
        .where(RUNS.c.started < end, or_(RUNS.c.ended.is_(None), RUNS.c.ended > start))
        .group_by(RUNS.c.workload)
    )
    if query.filters:
        selected = select(WORKLOADS.c.id).where(*_filters(WORKLOADS.c, query.filters))
        by_workload = by_workload.where(RUNS.c.workload.in_(selected))
    part = by_workload.subquery()
    columns = [WORKLOADS.c[COLUMNS[name]] for name in query.by] + [WORKLOADS.c.gpus, WORKLOADS.c.requests]
    sums = [func.sum(part.c[name]) for name in ("seconds", "runs", "evictions", "waiting")]
    return (
        select(*columns, *sums)
        .join_from(part, WORKLOADS, WORKLOADS.c.id == part.c.workload)
        .group_by(*columns)
    )


def _seconds(since: ColumnElement[float], until: ColumnElement[float]) -> ColumnElement[float]:
    """Never negative: a run may end before its start, or start after now, when a clock was set back."""
    return case((until > since, until - since), else_=0.0)


def _of_rollups(query: UsageQuery) -> Select[Any]:
    """Months of the past whose runs were removed; only whole ones are known."""
    columns: list[ColumnElement[Any]] = [
        literal("") if name in _OF_JOBS else ROLLUPS.c[COLUMNS[name]] for name in query.by
    ]
    columns += [ROLLUPS.c.gpus, ROLLUPS.c.requests]
    sums = [func.sum(ROLLUPS.c[name]) for name in ("seconds", "runs", "evictions", "waiting")]
    grouped = [ROLLUPS.c[COLUMNS[name]] for name in query.by if name not in _OF_JOBS]
    statement = select(*columns, *sums).where(ROLLUPS.c.month >= query.start, ROLLUPS.c.month < query.end)
    if any(name in _OF_JOBS for name in query.filters):
        statement = statement.where(literal(0) == literal(1))
    else:
        statement = statement.where(*_filters(ROLLUPS.c, query.filters))
    return statement.group_by(*grouped, ROLLUPS.c.gpus, ROLLUPS.c.requests)


def _warnings(connection: Connection, query: UsageQuery) -> Iterator[str]:
    months = connection.execute(select(ROLLUPS.c.month).distinct().order_by(ROLLUPS.c.month)).scalars()
    for month in months:
        if month < query.start < period_end("month", month):
            name = period_name("month", month)
            yield f"of {name}, runs that were summed up by month are not included: begin with {name}-01"
        elif month < query.end < period_end("month", month) and month >= query.start:
            name = period_name("month", month)
            yield f"of {name}, runs that were summed up by month are included up to the end of the month"
    if any(name in _OF_JOBS for name in (*query.by, *query.filters)):
        newest = connection.execute(
            select(func.max(ROLLUPS.c.month)).where(ROLLUPS.c.month < query.end)
        ).scalar()
        if newest is not None and period_end("month", newest) > query.start:
            yield "runs that were summed up by month have no job"


def _filters(columns: Any, filters: Mapping[str, str]) -> list[ColumnElement[bool]]:
    return [columns[COLUMNS[name]] == value for name, value in filters.items()]


# -- runs ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunsQuery:
    """Runs that overlap [start, end), the newest first; after `after`, a start and uid of the last page."""

    start: float
    end: float
    filters: Mapping[str, str] = field(default_factory=dict)
    job_uid: str = ""
    limit: int = 500
    after: tuple[float, str] | None = None


def runs(database: Database, query: RunsQuery) -> list[Run]:
    """At most `limit` runs."""
    statement = (
        select(RUNS, WORKLOADS)
        .join_from(RUNS, WORKLOADS, WORKLOADS.c.id == RUNS.c.workload)
        .where(RUNS.c.started < query.end, or_(RUNS.c.ended.is_(None), RUNS.c.ended > query.start))
        .where(*_filters(WORKLOADS.c, query.filters))
        .order_by(RUNS.c.started.desc(), RUNS.c.uid)
        .limit(query.limit)
    )
    if query.job_uid:
        statement = statement.where(WORKLOADS.c.job_uid == query.job_uid)
    if query.after is not None:
        started, uid = query.after
        older = or_(RUNS.c.started < started, and_(RUNS.c.started == started, RUNS.c.uid > uid))
        statement = statement.where(older)
    with database.read() as connection:
        return [_run(row._mapping) for row in connection.execute(statement)]


def _run(row: Mapping[Any, Any]) -> Run:
    c, w = RUNS.c, WORKLOADS.c
    workload = Workload(
        row[w.namespace],
        row[w.queue],
        row[w.user_name],
        row[w.job],
        row[w.job_uid],
        row[w.task],
        row[w.gpu_type],
        row[w.gpus],
        orjson.loads(row[w.requests]),
    )
    return Run(
        row[c.uid],
        row[c.pod],
        row[c.node],
        workload,
        row[c.created],
        row[c.started],
        row[c.ended],
        Outcome(row[c.outcome]),
        row[c.reason],
        row[c.evictions],
        bool(row[c.estimated]),
    )


# -- jobs ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JobsQuery:
    """Jobs that existed in [start, end), the newest first."""

    start: float
    end: float
    filters: Mapping[str, str] = field(default_factory=dict)  # queue, user, namespace, job
    limit: int = 500
    after: tuple[float, str] | None = None  # creation and uid of the last of the page before


@dataclass(frozen=True, slots=True)
class JobUsage:
    """What the runs of a job amount to."""

    runs: int = 0
    running: int = 0
    evictions: int = 0
    started: float | None = None  # the first run
    ended: float | None = None  # the last run; None while one runs
    resources: Mapping[str, float] = field(default_factory=dict)  # resource-seconds


def jobs(database: Database, query: JobsQuery, now: float) -> list[tuple[JobRecord, JobUsage]]:
    """At most `limit` jobs with their usage."""
    c = JOBS.c
    names = {"queue": c.queue, "user": c.user_name, "namespace": c.namespace, "job": c.name}
    statement = (
        select(JOBS)
        .where(c.created < query.end, or_(c.deleted.is_(None), c.deleted > query.start))
        .where(*(names[name] == value for name, value in query.filters.items()))
        .order_by(c.created.desc(), c.uid)
        .limit(query.limit)
    )
    if query.after is not None:
        created, uid = query.after
        statement = statement.where(or_(c.created < created, and_(c.created == created, c.uid > uid)))
    with database.read() as connection:
        found = [_job(row) for row in connection.execute(statement)]
        used = _job_usage(connection, [job.uid for job in found], now)
    return [(job, used.get(job.uid, JobUsage())) for job in found]


def _job(row: Row[Any]) -> JobRecord:
    return JobRecord(
        row.uid,
        row.namespace,
        row.name,
        row.queue,
        row.user_name,
        row.created,
        row.phase,
        row.finished,
        row.deleted,
        row.message,
        row.min_available,
        orjson.loads(row.tasks),
    )


def _job_usage(connection: Connection, uids: Sequence[str], now: float) -> dict[str, JobUsage]:
    if not uids:
        return {}
    until = case((RUNS.c.ended.is_(None), literal(now)), else_=RUNS.c.ended)
    statement = (
        select(
            WORKLOADS.c.job_uid,
            WORKLOADS.c.gpus,
            WORKLOADS.c.requests,
            func.sum(_seconds(RUNS.c.started, until)).label("seconds"),
            func.count().label("runs"),
            func.count(RUNS.c.ended).label("finished"),
            func.sum(RUNS.c.evictions).label("evictions"),
            func.min(RUNS.c.started).label("started"),
            func.max(RUNS.c.ended).label("ended"),
        )
        .join_from(RUNS, WORKLOADS, WORKLOADS.c.id == RUNS.c.workload)
        .where(WORKLOADS.c.job_uid.in_(uids))
        .group_by(WORKLOADS.c.job_uid, WORKLOADS.c.gpus, WORKLOADS.c.requests)
    )
    found: dict[str, list[Row[Any]]] = {}
    for row in connection.execute(statement):
        found.setdefault(row.job_uid, []).append(row)
    return {uid: _sum_of_job(rows) for uid, rows in found.items()}


def _sum_of_job(rows: Iterable[Row[Any]]) -> JobUsage:
    rows = list(rows)
    resources: dict[str, float] = {}
    for row in rows:
        amounts = orjson.loads(row.requests) | ({GPU: row.gpus} if row.gpus else {})
        for name, amount in amounts.items():
            resources[name] = resources.get(name, 0.0) + amount * float(row.seconds)
    total, finished = sum(row.runs for row in rows), sum(row.finished for row in rows)
    return JobUsage(
        total,
        total - finished,
        int(sum(row.evictions for row in rows)),
        min(row.started for row in rows),
        max(row.ended for row in rows if row.ended is not None) if finished == total else None,
        resources,
    )
