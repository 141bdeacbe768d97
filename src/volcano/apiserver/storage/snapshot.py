"""Snapshots of the store: an online copy of its database, and a new database from the rows of another.

A new database starts at a revision far above that of its source, and has no history: a client that has seen
revisions of the source which are not in the copy lists again (410) instead of watching on.
"""

import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from volcano.apiserver.storage.integrity import (
    ALL_COLLECTIONS,
    Progress,
    Row,
    open_read_only,
    problem_of,
    readable_rows,
    title_of,
)
from volcano.apiserver.storage.log_table import connect

# Added to the newest revision, as etcd's documentation recommends for restored snapshots.
REVISION_BUMP = 1_000_000_000
_PAGES = 256  # per step of a copy
_EVERY = 500  # rows between two calls of `progress`
_INSERT = "INSERT OR IGNORE INTO log VALUES (?,?,?,?,?,?,?)"
# Changes that a later one supersedes, and deletions.
_COMPACT = """
DELETE FROM log WHERE deleted OR EXISTS (
    SELECT 1 FROM newest WHERE newest.collection = log.collection AND newest.namespace = log.namespace
        AND newest.name = log.name AND newest.version > log.version
)
"""
_NEWEST = """
CREATE TEMP TABLE newest AS
    SELECT collection, namespace, name, max(version) AS version FROM log GROUP BY collection, namespace, name
"""


@dataclass(slots=True)
class Salvaged:
    """What was found in a damaged database."""

    rows: int = 0
    objects: int = 0
    revision: int = 0
    lost: list[str] = field(default_factory=list)


def copy_database(source: Path, target: Path, progress: Progress) -> None:
    """Copies a database to a new file while a cluster may write to it; the copy is its state at one moment.

    Raises sqlite3.Error when the source cannot be read.
    """
    _create_private(target)
    with closing(open_read_only(source)) as origin, closing(sqlite3.connect(target)) as copy:
        # With a read transaction of its own, the copy does not start again whenever the cluster writes.
        origin.execute("BEGIN")
        origin.execute("SELECT count(*) FROM sqlite_master").fetchone()
        origin.backup(
            copy,
            pages=_PAGES,
            progress=lambda _, remaining, total: progress("copying pages", total - remaining, total),
        )
        copy.execute("PRAGMA journal_mode=DELETE")  # one file, without a write-ahead log


def rebuild_database(source: Path, target: Path, progress: Progress) -> int:
    """Writes the objects of an intact database to a new file; returns its revision. Raises sqlite3.Error."""
    with closing(open_read_only(source)) as origin:
        total = origin.execute("SELECT count(*) FROM log").fetchone()[0]
        rows = origin.execute("SELECT * FROM log ORDER BY version")
        return _write(target, _counted(rows, total, progress), _floor(origin))


def salvage_database(source: Path, target: Path, progress: Progress) -> Salvaged:
    """Writes every object of which an intact row is found in a damaged database to a new file."""
    salvaged = Salvaged()

    def intact() -> Iterable[Row]:
        for found in readable_rows(source, progress):
            if isinstance(found, str):
                salvaged.lost.append(found)
            else:
                salvaged.rows += 1
                yield found

    salvaged.revision = _write(target, intact(), _readable_floor(source))
    with closing(open_read_only(target)) as connection:
        salvaged.objects = connection.execute("SELECT count(*) FROM log").fetchone()[0]
    return salvaged


def _write(target: Path, rows: Iterable[Row], floor: int) -> int:
    """Creates a database with the newest version of each object; returns its revision."""
    newest = floor
    with closing(connect(target)) as connection:
        connection.execute("BEGIN")
        for row in rows:
            connection.execute(_INSERT, row)
            newest = max(newest, row[0])
        revision = newest + REVISION_BUMP
        connection.execute(_NEWEST)
        connection.execute("CREATE INDEX temp.newest_key ON newest (collection, namespace, name)")
        connection.execute(_COMPACT)
        connection.execute("INSERT INTO horizons VALUES (?,?)", (ALL_COLLECTIONS, revision))
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return revision


def _counted(rows: Iterable[Row], total: int, progress: Progress) -> Iterable[Row]:
    for number, row in enumerate(rows, 1):
        if number % _EVERY == 0 or number == total:
            progress("restoring objects", number, total)
        problem = problem_of(row)
        if problem:
            raise sqlite3.DatabaseError(f"{title_of(row)}: {problem}")
        yield row


def _floor(connection: sqlite3.Connection) -> int:
    found = connection.execute("SELECT max(version) FROM horizons").fetchone()[0]
    return found or 0


def _readable_floor(database: Path) -> int:
    try:
        with closing(open_read_only(database)) as connection:
            return _floor(connection)
    except sqlite3.DatabaseError:
        return 0


def _create_private(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
