"""A database that fails: statements for which the disk is full, and copies of its files as a crash would leave them."""

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from volcano.apiserver.storage.full_disk import FullDisk
from volcano.apiserver.storage.journal import DurableStore
from volcano.apiserver.storage.reserve import Reserve

WRITES = ("INSERT", "DELETE", "BEGIN", "COMMIT", "CREATE", "DROP", "PRAGMA wal_checkpoint")


class FaultyReserve(Reserve):
    """A reserve that can be acquired only while the disk is not full."""

    def __init__(self, directory: Path, is_full: Callable[[], bool]) -> None:
        super().__init__(directory)
        self._is_full = is_full

    def acquire(self) -> bool:
        self.held = not self._is_full()
        return self.held

    def acquire_rest(self) -> None:
        return

    def release(self) -> None:
        self.held = False


class FaultyConnection:
    """The connection of a journal that counts the statements that write: some of them fail for lack of space, and
    before one of them the files are copied. From the first failure until statement `space_at` the disk is full."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        failing: frozenset[int],
        space_at: int,
        crash: int,
        copy: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._failing = failing
        self._space_at = space_at
        self._crash = crash
        self._copy = copy
        self.count = 0

    @property
    def is_full(self) -> bool:
        return min(self._failing, default=self._space_at) <= self.count < self._space_at

    def _fail(self, statement: str) -> None:
        if not statement.lstrip().startswith(WRITES):
            return
        self.count += 1
        if self.count == self._crash:
            self._copy()
        if self.count in self._failing and not statement.startswith("PRAGMA"):
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error

    def execute(self, statement: str, *arguments: Any) -> sqlite3.Cursor:
        self._fail(statement)
        return self._connection.execute(statement, *arguments)

    def executemany(self, statement: str, *arguments: Any) -> sqlite3.Cursor:
        self._fail(statement)
        return self._connection.executemany(statement, *arguments)

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def close(self) -> None:
        self._connection.close()


def inject(
    durable: DurableStore, failing: frozenset[int], space_at: int, crash: int, target: Path
) -> FaultyConnection:
    """Makes an open store fail as FaultyConnection says; `target` becomes what a crash at statement `crash` leaves."""
    journal = durable.journal
    source = journal._database.parent

    def copy() -> None:
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("reserve", "*-shm"))

    faulty = FaultyConnection(journal._connection, failing, space_at, crash, copy)
    journal._connection = faulty  # type: ignore[assignment]
    journal._disk = FullDisk(journal._database)
    journal._disk.reserve = FaultyReserve(source, lambda: faulty.is_full)
    journal._disk.reserve.held = True
    return faulty
