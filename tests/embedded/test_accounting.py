"""Accounting of `volcano up`: recorded while it runs, served by its API server, kept across restarts."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from volcano.accounting.api import KINDS
from volcano.apiserver.endpoints.discovery import aggregated, grouped
from volcano.base.clock import SystemClock
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.options import ClusterOptions
from volcano.kube.api.errors import MethodNotAllowed, NotFound
from volcano.kube.api.kinds import JOB, POD, POD_GROUP, QUEUE
from volcano.kube.api.manifest import Key, Manifest, annotations_of
from volcano.kube.api.names import JOB_NAME
from volcano.kube.client.connect import connect
from volcano.kube.client.kubeconfig import load_client_config
from volcano.kube.client.protocol import Client, Options, Query
from volcano.nodes.pools import parse_pools

pytestmark = pytest.mark.slow

ROOT = "/apis/accounting.volcano.sh/v1alpha1"
WITHIN = 60.0


def options(directory: Path, **more: Any) -> ClusterOptions:
    return ClusterOptions(directory, pools=parse_pools([2], []), **more)


def job(name: str, queue: str = "default", seconds: str = "1s") -> Manifest:
    template = {
        "metadata": {"annotations": {"volcano.sh/sim-duration": seconds}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
        },
    }
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"queue": queue, "tasks": [{"name": "w", "replicas": 2, "template": template}]},
    }


class Users:
    """A user's client of a cluster."""

    def __init__(self, cluster: LocalCluster) -> None:
        settings = load_client_config({}, kubeconfig=str(cluster.kubeconfig))
        self.client = connect(settings, clock=SystemClock())

    async def get(self, target: str) -> Any:
        return orjson.loads((await self.client.raw("GET", ROOT + target)).body)

    async def until(self, target: str, condition: Callable[[Any], bool]) -> Any:
        async with asyncio.timeout(WITHIN):
            while True:
                found = await self.get(target)
                if condition(found["items"]):
                    return found["items"]
                await asyncio.sleep(0.1)


async def phase(client: Client, name: str, wanted: str) -> None:
    async with asyncio.timeout(WITHIN):
        while True:
            found = await client.get(JOB, Key("default", name))
            if ((found.get("status") or {}).get("state") or {}).get("phase") == wanted:
                return
            await asyncio.sleep(0.1)


async def test_usage_and_deleted_jobs_survive_a_restart(tmp_path: Path) -> None:
    async with LocalCluster(options(tmp_path)) as cluster:
        user = Users(cluster)
        await user.client.create(JOB, job("train"))
        made = await user.client.get(JOB, Key("default", "train"))
        assert annotations_of(made)["volcano.sh/user"] == "kubernetes-admin"
        ended = await user.until(
            "/runs", lambda items: [each["outcome"] for each in items] == ["Completed"] * 2
        )
        assert {(each["job"], each["user"], each["queue"]) for each in ended} == {
            ("train", "kubernetes-admin", "default")
        }
        await user.client.delete(JOB, Key("default", "train"), options=Options(propagation="Background"))
        await user.until("/namespaces/default/jobs", lambda items: items[0]["deleted"] is not None)
        await user.client.close()
    async with LocalCluster(options(tmp_path)) as cluster:
        user = Users(cluster)
        (record,) = (await user.get("/jobs"))["items"]
        assert (record["name"], record["usage"]["runs"]) == ("train", 2)
        (row,) = (await user.get("/usage?by=user"))["items"]
        assert row["group"] == {"user": "kubernetes-admin"}
        with pytest.raises(MethodNotAllowed):
            await user.client.raw("POST", f"{ROOT}/usage")
        with pytest.raises(NotFound):
            await user.get("/bills")
        await user.client.close()


