"""The accounting database in a data directory: where it is, and checking it. Changes nothing."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

DIRECTORY: Final = "accounting"  # in a data directory
FILE: Final = "accounting.db"
MOST_PROBLEMS: Final = 100  # that a report lists
Progress = Callable[[str, int, int], None]  # name of a step, what is done, and the total


@dataclass(slots=True)
class AccountingReport:
    """Result of a check; `problems` are empty for an intact database."""

    database: str
    bytes: int = 0
    runs: int = 0
    jobs: int = 0
    problems: list[str] = field(default_factory=list)


def accounting_database(directory: Path) -> Path:
    """The database of a data directory; it does not exist when accounting is disabled or uses another database."""
    return directory / DIRECTORY / FILE


def sqlite_url(path: Path) -> str:
    """URL of a database in a file."""
    return f"sqlite:///{path}"


def check_accounting(database: Path, progress: Progress) -> AccountingReport | None:
    """Checks a database, whose cluster may be running; None when it does not exist."""
    if not database.exists():
        return None
    report = AccountingReport(str(database), database.stat().st_size)
    progress("checking accounting", 0, 1)
    try:
        with closing(_open_read_only(database)) as connection:
            connection.execute("BEGIN")
            found = [text for (text,) in connection.execute(f"PRAGMA integrity_check({MOST_PROBLEMS})")]
            report.problems += [f"{database}: SQLite: {text}" for text in found if text != "ok"]
            # A cluster that has just started creates the file before the tables, all of which are one transaction.
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
                return report
            report.runs = connection.execute("SELECT count(*) FROM runs").fetchone()[0]
            report.jobs = connection.execute("SELECT count(*) FROM jobs").fetchone()[0]
    except sqlite3.Error as error:
        report.problems.append(f"{database}: SQLite: {error}")
    progress("checking accounting", 1, 1)
    return report


def _open_read_only(database: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
