"""The journal: an append-only table in SQLite, written by one thread with group commit.

Every change is one row under its version. The newest row of an object is the object; older rows and rows
of deletions stay for as long as the history of their kind needs them. Rows at or below a kind's horizon
are the state the history starts from.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from enum import Enum, auto
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from volcano.apiserver.storage import log_table
from volcano.apiserver.storage.data_directory import DataDirectory, DataDirectoryError
from volcano.apiserver.storage.full_disk import FullDisk, Written, checkpoint
from volcano.apiserver.storage.history import Change
from volcano.apiserver.storage.integrity import (
    ALL_COLLECTIONS,
    Row,
    RowDamaged,
    object_of,
    open_read_only,
    title_of,
)
from volcano.apiserver.storage.log_table import connect
from volcano.apiserver.storage.reserve import Reserve, is_full
from volcano.apiserver.storage.store import HISTORY, CommitError, ObjectAddress, OnWrite, Store
from volcano.base.log import Log

log = Log("journal")

SEE_CHECK = "`volcano check` shows what is left of it"


class _Command(Enum):
    """Commands to the thread, beside changes."""

    RESUME = auto()
    CLOSE = auto()


class DurableStore:
    """A store with a journal, in a directory of its own."""

    def __init__(self, directory: Path, *, history: int = HISTORY, on_write: OnWrite | None = None) -> None:
        """Opens or creates the directory and loads its objects. Raises DataDirectoryError, changing nothing."""
        with ExitStack() as undo:
            self._directory = DataDirectory(directory)
            undo.callback(self._directory.release)
            Reserve(directory).release_if_needed()
            database = self._directory.database
            self.journal = SqliteJournal(database)
            self.store = Store(history=history, journal=self.journal, on_write=on_write, place=str(directory))
            try:
                if database.exists() and database.stat().st_size:
                    load(database, self.store)
                self.journal.start(self.store.on_committed, self.store.on_failed)
                if self.journal.disk_full:
                    self.store.set_disk_full()
            except sqlite3.Error as error:
                raise DataDirectoryError(f"{database}: cannot be opened: {error}") from error
            undo.pop_all()

    def close(self) -> None:
        """Commits pending writes and releases the directory for other processes."""
        self.journal.close()
        self._directory.release()


class SqliteJournal:
    """Append-only log with group commit: takes changes on the event loop, commits them in a thread, and reports back
    on the event loop."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._disk = FullDisk(database)
        self._connection: sqlite3.Connection
        self._committed: Callable[[int], None]
        self._failed: Callable[[CommitError], None]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._gathered: list[Written] = []  # in this iteration of the event loop
        self._inbox: SimpleQueue[list[Written] | _Command] = SimpleQueue()
        self._superseded_lock = threading.Lock()  # guards the next two
        self._superseded: list[int] = []
        self._horizons: dict[str, int] = {}
        self._closing = False  # the thread has received CLOSE
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)

    def start(self, committed: Callable[[int], None], failed: Callable[[CommitError], None]) -> None:
        """Opens the database for writing and starts the thread. Changes are reported to `committed` by the newest
        version that is durable, or to `failed` with the reason."""
        self._committed = committed
        self._failed = failed
        self._connection = connect(self._database)
        self._disk.start(self._connection)
        self._thread.start()

    @property
    def disk_full(self) -> bool:
        """Whether only writes are accepted that fit into the file."""
        return self._disk.entered

    def has_space(self) -> bool:
        return self._disk.has_space()

    def fits(self, size: int) -> bool:
        return self._disk.fits(size)

    def write(self, address: ObjectAddress, change: Change) -> None:
        loop = asyncio.get_running_loop()
        if not self._gathered or loop is not self._loop:
            # Changes of the same iteration of the event loop are passed on together: they wake the thread
            # once and are one commit.
            self._loop = loop
            loop.call_soon(self._enqueue)
        self._gathered.append((address, change))

    def forget(self, collection: str, horizon: int, versions: list[int]) -> None:
        with self._superseded_lock:
            self._superseded.extend(versions)
            self._horizons[collection] = horizon
        if self._disk.entered:
            self._inbox.put([])  # at once: while the disk is full, there may be no further write

    def resume(self) -> None:
        self._gathered = []
        self._inbox.put(_Command.RESUME)
        self._inbox.put([])  # forgets what the store has forgotten, without waiting for a write

    def close(self) -> None:
        self._enqueue()
        self._inbox.put(_Command.CLOSE)
        self._thread.join()
        if not self._disk.reserve.acquire():
            self._disk.reserve.acquire_rest()  # of the space that the write-ahead log had

    def _enqueue(self) -> None:
        if self._gathered:
            gathered, self._gathered = self._gathered, []
            self._inbox.put(gathered)

    def _run(self) -> None:
        with closing(self._connection):
            while not self._closing:
                changes = self._receive()
                if not changes and not self._disk.entered:
                    continue
                with self._superseded_lock:
                    superseded, self._superseded = self._superseded, []
                    horizons, self._horizons = self._horizons, {}
                if not changes and not superseded:
                    continue
                try:
                    self._commit(changes, superseded, horizons)
                except sqlite3.Error as error:
                    self._roll_back(error, superseded, horizons)

    def _receive(self) -> list[Written]:
        """Waits for a command; returns all changes that have arrived by then."""
        changes: list[Written] = []
        waiting = True
        while waiting or not self._inbox.empty():
            command = self._inbox.get()
            waiting = False
            if not isinstance(command, _Command):
                changes += command
            elif command is _Command.CLOSE:
                self._closing = True
                break
        return changes

    def _commit(self, changes: list[Written], superseded: list[int], horizons: dict[str, int]) -> None:
        """Commits, and reports what is durable."""
        if self._disk.entered and self._disk.reserve.held:
            self._disk.leave(self._connection)
        if self._disk.entered:
            self._disk.commit(self._connection, changes, superseded, horizons, self._report_committed)
            return
        rows = [log_table.row_of(address, change) for address, change in changes]
        try:
            self._commit_rows(rows, superseded, horizons)
        except sqlite3.Error as error:
            if not is_full(error, self._database.parent):
                raise
            self._undo()
            checkpoint(self._connection)  # the log may have used up the last space, and is free then
            if not self._disk.reserve.acquire():
                raise
            self._commit_rows(rows, superseded, horizons)
        if rows:
            self._report_committed(rows[-1][0])

    def _undo(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _commit_rows(self, rows: list[Row], superseded: list[int], horizons: dict[str, int]) -> None:
        connection = self._connection
        if len(rows) <= log_table.LARGEST_SINGLE_STATEMENT and not superseded and not horizons:
            log_table.insert(connection, rows)  # a single statement is a transaction
            return
        connection.execute("BEGIN IMMEDIATE")
        log_table.insert(connection, rows)
        log_table.forget(connection, superseded)
        log_table.set_horizons(connection, horizons)
        connection.execute("COMMIT")

    def _roll_back(self, error: sqlite3.Error, superseded: list[int], horizons: dict[str, int]) -> None:
        """After a failed commit: nothing more is written until the store has rolled back."""
        reason = CommitError(str(error), disk_full=is_full(error, self._database.parent))
        try:
            self._undo()
            if reason.disk_full:
                self._disk.enter(self._connection)
        except sqlite3.Error as further:
            log.error("rollback failed", error=further)
        with self._superseded_lock:
            self._superseded[:0] = superseded
            self._horizons = horizons | self._horizons
        self._report(self._failed, reason)
        self._discard_until_resumed()

    def _discard_until_resumed(self) -> None:
        """Discards changes that depend on a failed one; the store rolls them back as well."""
        command: object = None
        while command is not _Command.RESUME and not self._closing:
            command = self._inbox.get()
            self._closing = command is _Command.CLOSE

    def _report_committed(self, version: int) -> None:
        self._report(self._committed, version)

    def _report(self, callback: Callable[[Any], None], value: int | CommitError) -> None:
        assert self._loop is not None, "set by the first write"
        try:
            self._loop.call_soon_threadsafe(callback, value)
        except RuntimeError:
            log.warning("event loop closed before a write was confirmed")


def load(database: Path, store: Store) -> None:
    """Loads all rows into the store. Raises DataDirectoryError naming the damaged row."""
    try:
        with closing(open_read_only(database)) as connection:
            if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                return
            for collection, version in connection.execute(
                "SELECT collection, version FROM horizons ORDER BY collection <> ?", (ALL_COLLECTIONS,)
            ):
                if collection == ALL_COLLECTIONS:
                    store.start_at(version)
                else:
                    store.set_horizon(collection, version)
            for row in connection.execute(
                "SELECT version, collection, namespace, name, deleted, checksum, data FROM log ORDER BY version"
            ):
                _load_row(database, store, row)
    except sqlite3.DatabaseError as error:
        raise DataDirectoryError(
            f"{database}: is damaged: {error}; nothing was changed; {SEE_CHECK}"
        ) from error


def _load_row(database: Path, store: Store, row: Row) -> None:
    try:
        manifest = object_of(row)
    except RowDamaged as error:
        raise DataDirectoryError(
            f"{database}: is damaged: {title_of(row)}: {error}; nothing was changed; {SEE_CHECK}"
        ) from None
    version, name, _, _, deleted, _, data = row
    collection = store.collection(name)
    record = collection.describe(manifest, version, data)
    old = collection.records.get(record.key)
    if deleted and old is None:
        return
    store.load(name, Change(version, record.key, old, None if deleted else record, data))
