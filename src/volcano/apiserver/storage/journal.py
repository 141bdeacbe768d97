"""The journal: an append-only table in SQLite, written by one thread with group commit.

Every change is one row under its version. The newest row of an object is the object; older rows and rows
of deletions stay for as long as the history of their kind needs them. Rows at or below a kind's horizon
are the state the history starts from.
"""

import asyncio
import os
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from enum import Enum, auto
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import orjson

from volcano.apiserver.storage.data_directory import APPLICATION_ID, FORMAT, DataDirectory, DataDirectoryError
from volcano.apiserver.storage.history import Change
from volcano.apiserver.storage.integrity import (
    ALL_COLLECTIONS,
    Row,
    RowDamaged,
    object_of,
    open_read_only,
    title_of,
)
from volcano.apiserver.storage.pages import PAGE_SIZE
from volcano.apiserver.storage.reserve import FREE_BYTES, Reserve, is_full
from volcano.apiserver.storage.store import HISTORY, CommitError, ObjectAddress, OnWrite, Store
from volcano.base.log import Log

log = Log("journal")

_SCHEMA = """
CREATE TABLE log (
    version INTEGER PRIMARY KEY, collection TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    deleted INTEGER NOT NULL, checksum INTEGER NOT NULL, data BLOB NOT NULL
);
CREATE TABLE horizons (collection TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID;
"""
# Rows are inserted by few statements, mostly by one: every statement competes for the interpreter lock.
LARGEST_SINGLE_STATEMENT = 64
_BATCHES = (512, 256, 128, *range(LARGEST_SINGLE_STATEMENT, 0, -1))
_INSERTS = {size: f"INSERT INTO log VALUES {','.join(['(?,?,?,?,?,?,?)'] * size)}" for size in _BATCHES}
_FORGET = "DELETE FROM log WHERE version IN (SELECT value FROM json_each(?))"
_HORIZON = "INSERT INTO horizons VALUES (?,?) ON CONFLICT (collection) DO UPDATE SET version=excluded.version"


