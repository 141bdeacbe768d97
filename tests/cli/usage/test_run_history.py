"""Expected starts use runs that accounting recorded, where it answers."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.estimate.test_recorded_runs import STATE, past
from tests.builders import START
from tests.cli.usage.database import AccountingClient
from volcano.accounting.api import Batch
from volcano.accounting.store.database import Database
from volcano.accounting.store.file_check import sqlite_url
from volcano.accounting.store.recording import Recording
from volcano.analysis.estimate.run_history import RunHistory
from volcano.base.clock import VirtualClock
from volcano.services import run_history

JOBS = 7


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(sqlite_url(tmp_path / "runs.db"))
    Recording(opened).write(Batch([run for n in range(JOBS) for run in past(n, 600.0 + n, pods=2)]))
    yield opened
    opened.close()


def read(database: Database | None) -> RunHistory:
    client: Any = AccountingClient(database)
    return asyncio.run(run_history.read_run_history(client, VirtualClock(START), STATE.snapshot()))


def test_runs_of_deleted_jobs_are_part_of_the_history(database: Database) -> None:
    ((_, seconds),) = read(database).runs.items()
    assert seconds == pytest.approx([600.0 + n for n in range(JOBS)])


def test_without_accounting_the_pods_of_the_cluster_tell() -> None:
    assert read(None).runs == {}


def test_a_job_whose_pods_are_not_all_among_the_newest_runs_is_left_out(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_history, "MOST_RUNS", 5)
    ((key, seconds),) = read(database).runs.items()
    assert key.shape[0][0] == 2
    assert seconds == pytest.approx([600.0 + JOBS - 2, 600.0 + JOBS - 1])
