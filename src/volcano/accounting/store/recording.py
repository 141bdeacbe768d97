"""Writes runs and jobs. Every write may be repeated: rows are found by uid, and an exact end is never replaced."""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import orjson
from sqlalchemy import Connection, Insert, Table, and_, bindparam, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import psycopg

from volcano.accounting.api import Batch, JobRecord, Outcome, Progress, Run, Workload
from volcano.accounting.errors import DatabaseError
from volcano.accounting.store.database import Database
from volcano.accounting.store.schema import INFORMATION, JOBS, RUNS, WORKLOADS

LAST_SEEN: Final = "last-seen"
VERSION_OF: Final = "resource-version/"  # followed by the resource
CHUNK: Final = 500  # values of one `IN`
MOST_KNOWN: Final = 100_000  # workloads whose ids are kept in memory


class Recording:
    """Writes batches to a database. Blocks; used by one thread at a time."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._ids: dict[str, int] = {}  # of workloads, by digest
        # Built once: building a statement takes longer than writing some rows. Those with many rows are passed to the
        # driver as text, with tuples: SQLAlchemy's handling of each row takes as long as writing it.
        dialect = database.engine.dialect.name
        self._upsert_runs = _driver_text(_upsert_runs(dialect), RUNS)
        self._upsert_jobs = _driver_text(_upsert_jobs(dialect), JOBS)
        self._insert_workloads = _insert(dialect, WORKLOADS).on_conflict_do_nothing()

    def write(self, batch: Batch) -> None:
        """Writes a batch, all or nothing. Raises `DatabaseError`."""
        if len(self._ids) > MOST_KNOWN:
            self._ids.clear()
        try:
            with self.database.write() as connection:
                workloads = {id(run.workload): run.workload for run in batch.runs}
                digests = {identity: digest_of(workload) for identity, workload in workloads.items()}
                ids = self._workload_ids(connection, digests, workloads)
                if batch.runs:
                    of_workload = {identity: ids[digest] for identity, digest in digests.items()}
                    rows = [_run_row(run, of_workload[id(run.workload)]) for run in batch.runs]
                    connection.exec_driver_sql(self._upsert_runs, rows)
                if batch.jobs:
                    connection.exec_driver_sql(self._upsert_jobs, [_job_row(job) for job in batch.jobs])
                if batch.progress is not None:
                    _set_progress(connection, batch.progress)
        except DatabaseError:
            self._ids.clear()  # a workload may have been removed by the retention of another process
            raise
        self._ids.update(ids)

    def forget_workloads(self) -> None:
        """To be called when workloads were removed from the database."""
        self._ids.clear()

    def progress(self) -> Progress | None:
        """Up to where all is recorded; None in a new database."""
        with self.database.read() as connection:
            query = select(INFORMATION.c.name, INFORMATION.c.value)
            found = {row.name: float(row.value) for row in connection.execute(query)}
        if LAST_SEEN not in found:
            return None
        versions = {
            name.removeprefix(VERSION_OF): int(value)
            for name, value in found.items()
            if name.startswith(VERSION_OF)
        }
        return Progress(found[LAST_SEEN], versions)

    def close_missing(self, pods: Collection[str], jobs: Collection[str]) -> int:
        """Ends open runs whose pods do not exist any more, and marks such jobs as deleted: at the last time at which
        they were known. Returns the number of runs."""
        with self.database.write() as connection:
            seen = information(connection, LAST_SEEN)
            query = select(RUNS.c.uid, RUNS.c.started).where(RUNS.c.ended.is_(None))
            lost = [(uid, started) for uid, started in connection.execute(query) if uid not in pods]
            rows = [
                {"lost": uid, "at": max(started, seen if seen is not None else started)}
                for uid, started in lost
            ]
            if rows:
                connection.execute(_END_LOST, rows)
            kept = select(JOBS.c.uid, JOBS.c.created).where(JOBS.c.deleted.is_(None))
            gone = [(uid, created) for uid, created in connection.execute(kept) if uid not in jobs]
            deleted = [{"lost": uid, "at": max(at, seen if seen is not None else at)} for uid, at in gone]
            if deleted:
                connection.execute(_DELETE_LOST, deleted)
        return len(rows)

    def _workload_ids(
        self, connection: Connection, by_identity: Mapping[int, str], workloads: Mapping[int, Workload]
    ) -> dict[str, int]:
        """Ids of workloads by digest, of new ones too."""
        found = {digest: self._ids[digest] for digest in by_identity.values() if digest in self._ids}
        missing = {digest: workloads[key] for key, digest in by_identity.items() if digest not in found}
        if missing:
            rows = [_workload_row(digest, workload) for digest, workload in missing.items()]
            connection.execute(self._insert_workloads, rows)
            for part in _chunks(list(missing)):
                query = select(WORKLOADS.c.digest, WORKLOADS.c.id).where(WORKLOADS.c.digest.in_(part))
                found |= {row.digest: row.id for row in connection.execute(query)}
        return found


def information(connection: Connection, name: str) -> float | None:
    value = connection.execute(select(INFORMATION.c.value).where(INFORMATION.c.name == name)).scalar()
    return None if value is None else float(value)


def _set_progress(connection: Connection, progress: Progress) -> None:
    rows = [{"name": LAST_SEEN, "value": progress.seen}]
    rows += [{"name": VERSION_OF + name, "value": version} for name, version in progress.versions.items()]
    connection.execute(_upsert_information(connection.dialect.name), rows)


@lru_cache(maxsize=2)
def _upsert_information(dialect: str) -> Insert:
    statement = _insert(dialect, INFORMATION)
    return statement.on_conflict_do_update(index_elements=["name"], set_={"value": statement.excluded.value})


def digest_of(workload: Workload) -> str:
    """A short key of all that a workload says."""
    return digest(
        workload.namespace,
        workload.queue,
        workload.user,
        workload.job,
        workload.job_uid,
        workload.task,
        workload.gpu_type,
        workload.gpus,
        dict(workload.requests),
    )


def digest(*values: Any) -> str:
    text = orjson.dumps(values, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def requests_text(requests: Mapping[str, float]) -> str:
    return orjson.dumps(dict(requests), option=orjson.OPT_SORT_KEYS).decode()


# Both dialects have the same `on_conflict` clauses.
def _insert(dialect: str, table: Table) -> "sqlite.Insert | postgresql.Insert":
    return sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)


def _driver_text(statement: Insert, table: Table) -> str:
    """An insert of all columns of a table as the driver takes it, for tuples in the order of the columns."""
    dialect = (
        sqlite.dialect() if isinstance(statement, sqlite.Insert) else psycopg.dialect(paramstyle="format")  # type: ignore[no-untyped-call]
    )
    return str(statement.compile(dialect=dialect, column_keys=table.c.keys()))


def upsert_sums(connection: Connection, table: Table, sums: Sequence[str]) -> Insert:
    """An insert that adds `sums` to those of the row with the same digest."""
    statement = _insert(connection.dialect.name, table)
    changes = {name: table.c[name] + statement.excluded[name] for name in sums}
    return statement.on_conflict_do_update(index_elements=["digest"], set_=changes)


_ENDING: Final = ("ended", "outcome", "reason", "evictions", "estimated")


def _upsert_runs(dialect: str) -> Insert:
    statement = _insert(dialect, RUNS)
    new = statement.excluded
    is_better = and_(
        new.ended.is_not(None), or_(RUNS.c.ended.is_(None), and_(RUNS.c.estimated, ~new.estimated))
    )
    return statement.on_conflict_do_update(
        index_elements=["uid"], set_={name: new[name] for name in _ENDING}, where=is_better
    )


def _upsert_jobs(dialect: str) -> Insert:
    statement = _insert(dialect, JOBS)
    names = ("phase", "finished", "deleted", "message", "queue", "min_available", "tasks")
    # A deleted job does not come back: an older version of it that arrives late changes nothing.
    return statement.on_conflict_do_update(
        index_elements=["uid"],
        set_={name: statement.excluded[name] for name in names},
        where=JOBS.c.deleted.is_(None),
    )


_END_LOST = (
    update(RUNS)
    .where(RUNS.c.uid == bindparam("lost"), RUNS.c.ended.is_(None))
    .values(ended=bindparam("at"), outcome=str(Outcome.UNKNOWN), estimated=True)
)
_DELETE_LOST = update(JOBS).where(JOBS.c.uid == bindparam("lost")).values(deleted=bindparam("at"))


def _workload_row(key: str, workload: Workload) -> dict[str, Any]:
    return {
        "digest": key,
        "namespace": workload.namespace,
        "queue": workload.queue,
        "user_name": workload.user,
        "job": workload.job,
        "job_uid": workload.job_uid,
        "task": workload.task,
        "gpu_type": workload.gpu_type,
        "gpus": workload.gpus,
        "requests": requests_text(workload.requests),
    }


def _run_row(run: Run, workload: int) -> tuple[Any, ...]:
    """In the order of the columns."""
    return (
        run.uid,
        workload,
        run.pod,
        run.node,
        run.created,
        run.started,
        run.ended,
        str(run.outcome),
        run.reason,
        run.evictions,
        run.estimated,
    )


def _job_row(job: JobRecord) -> tuple[Any, ...]:
    """In the order of the columns."""
    return (
        job.uid,
        job.namespace,
        job.name,
        job.queue,
        job.user,
        job.created,
        job.phase,
        job.finished,
        job.deleted,
        job.message,
        job.min_available,
        orjson.dumps(dict(job.tasks)).decode(),
    )


def _chunks(values: list[str]) -> Iterator[Iterable[str]]:
    for start in range(0, len(values), CHUNK):
        yield values[start : start + CHUNK]