_IDENTITY = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp")
DELETION_PAGES = 128  # by which the file may grow while the disk is full
MOST_PAGES = 0x3FFFFFFE  # SQLite's own limit
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
            database = self._directory.database
            self.journal = SqliteJournal(database)
            self.store = Store(history=history, journal=self.journal, on_write=on_write, place=str(directory))
            try:
                if database.exists() and database.stat().st_size:
                    load(database, self.store)
                self.journal.start(self.store.on_committed, self.store.on_failed)
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
        self._reserve = Reserve(database.parent)
        self._connection: sqlite3.Connection
        self._committed: Callable[[int], None]
        self._failed: Callable[[CommitError], None]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._gathered: list[tuple[ObjectAddress, Change]] = []  # in this iteration of the event loop
        self._inbox: SimpleQueue[list[tuple[ObjectAddress, Change]] | _Command] = SimpleQueue()
        self._superseded_lock = threading.Lock()  # guards the next two
        self._superseded: list[int] = []
        self._horizons: dict[str, int] = {}
        self._closing = False  # the thread has received CLOSE
        self._limited = False  # the file must not grow
        self._secure_delete = 0  # SQLite's default, which depends on how it was built
        self._free_bytes = 0  # within the file, while it must not grow
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)

    def start(self, committed: Callable[[int], None], failed: Callable[[CommitError], None]) -> None:
        """Opens the database for writing and starts the thread. Changes are reported to `committed` by the newest
        version that is durable, or to `failed` with the reason."""
        self._committed = committed
        self._failed = failed
        self._connection = connect(self._database)
        self._secure_delete = self._connection.execute("PRAGMA secure_delete").fetchone()[0]
        if not self._reserve.acquire():
            log.warning("disk nearly full", directory=self._database.parent)
        self._thread.start()

    def has_space(self) -> bool:
        return self._reserve.acquire() or (self._limited and self._free_bytes >= FREE_BYTES)

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
        if self._limited:
            self._inbox.put([])  # at once: while the disk is full, there may be no further write

    def resume(self) -> None:
        self._gathered = []
        self._inbox.put(_Command.RESUME)

    def close(self) -> None:
        self._enqueue()
        self._inbox.put(_Command.CLOSE)
        self._thread.join()

    def _enqueue(self) -> None:
        if self._gathered:
            gathered, self._gathered = self._gathered, []
            self._inbox.put(gathered)

    def _run(self) -> None:
        with closing(self._connection):
            while not self._closing:
                rows = self._receive()
                if not rows and not self._limited:
                    continue
                with self._superseded_lock:
                    superseded, self._superseded = self._superseded, []
                    horizons, self._horizons = self._horizons, {}
                if not rows and not superseded:
                    continue
                try:
                    self._commit_with_space(rows, superseded, horizons)
                except sqlite3.Error as error:
                    self._roll_back(error, superseded, horizons)
                else:
                    if rows:
                        self._report(self._committed, rows[-1][0])

    def _receive(self) -> list[Row]:
        """Waits for a command; returns all changes that have arrived by then."""
        rows: list[Row] = []
        waiting = True
        while waiting or not self._inbox.empty():
            command = self._inbox.get()
            waiting = False
            if not isinstance(command, _Command):
                rows += [self._row(address, change) for address, change in command]
            elif command is _Command.CLOSE:
                self._closing = True
                break
        return rows

    def _row(self, address: ObjectAddress, change: Change) -> Row:
        namespace, name = change.key
        data, deleted = change.data, change.new is None
        if deleted and self._limited:
            data = _deletion_record(data)
        return change.version, address.collection, namespace, name, deleted, zlib.crc32(data), data

    def _commit_with_space(self, rows: list[Row], superseded: list[int], horizons: dict[str, int]) -> None:
        """Commits; when the disk is full, again after the space of the write-ahead log has been freed."""
        if self._limited and self._reserve.held:
            self._limit_pages(MOST_PAGES)
        try:
            self._commit(rows, superseded, horizons)
        except sqlite3.Error as error:
            if not is_full(error, self._database.parent):
                raise
            self._undo()
            self._reserve.release()
            self._empty_log()
            if not self._limited and not self._reserve.acquire():
                raise
            self._commit(rows, superseded, horizons)
        if self._limited:
            pages = self._connection.execute("PRAGMA freelist_count").fetchone()[0]
            self._free_bytes = pages * PAGE_SIZE

    def _undo(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _empty_log(self) -> None:
        """Writes the pages of the write-ahead log to the file, and frees its space."""
        try:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            log.warning("write-ahead log could not be emptied", error=error)

    def _limit_pages(self, count: int) -> None:
        """Limits the file's size: while the disk is full it must not grow, so that its log can always be emptied."""
        self._limited = count < MOST_PAGES
        self._connection.execute(f"PRAGMA max_page_count={count}").fetchone()
        # Overwriting freed pages with zeros would write as much to the log as is deleted.
        secure = 0 if self._limited else self._secure_delete
        self._connection.execute(f"PRAGMA secure_delete={secure}").fetchone()

    def _commit(self, rows: list[Row], superseded: list[int], horizons: dict[str, int]) -> None:
        connection = self._connection
        if len(rows) <= LARGEST_SINGLE_STATEMENT and not superseded and not horizons:
            self._insert(rows)  # a single statement is a transaction
            return
        connection.execute("BEGIN IMMEDIATE")
        for batch in _batches(rows):
            self._insert(batch)
        if superseded:
            connection.execute(_FORGET, (orjson.dumps(superseded).decode(),))
        if horizons:
            connection.executemany(_HORIZON, list(horizons.items()))
        connection.execute("COMMIT")

    def _insert(self, rows: list[Row]) -> None:
        self._connection.execute(_INSERTS[len(rows)], [value for row in rows for value in row])

    def _roll_back(self, error: sqlite3.Error, superseded: list[int], horizons: dict[str, int]) -> None:
        """After a failed commit: nothing more is written until the store has rolled back."""
        reason = CommitError(str(error), disk_full=is_full(error, self._database.parent))
        try:
            self._undo()
            if reason.disk_full:
                present = self._connection.execute("PRAGMA page_count").fetchone()[0]
                self._limit_pages(present + DELETION_PAGES)
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

    def _report(self, callback: Callable[[Any], None], value: int | CommitError) -> None:
        assert self._loop is not None, "set by the first write"
        try:
            self._loop.call_soon_threadsafe(callback, value)
        except RuntimeError:
            log.warning("event loop closed before a write was confirmed")


def connect(database: Path) -> sqlite3.Connection:
    """A connection for writing; creates missing tables. Only the owner can read the file: it contains Secrets."""
    os.close(os.open(database, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    os.chmod(database, 0o600)  # SQLite gives its other files the same mode
    connection = sqlite3.connect(database, isolation_level=None, check_same_thread=False)
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        # Before WAL mode, so that the header identifies the file even after a crash.
        connection.execute(f"PRAGMA page_size={PAGE_SIZE}")
        connection.executescript(
            f"BEGIN; PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={FORMAT}; {_SCHEMA} COMMIT;"
        )
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA wal_autocheckpoint=2000")  # pages; the reserve must be larger
    return connection


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
                    store.collection(collection).history.horizon = version
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


def _deletion_record(data: bytes) -> bytes:
    """The last state of an object without what is not needed to know that it was deleted."""
    manifest = orjson.loads(data)
    kept = {name: manifest["metadata"][name] for name in _IDENTITY if name in manifest["metadata"]}
    return orjson.dumps({"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "metadata": kept})


def _batches(rows: list[Row]) -> Iterable[list[Row]]:
    start = 0
    for size in _BATCHES:
        while len(rows) - start >= size:
            yield rows[start : start + size]
            start += size
