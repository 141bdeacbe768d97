"""Checks a database of the store: SQLite's structure, every row, and the order of revisions. Changes nothing."""

import sqlite3
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from volcano.apiserver.storage.data_directory import DataDirectoryError, check_header
from volcano.apiserver.storage.pages import Damaged, Pages
from volcano.kube.api.manifest import Manifest

# Name in the table of horizons for all kinds, also those without objects: nothing at or below that version is known.
ALL_COLLECTIONS = ""
Row = tuple[int, str, str, str, int, int, bytes]  # as in the table `log`
# Called with the name of a step, what is done and the total.
Progress = Callable[[str, int, int], None]

MOST_PROBLEMS = 100  # that a report lists; all are counted
_EVERY = 500  # rows between two calls of `progress`


@dataclass(slots=True)
class StoreReport:
    """Result of a check. `problems` are empty for an intact database."""

    database: str
    bytes: int = 0
    rows: int = 0
    damaged_rows: int = 0
    revision: int = 0  # the newest
    missing_revisions: int = 0  # between the oldest and the newest; normal, as old changes are removed
    objects: dict[str, int] = field(default_factory=dict)  # by resource
    problems: list[str] = field(default_factory=list)
    problem_count: int = 0

    def add_problem(self, text: str) -> None:
        self.problem_count += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(text)


def open_read_only(database: Path) -> sqlite3.Connection:
    """A connection that cannot change the database; a running cluster may write to it meanwhile."""
    return sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)


class RowDamaged(Exception):
    """A row that cannot be used, and why."""


def object_of(row: tuple[Any, ...]) -> Manifest:
    """The object of a row; raises RowDamaged."""
    version, collection, namespace, name, deleted, checksum, data = row
    numbers = isinstance(version, int) and isinstance(checksum, int) and deleted in (0, 1)
    if not numbers or not all(isinstance(text, str) for text in (collection, namespace, name)):
        raise RowDamaged("its columns have wrong types")
    if not isinstance(data, bytes) or zlib.crc32(data) != checksum:
        raise RowDamaged("it does not match its checksum")
    try:
        manifest: Manifest = orjson.loads(data)
        metadata = manifest["metadata"]
        stored = metadata.get("namespace", ""), metadata["name"], metadata["resourceVersion"]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise RowDamaged("it is not an object in JSON") from None
    if stored != (namespace, name, str(version)):
        raise RowDamaged(f"it contains the object {stored[0]}/{stored[1]} at version {stored[2]}")
    return manifest


def problem_of(row: tuple[Any, ...]) -> str:
    """Why a row cannot be used; empty for an intact one."""
    try:
        object_of(row)
    except RowDamaged as error:
        return str(error)
    return ""


def title_of(row: tuple[Any, ...]) -> str:
    version, collection, namespace, name, *_ = row
    return f"{collection} {f'{namespace}/' if namespace else ''}{name} at version {version}"


def check_store(database: Path, progress: Progress) -> StoreReport:
    """Checks a database file."""
    report = StoreReport(str(database))
    try:
        report.bytes = database.stat().st_size
        check_header(database)
    except FileNotFoundError:
        report.add_problem(f"{database}: does not exist")
        return report
    except DataDirectoryError as error:
        report.add_problem(str(error))
    states: dict[tuple[str, str, str], int] = {}  # whether the newest row of an object is a deletion
    versions: list[int] = []
    try:
        with closing(open_read_only(database)) as connection:
            connection.execute("BEGIN")  # one state of the database for all steps
            _check_structure(connection, report, progress)
            horizons = dict(connection.execute("SELECT collection, version FROM horizons"))
            report.revision = max(horizons.values(), default=0)
            for row in _rows(connection, progress):
                _check_row(row, report, states, versions, horizons)
    except sqlite3.DatabaseError as error:
        report.add_problem(f"SQLite: {error}")
        report.rows = report.damaged_rows = 0
        states, versions = {}, []
        for found in readable_rows(database, progress):
            if isinstance(found, str):
                report.rows += 1
                report.damaged_rows += 1
                report.add_problem(found)
            else:
                _check_row(found, report, states, versions, None)
    if versions:
        newest = max(versions)
        report.revision = max(report.revision, newest)
        report.missing_revisions = newest - min(versions) + 1 - len(set(versions))
    counts = Counter(collection for (collection, _, _), deleted in states.items() if not deleted)
    report.objects = dict(sorted(counts.items()))
    return report


def readable_rows(database: Path, progress: Progress) -> Iterator[Row | str]:
    """Rows of the table `log` read page by page; a text for each damaged one. In no particular order."""
    pages = Pages(database)
    for found in pages.rows(lambda done, total: progress("reading pages", done, total)):
        if isinstance(found, Damaged):
            yield str(found)
            continue
        rowid, values = found
        if len(values) != 7 or values[0] is not None:
            continue  # a row of SQLite's own table
        row = (rowid, *values[1:])
        problem = problem_of(row)
        yield f"{title_of(row)}: {problem}" if problem else row


def _check_structure(connection: sqlite3.Connection, report: StoreReport, progress: Progress) -> None:
    progress("checking structure", 0, 1)
    for (text,) in connection.execute(f"PRAGMA integrity_check({MOST_PROBLEMS})"):
        if text != "ok":
            report.add_problem(f"SQLite: {text}")
    progress("checking structure", 1, 1)


def _rows(connection: sqlite3.Connection, progress: Progress) -> Iterator[Row]:
    total = connection.execute("SELECT count(*) FROM log").fetchone()[0]
    columns = "version, collection, namespace, name, deleted, checksum, data"
    for number, row in enumerate(connection.execute(f"SELECT {columns} FROM log ORDER BY version"), 1):
        if number % _EVERY == 0 or number == total:
            progress("checking rows", number, total)
        yield row


def _check_row(
    row: Row,
    report: StoreReport,
    states: dict[tuple[str, str, str], int],
    versions: list[int],
    horizons: dict[str, int] | None,
) -> None:
    report.rows += 1
    problem = problem_of(row)
    if problem:
        report.damaged_rows += 1
        report.add_problem(f"{title_of(row)}: {problem}")
        return
    version, collection, namespace, name, deleted, _, _ = row
    address = collection, namespace, name
    in_history = horizons is not None and version > horizons.get(collection, horizons.get(ALL_COLLECTIONS, 0))
    if deleted and in_history and address not in states:
        report.add_problem(f"{title_of(row)}: the deleted object is missing")
    states[address] = deleted
    versions.append(version)
