"""Retention: runs that ended long ago are removed, and their sums kept by month."""

from typing import Any, Final

from sqlalchemy import Connection, delete, exists, or_, select

from volcano.accounting.periods import period_start, periods
from volcano.accounting.store.database import Database
from volcano.accounting.store.recording import digest, upsert_sums
from volcano.accounting.store.schema import JOBS, ROLLUPS, RUNS, WORKLOADS

PART: Final = 5_000  # runs that are moved in one transaction, so that the recorder waits only briefly
SUMS: Final = ("seconds", "runs", "evictions", "waiting")


def roll_up(database: Database, before: float, *, part: int = PART) -> int:
    """Moves at most `part` runs that ended before a time into the sums of their months; returns their number.

    Sums and removal are one transaction: a run counts once, whatever happens.
    """
    with database.write() as connection:
        query = (
            select(RUNS, WORKLOADS)
            .join_from(RUNS, WORKLOADS, WORKLOADS.c.id == RUNS.c.workload)
            .where(RUNS.c.ended < before)
            .order_by(RUNS.c.ended)
            .limit(part)
        )
        rows = [row._mapping for row in connection.execute(query)]
        sums: dict[str, dict[str, Any]] = {}
        for row in rows:
            _add(sums, row)
        if sums:
            connection.execute(upsert_sums(connection, ROLLUPS, SUMS), list(sums.values()))
            uids = [row[RUNS.c.uid] for row in rows]
            for start in range(0, len(uids), 500):
                connection.execute(delete(RUNS).where(RUNS.c.uid.in_(uids[start : start + 500])))
        return len(rows)


def remove_leftovers(database: Database, before: float) -> None:
    """Removes jobs that were deleted before a time, and workloads without runs."""
    with database.write() as connection:
        connection.execute(delete(JOBS).where(JOBS.c.deleted < before))
        has_runs = exists().where(RUNS.c.workload == WORKLOADS.c.id)
        connection.execute(delete(WORKLOADS).where(~has_runs))


def has_expired(connection: Connection, before: float) -> bool:
    """Whether anything is older than a time."""
    run = select(RUNS.c.uid).where(RUNS.c.ended < before).limit(1)
    job = select(JOBS.c.uid).where(or_(JOBS.c.deleted < before)).limit(1)
    return connection.execute(run).first() is not None or connection.execute(job).first() is not None


def _add(sums: dict[str, dict[str, Any]], row: Any) -> None:
    """Adds a run to the sums of the months it was in; it is counted in the month of its start."""
    c, w = RUNS.c, WORKLOADS.c
    started, ended = row[c.started], row[c.ended]
    shape = (row[w.namespace], row[w.queue], row[w.user_name], row[w.gpu_type], row[w.gpus], row[w.requests])
    parts = list(periods("month", started, ended)) or [(started, started)]
    for number, (start, end) in enumerate(parts):
        month, is_first = period_start("month", start), number == 0
        key = digest(month, *shape)
        found = sums.setdefault(key, _empty(key, month, shape))
        found["seconds"] += end - start
        if is_first:
            found["runs"] += 1
            found["evictions"] += row[c.evictions]
            found["waiting"] += max(started - row[c.created], 0.0)


def _empty(key: str, month: float, shape: tuple[Any, ...]) -> dict[str, Any]:
    names = ("namespace", "queue", "user_name", "gpu_type", "gpus", "requests")
    return {
        "digest": key,
        "month": month,
        **dict(zip(names, shape, strict=True)),
        "seconds": 0.0,
        "runs": 0,
        "evictions": 0,
        "waiting": 0.0,
    }
