"""The table of the journal: one row per change, the horizon of each kind, and the statements that write them."""

import os
import sqlite3
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import orjson

from volcano.apiserver.storage.data_directory import APPLICATION_ID, FORMAT
from volcano.apiserver.storage.history import Change
from volcano.apiserver.storage.integrity import Row
from volcano.apiserver.storage.pages import PAGE_SIZE
from volcano.apiserver.storage.store import ObjectAddress

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
# A horizon never goes back: on a full disk, the file keeps less history than memory does.
_HORIZON = """INSERT INTO horizons VALUES (?,?)
ON CONFLICT (collection) DO UPDATE SET version=max(version, excluded.version)"""
CHECKPOINT_PAGES = 2000  # of the write-ahead log, after which it is written to the file


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
    connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
    return connection


def row_of(address: ObjectAddress, change: Change) -> Row:
    """The row of a change."""
    namespace, name = change.key
    data = change.data
    return change.version, address.collection, namespace, name, change.new is None, zlib.crc32(data), data


def insert(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Inserts rows in a transaction of the caller; up to LARGEST_SINGLE_STATEMENT are one statement."""
    for batch in _batches(rows):
        connection.execute(_INSERTS[len(batch)], [value for row in batch for value in row])


def forget(connection: sqlite3.Connection, versions: Sequence[int]) -> None:
    """Deletes the rows of some versions, in a transaction of the caller."""
    if versions:
        connection.execute(_FORGET, (orjson.dumps(versions).decode(),))


def set_horizons(connection: sqlite3.Connection, horizons: Mapping[str, int]) -> None:
    """Records the versions up to which kinds have no history, in a transaction of the caller."""
    if horizons:
        connection.executemany(_HORIZON, list(horizons.items()))


def _batches(rows: Sequence[Row]) -> Iterable[Sequence[Row]]:
    start = 0
    for size in _BATCHES:
        while len(rows) - start >= size:
            yield rows[start : start + size]
            start += size