async def test_pods_deleted_while_nothing_is_recorded_are_found_after_restarts(tmp_path: Path) -> None:
    async with LocalCluster(options(tmp_path)) as cluster:
        user = Users(cluster)
        await user.client.create(JOB, job("known"))
        await user.until("/runs", lambda items: [each["outcome"] for each in items] == ["Completed"] * 2)
        await user.client.close()
    async with LocalCluster(options(tmp_path, accounting_database="none")) as cluster:
        await cluster.client.create(JOB, job("unseen"))
        await phase(cluster.client, "unseen", "Completed")
        await cluster.client.delete(JOB, Key("default", "unseen"), options=Options(propagation="Background"))
        async with asyncio.timeout(WITHIN):
            while (await cluster.client.list(POD, Query(labels=f"{JOB_NAME}=unseen"))).items:
                await asyncio.sleep(0.1)
    async with LocalCluster(options(tmp_path)) as cluster:
        user = Users(cluster)
        found = await user.until("/runs", lambda items: len(items) == 4)
        assert {(each["job"], each["outcome"], each["estimated"]) for each in found} == {
            ("known", "Completed", False),
            ("unseen", "Completed", False),
        }
        jobs = await user.until("/jobs", lambda items: len(items) == 2)
        assert {each["name"]: each["deleted"] is not None for each in jobs} == {
            "known": False,
            "unseen": True,
        }
        await user.client.close()


async def test_without_a_database_nothing_is_served(tmp_path: Path) -> None:
    async with LocalCluster(options(tmp_path, accounting_database="none", durable=False)) as cluster:
        user = Users(cluster)
        with pytest.raises(NotFound):
            await user.get("/usage")
        await user.client.close()
        assert not (tmp_path / "accounting").exists()


@pytest.mark.slow
async def test_new_jobs_wait_when_the_budget_of_their_queue_is_used_up(tmp_path: Path) -> None:
    async with LocalCluster(options(tmp_path, durable=False)) as cluster:
        client = cluster.client
        notes = {"volcano.sh/budget": "cpu=0.001h/day", "volcano.sh/budget-action": "block"}
        queue = {"metadata": {"name": "small", "annotations": notes}, "spec": {"weight": 1}}
        await client.create(QUEUE, {"apiVersion": QUEUE.api_version, "kind": QUEUE.kind, **queue})
        await client.create(JOB, job("first", "small", "3s"))
        await phase(client, "first", "Completed")
        async with asyncio.timeout(WITHIN):
            while True:
                status = (await client.get(QUEUE, Key("", "small"))).get("status") or {}
                if any(
                    c["type"] == "BudgetExhausted" and c["status"] == "True"
                    for c in status.get("conditions") or ()
                ):
                    break
                await asyncio.sleep(0.2)
        await client.create(JOB, job("second", "small"))
        async with asyncio.timeout(WITHIN):
            while True:
                groups = (await client.list(POD_GROUP)).items
                messages = [
                    condition["message"]
                    for group in groups
                    if group["metadata"]["name"].startswith("second-")
                    for condition in (group.get("status") or {}).get("conditions") or ()
                ]
                if any("the budget cpu=0.001h/day is used up" in message for message in messages):
                    break
                await asyncio.sleep(0.2)


async def test_discovery_lists_the_group(tmp_path: Path) -> None:
    names = {"usage", "runs", "jobs", "decayedusage"}
    async with LocalCluster(options(tmp_path)) as cluster:
        client = Users(cluster).client
        found = orjson.loads((await client.raw("GET", "/apis")).body)
        versions = {group["name"]: group["preferredVersion"]["groupVersion"] for group in found["groups"]}
        assert versions["accounting.volcano.sh"] == "accounting.volcano.sh/v1alpha1"
        listed = orjson.loads((await client.raw("GET", ROOT)).body)["resources"]
        assert {each["name"]: each["verbs"] for each in listed} == {name: ["list"] for name in names}
        assert [each["name"] for each in listed if not each["namespaced"]] == ["decayedusage"]
        await client.close()
    (group,) = aggregated(grouped(KINDS), "v2")["items"]  # what kubectl reads, from the same kinds
    assert {each["resource"] for each in group["versions"][0]["resources"]} == names


async def test_discovery_lists_no_group_without_accounting(tmp_path: Path) -> None:
    async with LocalCluster(options(tmp_path, accounting_database="none")) as cluster:
        client = Users(cluster).client
        with pytest.raises(NotFound):
            await client.raw("GET", ROOT)
        await client.close()
