"""Writes to a database on a full disk: its file does not grow, and deletions always have space.

The file keeps no history then: a change deletes the row that it supersedes before it inserts its own, and a deletion
inserts none. Space for the write-ahead log is reserved, so transactions are kept small.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from volcano.apiserver.storage import log_table
from volcano.apiserver.storage.data_directory import FORMAT
from volcano.apiserver.storage.history import Change
from volcano.apiserver.storage.pages import PAGE_SIZE
from volcano.apiserver.storage.reserve import (
    DELETION_BYTES,
    FREE_BYTES,
    ONLY_FOR_DELETIONS,
    Reserve,
    allocate_log,
    is_full,
)
from volcano.apiserver.storage.store import ObjectAddress
from volcano.base.log import Log

log = Log("journal")

Written = tuple[ObjectAddress, Change]

MOST_PAGES = 0x3FFFFFFE  # SQLite's own limit
CHUNK = 200  # changes per transaction; each touches a few pages
CHUNK_BYTES = 2 << 20
FORGOTTEN_CHUNK = 2000  # superseded rows per transaction; neighbours share pages
CHECKPOINT_PAGES = 500
OVERHEAD = 1.1  # of an object's row and its pages, as a factor of its bytes


class FullDisk:
    """Whether the disk is full for a database, and how it is written to then. Used on the journal's thread, except
    `fits` and `has_space`."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self.reserve = Reserve(database.parent)
        self.entered = False
        self._free_bytes = 0
        self._secure_delete = 0  # SQLite's default, which depends on how it was built

    def start(self, connection: sqlite3.Connection) -> None:
        """Prepares for a database that has just been opened; enters if the disk is full already."""
        self._secure_delete = connection.execute("PRAGMA secure_delete").fetchone()[0]
        try:
            connection.execute(f"PRAGMA user_version={FORMAT}")  # creates the log
            allocate_log(self._database)
            connection.execute("DROP TABLE IF EXISTS filler")  # left by a crash
        except sqlite3.Error as error:
            if not is_full(error, self._database.parent):
                raise
        if not self.reserve.acquire():
            self.enter(connection)

    def has_space(self) -> bool:
        """Whether all writes are accepted: there is space outside the file, or much within."""
        return self.reserve.acquire() or self._free_bytes >= FREE_BYTES

    def fits(self, size: int) -> bool:
        """Whether an object of so many bytes fits beside what deletions need; if so, the space is taken."""
        needed = int(size * OVERHEAD) + PAGE_SIZE
        if self._free_bytes - needed < ONLY_FOR_DELETIONS:
            return False
        self._free_bytes -= needed
        return True

    def enter(self, connection: sqlite3.Connection) -> None:
        """Makes free pages within the file out of the reserve, and fixes the file's size."""
        log.warning("disk full, only writes that fit into the file are accepted")
        self.entered = True
        # Overwriting freed pages with zeros would write as much to the log as is deleted.
        connection.execute("PRAGMA secure_delete=0").fetchone()
        connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}").fetchone()
        self.reserve.release()
        try:
            _make_free_pages(connection)
        except sqlite3.Error as error:
            log.warning("free pages could not be made", error=error)
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        self.reserve.acquire_rest()
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages}").fetchone()
        self._measure(connection)

    def leave(self, connection: sqlite3.Connection) -> None:
        """Lets the file grow again."""
        log.info("disk has space again, all writes are accepted")
        self.entered = False
        connection.execute(f"PRAGMA max_page_count={MOST_PAGES}").fetchone()
        connection.execute(f"PRAGMA secure_delete={self._secure_delete}").fetchone()
        connection.execute(f"PRAGMA wal_autocheckpoint={log_table.CHECKPOINT_PAGES}").fetchone()

    def commit(
        self,
        connection: sqlite3.Connection,
        changes: Sequence[Written],
        superseded: list[int],
        horizons: dict[str, int],
        on_committed: Callable[[int], None],
    ) -> None:
        """Commits in small transactions. What has been committed is removed from `superseded` and `horizons`, and
        reported to `on_committed` by its newest version."""
        try:
            while superseded or horizons:
                with _transaction(connection):
                    log_table.set_horizons(connection, horizons)
                    log_table.forget(connection, superseded[:FORGOTTEN_CHUNK])
                del superseded[:FORGOTTEN_CHUNK]
                horizons.clear()
            for chunk in _chunks(changes):
                with _transaction(connection):
                    _write(connection, chunk)
                on_committed(chunk[-1][1].version)
        finally:
            self._measure(connection)

    def _measure(self, connection: sqlite3.Connection) -> None:
        self._free_bytes = connection.execute("PRAGMA freelist_count").fetchone()[0] * PAGE_SIZE


class _transaction:  # noqa: N801
    """A transaction that is rolled back by an error."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._connection.execute("COMMIT")
        elif self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


def checkpoint(connection: sqlite3.Connection) -> None:
    """Writes the write-ahead log to the file, so that it is used from its beginning again."""
    try:
        connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
    except sqlite3.Error as error:
        log.warning("write-ahead log could not be written to the file", error=error)


def _make_free_pages(connection: sqlite3.Connection) -> None:
    """Makes the file larger by pages that are free, and really allocated on the disk."""
    checkpoint(connection)
    missing = DELETION_BYTES - connection.execute("PRAGMA freelist_count").fetchone()[0] * PAGE_SIZE
    if missing <= 0:
        return
    with _transaction(connection):
        connection.execute("CREATE TABLE filler (data BLOB)")
        connection.execute("INSERT INTO filler VALUES (zeroblob(?))", (missing,))
    checkpoint(connection)
    with _transaction(connection):
        connection.execute("DROP TABLE filler")


def _chunks(changes: Sequence[Written]) -> Iterator[Sequence[Written]]:
    chunk: list[Written] = []
    size = 0
    for written in changes:
        chunk.append(written)
        size += len(written[1].data)
        if len(chunk) == CHUNK or size > CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _write(connection: sqlite3.Connection, chunk: Sequence[Written]) -> None:
    """Writes the newest state of each changed object, and that no history leads to it."""
    newest = {(address.collection, address.key): change for address, change in chunk}
    before: list[int] = [change.old.version for _, change in chunk if change.old is not None]
    horizons: Mapping[str, int] = {address.collection: change.version for address, change in chunk}
    log_table.forget(connection, before)
    log_table.set_horizons(connection, horizons)
    rows = [
        log_table.row_of(ObjectAddress(collection, key), change)
        for (collection, key), change in newest.items()
        if change.new is not None
    ]
    log_table.insert(connection, rows)
