"""Preemption and reclaim with the preempting configuration of the scheduler."""

from pathlib import Path
from typing import Any

import pytest

from tests.embedded.test_cluster import cluster, everything, until
from volcano.kube.api.kinds import JOB, POD, PRIORITY_CLASS, QUEUE
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Client
from volcano.scheduler.engine.config import shipped

pytestmark = pytest.mark.slow

PREEMPTING = {"scheduler_conf": shipped("volcano-scheduler-preempt.conf"), "sim_duration": float("inf")}


def job(name: str, replicas: int, minimum: int, *, queue: str = "default", priority: str = "") -> Manifest:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pod: Manifest = {"containers": [container]}
    spec: Manifest = {"schedulerName": "volcano", "queue": queue, "minAvailable": minimum}
    if priority:
        pod["priorityClassName"] = spec["priorityClassName"] = priority
    spec["tasks"] = [{"name": "w", "replicas": replicas, "minAvailable": minimum, "template": {"spec": pod}}]
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": JOB.api_version, "kind": "Job", "metadata": metadata, "spec": spec}


async def running(client: Client, name: str) -> int:
    pods = await everything(client, POD, labels=f"volcano.sh/job-name={name}")
    return sum(p["status"]["phase"] == "Running" and not p["metadata"].get("deletionTimestamp") for p in pods)


async def expect(client: Client, counts: dict[str, int]) -> None:
    async def reached() -> bool:
        return {name: await running(client, name) for name in counts} == counts

    await until(reached, 30.0)


async def make(client: Client, kind: Any, name: str, **fields: Any) -> None:
    await client.create(
        kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **fields}
    )


async def test_an_urgent_gang_takes_the_place_of_a_lesser_one_as_a_whole(tmp_path: Path) -> None:
    async with cluster(tmp_path, nodes="cpu=2,count=2", **PREEMPTING) as made:
        await make(made.client, PRIORITY_CLASS, "high", value=1000)
        await make(made.client, PRIORITY_CLASS, "low", value=100)
        await made.client.create(JOB, job("experiment", 4, 4, priority="low"))
        await expect(made.client, {"experiment": 4})
        await made.client.create(JOB, job("urgent", 3, 3, priority="high"))
        await expect(made.client, {"urgent": 3, "experiment": 0})


async def test_surplus_replicas_go_before_a_gang_is_broken(tmp_path: Path) -> None:
    async with cluster(tmp_path, nodes="cpu=2,count=2", **PREEMPTING) as made:
        await make(made.client, PRIORITY_CLASS, "high", value=1000)
        await make(made.client, PRIORITY_CLASS, "low", value=100)
        await made.client.create(JOB, job("elastic", 4, 2, priority="low"))
        await expect(made.client, {"elastic": 4})
        await made.client.create(JOB, job("urgent", 2, 2, priority="high"))
        await expect(made.client, {"urgent": 2, "elastic": 2})


async def test_a_queue_borrows_and_gives_back_when_the_owner_comes(tmp_path: Path) -> None:
    async with cluster(tmp_path, nodes="cpu=4,count=2", **PREEMPTING) as made:
        for name in ("a", "b"):
            await make(made.client, QUEUE, name, spec={"weight": 1})
        await made.client.create(JOB, job("borrower", 8, 1, queue="a"))
        await expect(made.client, {"borrower": 8})
        await made.client.create(JOB, job("owner", 4, 4, queue="b"))
        await expect(made.client, {"borrower": 4, "owner": 4})
        # No pod is evicted after that.
        await expect(made.client, {"borrower": 4, "owner": 4})


async def test_a_queue_that_is_not_reclaimable_keeps_what_it_has(tmp_path: Path) -> None:
    async with cluster(tmp_path, nodes="cpu=4,count=2", **PREEMPTING) as made:
        await make(made.client, QUEUE, "a", spec={"weight": 1, "reclaimable": False})
        await make(made.client, QUEUE, "b", spec={"weight": 1})
        await made.client.create(JOB, job("borrower", 8, 1, queue="a"))
        await expect(made.client, {"borrower": 8})
        cycles = made.scheduler.cycles.count
        await made.client.create(JOB, job("owner", 4, 4, queue="b"))

        async def looked() -> bool:
            return made.scheduler.cycles.count > cycles + 3

        await until(looked, 30.0)
        assert await running(made.client, "borrower") == 8
