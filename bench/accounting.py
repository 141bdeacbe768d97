"""Accounting: recording and queries of a million pod runs, in SQLite and, where installed, PostgreSQL."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

from bench.case import Case
from tests.accounting import postgresql
from volcano.accounting.api import Batch, JobRecord, Outcome, Progress, Run, Workload
from volcano.accounting.store.database import Database
from volcano.accounting.store.decay import decayed_usage
from volcano.accounting.store.file_check import sqlite_url
from volcano.accounting.store.queries import JobsQuery, RunsQuery, UsageQuery, jobs, runs, usage
from volcano.accounting.store.recording import Recording

BATCH = 1000
PODS_OF_JOB = 10
NEWEST = 500
DAY = 86_400.0
DAYS = 90
NOW = 1_800_000_000.0
SHAPES = (
    ("", 0.0, {"cpu": 4.0, "memory": 8.0 * 2**30}),
    ("NVIDIA-A100", 1.0, {"cpu": 8.0, "memory": 64.0 * 2**30, "nvidia.com/gpu": 1.0}),
    ("NVIDIA-H100", 8.0, {"cpu": 96.0, "memory": 1024.0 * 2**30, "nvidia.com/gpu": 8.0}),
)


def cases(scale: float) -> Iterator[Case]:
    """Every case, `scale` times a million runs."""
    count = max(int(1_000_000 * scale), 10_000)
    with tempfile.TemporaryDirectory() as directory:
        yield from _cases("SQLite", sqlite_url(Path(directory) / "accounting.db"), count)
    binaries = postgresql.programs()
    if binaries is not None:
        with ExitStack() as stack:
            server = stack.enter_context(postgresql.server(binaries))
            yield from _cases("PostgreSQL", server.new_database(), count)


def _cases(name: str, url: str, count: int) -> Iterator[Case]:
    database = Database(url)
    yield _record(name, database, count)
    yield from query_cases(name, database, count)
    database.close()


def _record(name: str, database: Database, count: int) -> Case:
    recording = Recording(database)
    wall, cpu = time.perf_counter(), time.process_time()
    for batch in _batches(count):
        recording.write(batch)
    seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    metrics = {"runs/s": count / seconds, "run_cpu_us": cpu_seconds / count * 1e6}
    return Case("accounting", f"{name}: record {count} runs", metrics, {"min:runs/s": 2000.0})


def query_cases(name: str, database: Database, count: int) -> Iterator[Case]:
    """Queries of a database with so many runs."""
    whole = UsageQuery(NOW - DAYS * DAY, NOW)
    month = UsageQuery(NOW - 30 * DAY, NOW)
    queries: dict[str, Callable[[], object]] = {
        "usage by queue": lambda: usage(database, whole, NOW),
        "usage by queue and user, 30 days": lambda: usage(
            database, UsageQuery(month.start, month.end, ("queue", "user")), NOW
        ),
        "usage by GPU type": lambda: usage(database, UsageQuery(whole.start, whole.end, ("gpu-type",)), NOW),
        "usage of one user by job": lambda: usage(
            database, UsageQuery(month.start, month.end, ("job",), {"user": "user3"}), NOW
        ),
        f"newest {NEWEST} runs": lambda: runs(database, RunsQuery(whole.start, NOW, limit=NEWEST)),
        f"newest {NEWEST} jobs": lambda: jobs(database, JobsQuery(whole.start, NOW, limit=NEWEST), NOW),
        "decayed usage, 7 days": lambda: decayed_usage(database, 7 * DAY, NOW),
    }
    for title, query in queries.items():
        found = query()  # the first reads the file
        assert not isinstance(found, list) or len(found) == NEWEST, f"{title}: {len(found)} rows"
        started = time.perf_counter()
        query()
        took = time.perf_counter() - started
        targets = (
            {} if title.startswith("decayed") else {"max:seconds": 1.0}
        )  # that one is read at starts only
        yield Case("accounting", f"{name}: {title} of {count} runs", {"seconds": took}, targets)


def _batches(count: int) -> Iterator[Batch]:
    random = Random(1)
    found: list[Run] = []
    records: list[JobRecord] = []
    for number in range(0, count, PODS_OF_JOB):
        gpu_type, gpus, requests = SHAPES[random.randrange(len(SHAPES))]
        job = f"job-{number // PODS_OF_JOB}"
        workload = Workload(
            f"team{random.randrange(8)}",
            f"queue{random.randrange(16)}",
            f"user{random.randrange(64)}",
            job,
            f"uid-{job}",
            "worker",
            gpu_type,
            gpus,
            requests,
        )
        started = NOW - random.random() * DAYS * DAY
        records.append(_job_record(workload, started))
        for pod in range(PODS_OF_JOB):
            ended = min(started + random.expovariate(1 / 7200), NOW)
            found.append(
                Run(
                    f"{random.getrandbits(128):032x}",
                    f"{job}-worker-{pod}",
                    f"node{random.randrange(1000)}",
                    workload,
                    started - random.random() * 600,
                    started,
                    ended,
                    Outcome.COMPLETED,
                )
            )
        if len(found) >= BATCH:
            yield Batch(found, records, progress=Progress(NOW))
            found, records = [], []
    if found:
        yield Batch(found, records, progress=Progress(NOW))


def _job_record(workload: Workload, created: float) -> JobRecord:
    return JobRecord(
        workload.job_uid,
        workload.namespace,
        workload.job,
        workload.queue,
        workload.user,
        created,
        "Completed",
        finished=min(created + 7200, NOW),
        min_available=PODS_OF_JOB,
        tasks={workload.task: PODS_OF_JOB},
    )
