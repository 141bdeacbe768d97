"""Fixtures: each test with a database runs with SQLite and with PostgreSQL, where its programs are installed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.accounting import postgresql
from volcano.accounting.store.database import Database
from volcano.accounting.store.file_check import sqlite_url


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[postgresql.Server]:
    binaries = postgresql.programs()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed: there is no initdb")
    with postgresql.server(binaries) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "accounting.db")
    server: postgresql.Server = request.getfixturevalue("postgresql_server")
    return server.new_database()


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = Database(database_url)
    yield opened
    opened.close()
