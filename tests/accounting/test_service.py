"""The service with a real database: what happened while it was down is recorded when it starts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.accounting import postgresql
from tests.cluster import SmallCluster
from volcano.accounting.api import Outcome, Run, parse_run
from volcano.accounting.service.service import AccountingOptions, AccountingService
from volcano.base.clock import parse_timestamp, timestamp
from volcano.base.metrics import CollectorRegistry, render
from volcano.kube.api.errors import Unavailable
from volcano.kube.api.kinds import JOB, POD
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Options
from volcano.kube.informers.shared_informers import SharedInformerFactory

WITHIN = 400  # steps of the virtual clock, each of which lets the threads of the database work


class Service:
    """The service of a small cluster."""

    def __init__(self, cluster: SmallCluster, url: str, **options: Any) -> None:
        self.cluster = cluster
        self.registry = CollectorRegistry()
        self.service = AccountingService(
            AccountingOptions(url, **options), cluster.clock, lambda: self.registry
        )
        informers = SharedInformerFactory(cluster.client, cluster.clock)
        self.task = asyncio.create_task(self.service.run(cluster.client, informers))

    async def until(self, condition: Any) -> None:
        """Advances the clock until a condition on the recorded runs holds."""
        for _ in range(WITHIN):
            if condition({run.pod: run for run in await self.runs()}):
                return
            await self.pass_time(1)
        raise AssertionError(f"not reached: {await self.runs()}")

    async def pass_time(self, seconds: int) -> None:
        """Advances the clock, slowly enough for the thread that writes."""
        for _ in range(seconds):
            await self.cluster.pass_time(1.0)
            await asyncio.sleep(0.02)

    async def runs(self) -> list[Run]:
        answer = await self.service.respond("runs", "", {})
        return [parse_run(item) for item in answer["items"]]

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.service.close()


@asynccontextmanager
async def recording(cluster: SmallCluster, url: str, **options: Any) -> AsyncIterator[Service]:
    service = Service(cluster, url, **options)
    try:
        yield service
    finally:
        await service.stop()


async def create(cluster: SmallCluster, name: str) -> None:
    spec: Manifest = {
        "schedulerName": "volcano",
        "nodeName": "n1",
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
    }
    await cluster.create(POD, name, spec=spec)


async def report(cluster: SmallCluster, name: str, phase: str, **status: Any) -> None:
    """As a kubelet does."""
    now = cluster.clock.now().wall
    fields = {"phase": phase, "startTime": timestamp(now), **status}
    if phase == "Succeeded":
        del fields["startTime"]
        ended = {"finishedAt": timestamp(now), "exitCode": 0}
        fields["containerStatuses"] = [
            {
                "name": "c",
                "image": "i",
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": ended},
            }
        ]
    await cluster.patch(POD, name, {"status": fields}, "status")


async def test_pods_that_start_end_or_vanish_while_it_is_down_are_recorded_once(database_url: str) -> None:
    async with SmallCluster() as cluster:
        async with recording(cluster, database_url) as service:
            for name in ("ends", "vanishes", "stays"):
                await create(cluster, name)
                await report(cluster, name, "Running")
            await service.until(lambda runs: len(runs) == 3)
            await service.pass_time(40)
        await cluster.pass_time(100)
        await report(cluster, "ends", "Succeeded")
        ended = cluster.clock.now().wall
        await cluster.pass_time(20)
        await cluster.client.delete(POD, Key("default", "vanishes"), options=Options(grace_seconds=0))
        vanished = cluster.clock.now().wall
        await create(cluster, "starts")
        await report(cluster, "starts", "Running")
        started = cluster.clock.now().wall
        await cluster.pass_time(50)
        async with recording(cluster, database_url) as service:
            await service.until(lambda runs: len(runs) == 4 and runs["vanishes"].ended is not None)
            runs = {run.pod: run for run in await service.runs()}
    assert (runs["ends"].outcome, runs["ends"].estimated) == (Outcome.COMPLETED, False)
    assert runs["ends"].ended == pytest.approx(ended, abs=1)
    assert (runs["vanishes"].outcome, runs["vanishes"].estimated) == (Outcome.DELETED, False)
    assert runs["vanishes"].ended == pytest.approx(vanished, abs=1)
    assert runs["stays"].ended is None
    assert runs["starts"].started == pytest.approx(started, abs=1)


async def test_a_pod_that_starts_and_is_deleted_while_it_is_down_is_recorded_once(database_url: str) -> None:
    async with SmallCluster() as cluster:
        async with recording(cluster, database_url) as service:
            await create(cluster, "open")
            await report(cluster, "open", "Running")
            await service.until(lambda runs: len(runs) == 1)
        started = cluster.clock.now().wall
        await create(cluster, "short")
        await report(cluster, "short", "Running")
        await cluster.pass_time(30)
        ended = cluster.clock.now().wall
        for name in ("short", "open"):
            await report(cluster, name, "Succeeded")
        await cluster.pass_time(10)
        for name in ("short", "open"):
            await cluster.client.delete(POD, Key("default", name), options=Options(grace_seconds=0))
        for _ in range(2):  # the second time, nothing is left to record
            async with recording(cluster, database_url) as service:
                await service.until(lambda runs: len(runs) == 2 and runs["open"].ended is not None)
                await service.pass_time(20)
                found = await service.runs()
    runs = {run.pod: run for run in found}
    assert sorted(run.pod for run in found) == ["open", "short"]
    assert runs["short"].started == pytest.approx(started, abs=1)
    for run in found:
        assert run.ended == pytest.approx(ended, abs=1)
        assert (run.outcome, run.estimated) == (Outcome.COMPLETED, False)


async def test_deletions_are_estimated_when_the_history_has_expired(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    async with SmallCluster() as cluster:
        async with recording(cluster, url) as service:
            await create(cluster, "vanishes")
            await report(cluster, "vanishes", "Running")
            await service.until(lambda runs: len(runs) == 1)
            await service.pass_time(40)
            last_seen = cluster.clock.now().wall
        await cluster.pass_time(100)
        await create(cluster, "short")
        await report(cluster, "short", "Running")
        for name in ("vanishes", "short"):
            await cluster.client.delete(POD, Key("default", name), options=Options(grace_seconds=0))
        store = cluster.registry.store
        store.collection(POD.resource).history.trim_all(store.committed_version)
        async with recording(cluster, url) as service:
            await service.until(lambda runs: runs["vanishes"].ended is not None)
            (run,) = await service.runs()
    assert (run.outcome, run.estimated) == (Outcome.UNKNOWN, True)
    assert run.ended is not None
    assert last_seen - 20 <= run.ended <= last_seen + 2


async def test_a_job_that_is_created_and_deleted_while_it_is_down_is_recorded(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    template: Manifest = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec: Manifest = {"queue": "default", "tasks": [{"name": "w", "replicas": 1, "template": template}]}
    async with SmallCluster() as cluster:
        async with recording(cluster, url) as service:
            await cluster.create(JOB, "known", spec=spec)
            await service.pass_time(20)
        await cluster.create(JOB, "short", spec=spec)
        await cluster.pass_time(30)
        await cluster.create(JOB, "stays", spec=spec)
        written_last = cluster.clock.now().wall
        for name in ("known", "short"):
            await cluster.delete(JOB, name)
        async with recording(cluster, url) as service:
            await service.pass_time(20)
            answer = await service.service.respond("jobs", "", {})
    found = {item["name"]: item.get("deleted") for item in answer["items"]}
    assert found.keys() == {"known", "short", "stays"}
    assert found["stays"] is None
    for name in ("known", "short"):
        assert parse_timestamp(found[name]) == pytest.approx(written_last, abs=1)


async def test_answers_include_what_is_not_written_yet(tmp_path: Path) -> None:
    async with SmallCluster() as cluster, recording(cluster, f"sqlite:///{tmp_path}/a.db") as service:
        await create(cluster, "first")
        await report(cluster, "first", "Running")
        await service.until(lambda runs: len(runs) == 1)
        await create(cluster, "second")
        await report(cluster, "second", "Running")
        await report(cluster, "first", "Succeeded")
        await cluster.pass_time(1.0)  # less than between two writes
        found = {run.pod: run for run in await service.runs()}
        assert found.keys() == {"first", "second"}
        assert found["first"].outcome is Outcome.COMPLETED


async def test_totals_of_queues_go_on_after_a_restart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"

    def seconds(service: Service) -> float:
        labels = {"queue": "default", "resource": "cpu"}
        return service.registry.get_sample_value("volcano_queue_resource_seconds_total", labels) or 0.0

    async with SmallCluster() as cluster:
        await create(cluster, "p")
        await report(cluster, "p", "Running")
        begun = cluster.clock.now().wall
        async with recording(cluster, url) as service:
            await service.until(lambda runs: len(runs) == 1)
            await cluster.pass_time(30)
            assert seconds(service) == pytest.approx(cluster.clock.now().wall - begun, abs=1)
        await report(cluster, "p", "Succeeded")
        lasted = cluster.clock.now().wall - begun
        await cluster.pass_time(30)
        async with recording(cluster, url) as service:
            await service.until(lambda runs: runs["p"].ended is not None)
            await cluster.pass_time(30)
            assert seconds(service) == pytest.approx(lasted, abs=1)
            assert b'volcano_queue_resource_seconds_total{queue="default",resource="cpu"}' in render(
                service.registry
            )


async def test_usage_of_the_present_month_is_known_without_reading_the_database_again(tmp_path: Path) -> None:
    async with SmallCluster() as cluster:
        await create(cluster, "p")
        await report(cluster, "p", "Running")
        begun = cluster.clock.now().wall
        async with recording(cluster, f"sqlite:///{tmp_path}/a.db") as service:
            usage = service.service.budget_usage
            await service.until(lambda runs: usage.of("month", cluster.clock.now().wall) is not None)
            await cluster.pass_time(3600, step=600)
            now = cluster.clock.now().wall
            totals = usage.of("month", now)
            assert totals is not None
            assert totals[("default", "cpu")] == pytest.approx(now - begun, abs=1)


async def test_old_runs_are_summed_up_while_it_runs(tmp_path: Path) -> None:
    async with SmallCluster() as cluster:
        await create(cluster, "p")
        await report(cluster, "p", "Running")
        await cluster.pass_time(10)
        await report(cluster, "p", "Succeeded")
        async with recording(cluster, f"sqlite:///{tmp_path}/a.db", retention=7200.0) as service:
            await service.until(lambda runs: len(runs) == 1)
            await cluster.client.delete(POD, Key("default", "p"), options=Options(grace_seconds=0))
            await cluster.pass_time(4 * 3600, step=1800)
            await service.until(lambda runs: not runs)
            month = timestamp(cluster.clock.now().wall - 40 * 86_400)
            answer = await service.service.respond("usage", "", {"from": [month]})
            assert answer["items"][0]["resources"]["cpu"] == pytest.approx(10, abs=1)


async def test_rows_wait_while_the_database_is_not_available(
    postgresql_server: postgresql.Server,
) -> None:
    async with SmallCluster() as cluster, recording(cluster, postgresql_server.new_database()) as service:
        await create(cluster, "before")
        await report(cluster, "before", "Running")
        await service.until(lambda runs: len(runs) == 1)
        await asyncio.to_thread(postgresql_server.restart)  # ends all connections
        await create(cluster, "after")
        await report(cluster, "after", "Running")
        await service.until(lambda runs: len(runs) == 2)


async def test_a_request_is_answered_with_a_reason_when_the_database_is_not_available(tmp_path: Path) -> None:
    async with SmallCluster() as cluster, recording(cluster, f"sqlite:///{tmp_path}/missing/a.db") as service:
        with pytest.raises(Unavailable, match="the accounting database is not available: sqlite"):
            await service.runs()
