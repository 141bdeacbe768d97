"""A session whose accounting requests are answered from a database of some runs."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson

from tests.accounting.builders import HOUR, START, run
from tests.cli.test_screens import FixedSession
from volcano.accounting.api import ROOT, Batch, JobRecord, Outcome, Progress
from volcano.accounting.store.database import Database
from volcano.accounting.store.file_check import sqlite_url
from volcano.accounting.store.recording import Recording
from volcano.accounting.store.requests import answer
from volcano.base.clock import VirtualClock
from volcano.cli.program import parser_of
from volcano.kube.api.errors import NotFound
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Key

NOW = START + 10 * HOUR  # 2027-01-15T18:00:00Z


class AccountingClient:
    """Answers requests as the API server does; no other object exists."""

    def __init__(self, database: Database | None) -> None:
        self._database = database

    async def raw(self, method: str, target: str) -> Any:
        assert method == "GET"
        if self._database is None:
            raise NotFound("the server could not find the requested resource")
        parts = urlsplit(target)
        words = parts.path.removeprefix(ROOT).strip("/").split("/")
        namespace = words[1] if words[0] == "namespaces" else ""
        found = answer(self._database, words[-1], namespace, parse_qs(parts.query), NOW)
        return SimpleNamespace(body=orjson.dumps(found))

    async def get(self, kind: Kind, key: Key) -> Any:
        raise NotFound("gone", name=key.name)

    async def list(self, kind: Kind, query: Any) -> Any:
        return SimpleNamespace(items=[])


def filled(path: Path) -> Database:
    """A week of three users in two queues."""
    database = Database(sqlite_url(path))
    gpu = {"cpu": 8.0, "memory": 64.0 * 2**30, "nvidia.com/gpu": 1.0}
    eight = {"cpu": 96.0, "memory": 512.0 * 2**30, "nvidia.com/gpu": 8.0}
    plain = {"cpu": 4.0, "memory": 8.0 * 2**30}
    large = {"job": "pretrain", "job_uid": "job-2", "gpu_type": "H100", "gpus": 8.0, "requests": eight}
    rows = [
        run("a0", hours=6, requests=gpu, at=START),
        run(
            "a1",
            hours=2.5,
            requests=gpu,
            at=START,
            outcome=Outcome.EVICTED,
            reason="PreemptionByScheduler",
            evictions=1,
        ),
        run("a2", requests=gpu, at=START + 9 * HOUR),
        run("b0", hours=30, at=START - 72 * HOUR, user="bob", queue="production", **large),
        run(
            "c0",
            hours=3,
            user="",
            queue="production",
            job="etl",
            job_uid="job-3",
            gpu_type="",
            gpus=0.0,
            requests=plain,
        ),
    ]
    jobs = [
        JobRecord(
            "job-1",
            "team",
            "train",
            "research",
            "jane",
            START - 60,
            "Running",
            min_available=2,
            tasks={"worker": 2},
        ),
        JobRecord(
            "job-2",
            "team",
            "pretrain",
            "production",
            "bob",
            START - 73 * HOUR,
            "Completed",
            finished=START - 42 * HOUR,
            deleted=START - 20 * HOUR,
            min_available=1,
            tasks={"worker": 1},
        ),
        JobRecord(
            "job-3",
            "other",
            "etl",
            "production",
            "",
            START - 60,
            "Failed",
            finished=NOW,
            message="Job failed",
        ),
    ]
    Recording(database).write(Batch(rows, jobs, Progress(NOW)))
    return database


def printed(database: Database | None, words: list[str], columns: int | None = None) -> str:
    """What a command prints, errors included; raises its errors."""
    clock = VirtualClock(NOW)
    session = FixedSession(AccountingClient(database), clock, columns)
    arguments = parser_of("vcctl").parse_args(words)
    assert asyncio.run(arguments.run(arguments, session)) == 0
    return "\n".join(line.rstrip() for line in session.output.getvalue().splitlines()) + "\n"
