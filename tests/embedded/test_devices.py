"""Dynamic Resource Allocation on a whole cluster: devices of simulated nodes, claims from templates, gangs, queues."""

from pathlib import Path
from typing import Any

import pytest

from tests.embedded.test_cluster import cluster, everything, gang, until
from volcano.kube.api.kinds import (
    DEVICE_CLASS,
    JOB,
    POD,
    QUEUE,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
)
from volcano.kube.api.manifest import Key, Manifest, key_of, uid_of
from volcano.kube.client.protocol import Client, Query
from volcano.nodes.pools import PoolError, parse_pool

CLASS = "gpu.example.com"
NODES = f"cpu=16,dra={CLASS}:2,count=2"


async def template(client: Client, count: int = 1) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": CLASS, "count": count}}
    spec = {"spec": {"devices": {"requests": [request]}}}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "spec": spec}
    await client.create(
        RESOURCE_CLAIM_TEMPLATE, {**body, "metadata": {"name": "gpus", "namespace": "default"}}
    )


def training(name: str, replicas: int, **spec: Any) -> Manifest:
    """A gang whose pods have a claim each."""
    job = gang(name, replicas, **spec)
    pod_spec = job["spec"]["tasks"][0]["template"]["spec"]
    pod_spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]
    pod_spec["containers"][0].setdefault("resources", {})["claims"] = [{"name": "gpu"}]
    return job


async def devices(client: Client) -> list[str]:
    """The allocated devices of all claims."""
    claims = (await client.list(RESOURCE_CLAIM, Query())).items
    results = [
        result
        for claim in claims
        for result in ((claim.get("status") or {}).get("allocation") or {"devices": {"results": []}})[
            "devices"
        ]["results"]
    ]
    return sorted(f"{result['pool']}/{result['device']}" for result in results)


async def running(client: Client) -> list[str]:
    pods = await everything(client, POD, namespace="default")
    return sorted(key_of(pod).name for pod in pods if pod["status"]["phase"] == "Running")


@pytest.mark.slow
async def test_a_gang_with_claims_runs_on_devices_of_its_own_and_releases_them(tmp_path: Path) -> None:
    async with cluster(tmp_path, nodes=NODES, sim_duration=5.0) as local:
        client = local.client

        async def published() -> bool:
            return len(await everything(client, RESOURCE_SLICE)) == 2

        await until(published)
        assert [key_of(each).name for each in await everything(client, DEVICE_CLASS)] == [CLASS]
        await template(client)
        await client.create(JOB, training("train", 4))

        async def all_run() -> bool:
            return len(await running(client)) == 4

        await until(all_run)
        assert await devices(client) == [
            f"node-{node}/device-{number}" for node in range(2) for number in range(2)
        ]
        pods = {uid_of(pod): key_of(pod).name for pod in await everything(client, POD, namespace="default")}
        for claim in await everything(client, RESOURCE_CLAIM):
            (user,) = claim["status"]["reservedFor"]
            assert pods[user["uid"]] == user["name"]

        async def released() -> bool:
            return not await everything(client, RESOURCE_CLAIM)

        await until(released)


async def test_a_gang_that_needs_more_devices_than_there_are_waits_as_a_whole(tmp_path: Path) -> None:
    async with cluster(tmp_path, nodes=NODES, sim_duration=600.0) as local:
        client = local.client
        await template(client)
        await client.create(JOB, training("train", 5))

        async def explained() -> bool:
            pods = await everything(client, POD, namespace="default")
            texts = [
                condition.get("message", "")
                for pod in pods
                for condition in (pod.get("status") or {}).get("conditions") or ()
            ]
            return any(
                "too few free devices of class gpu.example.com for request gpu" in text for text in texts
            )

        await until(explained)
        assert await running(client) == []
        assert await devices(client) == []


async def test_a_queue_gets_no_more_devices_than_its_capability(tmp_path: Path) -> None:
    plugins = "[{name: gang}, {name: predicates}, {name: capacity}]"
    config = f"actions: enqueue, allocate, backfill\ntiers:\n- plugins: {plugins}\n"
    async with cluster(tmp_path, nodes=NODES, sim_duration=600.0, scheduler_conf=config) as local:
        client = local.client
        await template(client)
        spec = {"weight": 1, "capability": {f"deviceclass/{CLASS}": "2"}}
        body = {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": "q"}, "spec": spec}
        await client.create(QUEUE, body)
        for number in range(3):
            await client.create(JOB, training(f"train{number}", 1, queue="q"))

        async def counted() -> bool:
            queue = await client.get(QUEUE, Key("", "q"))
            allocated = (queue.get("status") or {}).get("allocated") or {}
            return bool(allocated.get(f"deviceclass/{CLASS}") == "2") and len(await running(client)) == 2

        await until(counted)
        first = (await running(client))[0]
        await client.delete(JOB, Key("default", first.split("-")[0]))

        async def replaced() -> bool:
            names = await running(client)
            return len(names) == 2 and first not in names

        await until(replaced)


def test_a_pool_with_devices_names_the_driver_and_their_number() -> None:
    assert parse_pool("cpu=8,dra=gpu.example.com:4,dra=nic:2").slices == {"gpu.example.com": 4, "nic": 2}


@pytest.mark.parametrize("text", ["dra=gpu", "dra=gpu:none", "dra=:4", "dra=GPU:2", "dra=gpu:0"])
def test_a_malformed_pool_of_devices_is_rejected(text: str) -> None:
    with pytest.raises(PoolError, match=r"is not of the form driver:number, such as gpu.example.com:8"):
        parse_pool(text)
