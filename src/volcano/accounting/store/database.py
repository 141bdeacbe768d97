"""The accounting database: SQLite in a file, or PostgreSQL. All calls block; call them from a thread."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event, insert, make_url, select
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from volcano.accounting.errors import DatabaseError
from volcano.accounting.store.schema import INFORMATION, SCHEMA_VERSION, TABLES
from volcano.base.os_errors import explain_os_error

VERSION: Final = "schema-version"
LOCK_SECONDS: Final = 10.0  # for which a statement of SQLite waits for another process
CONNECT_SECONDS: Final = 5
POSTGRESQL_DRIVER: Final = "postgresql+psycopg"
SCHEMES: Final = ("sqlite", "postgresql", POSTGRESQL_DRIVER)


class Database:
    """Connections to one database whose tables exist. Reads run in parallel, writes one after another."""

    def __init__(self, url: str) -> None:
        """`url` is `sqlite:///<file>` or `postgresql://<user>:<password>@<host>/<database>`.

        Connects and creates missing tables. Raises `DatabaseError`.
        """
        self.engine = _engine(url)
        self.shown_url = self.engine.url.render_as_string(hide_password=True)
        self._writing = threading.Lock()
        try:
            self._create_tables()
        except DatabaseError:
            self.engine.dispose()
            raise

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that is committed at the end of the block, and rolled back when it raises."""
        with self._writing, self._errors(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with self._errors(), self.engine.connect() as connection:
            yield connection

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise DatabaseError(f"{self.shown_url}: {_first_line(error)}") from error

    def _create_tables(self) -> None:
        with self.write() as connection:
            TABLES.create_all(connection)
            query = select(INFORMATION.c.value).where(INFORMATION.c.name == VERSION)
            version = connection.execute(query).scalar()
            if version is None:
                connection.execute(insert(INFORMATION).values(name=VERSION, value=SCHEMA_VERSION))
            elif version != SCHEMA_VERSION:
                raise DatabaseError(
                    f"{self.shown_url}: its tables have version {version:g}, this program needs {SCHEMA_VERSION}; "
                    "use another database or the program that wrote it"
                )


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise DatabaseError(f"{url!r} is no database URL; {_examples()}") from None
    if parsed.drivername not in SCHEMES:
        raise DatabaseError(f"database {parsed.drivername!r} is not supported; {_examples()}")
    is_sqlite = parsed.drivername == "sqlite"
    if is_sqlite and parsed.database and parsed.database != ":memory:":
        try:
            Path(parsed.database).touch(mode=0o600)  # usage is of no concern to other users of the host
        except OSError as error:
            raise DatabaseError(f"{url}: {explain_os_error(error, parsed.database)}") from None
    if not is_sqlite:
        parsed = parsed.set(drivername=POSTGRESQL_DRIVER)
    options: dict[str, Any] = (
        {"connect_args": {"timeout": LOCK_SECONDS, "check_same_thread": False}}
        if is_sqlite
        else {"connect_args": {"connect_timeout": CONNECT_SECONDS}, "pool_pre_ping": True}
    )
    try:
        engine = create_engine(parsed, **options)
    except (NoSuchModuleError, ModuleNotFoundError):
        raise DatabaseError(
            "PostgreSQL needs its driver; install it with: pip install 'volcano-py[postgresql]'"
        ) from None
    event.listen(engine, "connect", _configure_sqlite if is_sqlite else _configure_postgresql)
    return engine


def _configure_sqlite(connection: Any, _: object) -> None:
    # Readers do not wait for the recorder. A commit survives a crash of the process, which may lose nothing; the last
    # ones before a power failure may be lost, and are recorded again from the API.
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _configure_postgresql(connection: Any, _: object) -> None:
    # Sums over all runs are divided by workloads only: each parallel worker would read all runs, for twice the CPU.
    connection.execute("SET max_parallel_workers_per_gather = 0")
    connection.commit()


def _examples() -> str:
    return "write sqlite:///<file> or postgresql://<user>:<password>@<host>/<database>"


def _first_line(error: SQLAlchemyError) -> str:
    cause: object = getattr(error, "orig", None) or error
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0]
