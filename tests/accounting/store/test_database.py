"""Opening a database: tables are created once, and errors name the database and what would be right."""

from pathlib import Path

import pytest
from sqlalchemy import text, update

from tests.accounting import postgresql
from volcano.accounting.errors import DatabaseError
from volcano.accounting.store.database import Database
from volcano.accounting.store.file_check import sqlite_url
from volcano.accounting.store.schema import INFORMATION


def test_a_database_can_be_opened_again(database_url: str) -> None:
    for _ in range(2):
        Database(database_url).close()


def test_a_database_of_another_version_is_rejected(database_url: str) -> None:
    database = Database(database_url)
    with database.write() as connection:
        connection.execute(update(INFORMATION).values(value=7))
    database.close()
    with pytest.raises(DatabaseError, match="its tables have version 7, this program needs 1"):
        Database(database_url)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("accounting.db", "'accounting.db' is no database URL; write sqlite:///<file> or postgresql://"),
        ("mysql://host/db", "database 'mysql' is not supported; write sqlite:///<file>"),
    ],
)
def test_another_url_is_rejected_with_an_example(url: str, message: str) -> None:
    with pytest.raises(DatabaseError, match=message):
        Database(url)


def test_an_unreachable_server_is_named_without_its_password() -> None:
    with pytest.raises(DatabaseError, match="postgresql") as caught:
        Database("postgresql://volcano:secret@127.0.0.1:1/accounting")
    assert "127.0.0.1" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_the_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    Database(sqlite_url(tmp_path / "a.db")).close()
    assert (tmp_path / "a.db").stat().st_mode & 0o777 == 0o600


def test_queries_of_postgresql_are_not_repeated_by_parallel_workers(
    postgresql_server: postgresql.Server,
) -> None:
    database = Database(postgresql_server.new_database())
    try:
        with database.read() as connection:
            workers = connection.execute(text("SHOW max_parallel_workers_per_gather")).scalar()
        assert workers == "0"
    finally:
        database.close()
