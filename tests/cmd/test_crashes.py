"""`volcano up` is killed again and again, while jobs run: nothing acknowledged is lost, and every job ends."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from volcano.base.clock import SystemClock
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import CONFIG_MAP, JOB
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.connect import connect
from volcano.kube.client.http import HttpClient
from volcano.kube.client.kubeconfig import load_client_config
from volcano.kube.client.protocol import Query

KILLS = int(os.environ.get("CLUSTER_KILLS", "30"))
WITHIN = 120.0  # seconds


class Cluster:
    """One data directory, from which `volcano up` is started again after each kill."""

    def __init__(self, place: Path) -> None:
        self.directory = place / "data"
        self._environment = os.environ | {
            "HOME": str(place),
            "XDG_DATA_HOME": "",
            "XDG_RUNTIME_DIR": str(place),
        }
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> HttpClient:
        options = [
            "--no-dashboard",
            "--fake-gpus",
            "1",
            "--runtime",
            "plain",
            "--data-dir",
            str(self.directory),
        ]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "volcano.cmd.volcano", "up", *options],
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert any("is up" in line for line in self._process.stdout), "it did not start"
        return connect(load_client_config({}, kubeconfig=str(self.directory / "kubeconfig")), SystemClock())

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def down(self) -> None:
        command = [sys.executable, "-m", "volcano.cmd.volcano", "down", "--data-dir", str(self.directory)]
        subprocess.run(command, env=self._environment, capture_output=True, timeout=WITHIN, check=True)
        assert self._process is not None
        self._process.wait(WITHIN)
        assert self._process.stdout is not None
        self._process.stdout.close()


def job(name: str) -> Manifest:
    container = {
        "name": "c",
        "image": "none",
        "command": ["sh", "-c", "echo done"],
        "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "10m"}},
    }
    template = {"spec": {"restartPolicy": "OnFailure", "containers": [container]}}
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": 1,
            "tasks": [{"name": "t", "replicas": 1, "template": template}],
        },
    }


async def write_until_killed(client: HttpClient, life: int, acknowledged: dict[str, int]) -> None:
    """Creates a job and then objects, one after the other; keeps the revisions of those that were acknowledged."""
    number = 0
    try:
        await client.create(JOB, job(f"job-{life}"))
        acknowledged[f"job-{life}"] = 0
        while True:
            name = f"life-{life}-{number}"
            manifest = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": "default"},
            }
            created = await client.create(CONFIG_MAP, manifest)
            acknowledged[name] = int(created["metadata"]["resourceVersion"])
            number += 1
            await asyncio.sleep(0.01)
    except (ApiError, OSError):
        return


async def check(client: HttpClient, acknowledged: dict[str, int]) -> None:
    listing = await client.list(CONFIG_MAP, Query(namespace="default"))
    jobs = await client.list(JOB, Query(namespace="default"))
    there = {item["metadata"]["name"] for item in (*listing.items, *jobs.items)}
    assert acknowledged.keys() <= there
    assert int(listing.resource_version) >= max(acknowledged.values(), default=0)


async def until_jobs_end(client: HttpClient, names: set[str]) -> None:
    phases: dict[str, str] = {}
    async with asyncio.timeout(WITHIN):
        while set(phases.values()) != {"Completed"} or phases.keys() != names:
            await asyncio.sleep(0.2)
            found = (await client.list(JOB, Query(namespace="default"))).items
            states = {
                each["metadata"]["name"]: (each.get("status") or {}).get("state") or {} for each in found
            }
            phases = {name: state.get("phase", "") for name, state in states.items()}
            assert "Failed" not in phases.values(), phases


@pytest.mark.slow
@pytest.mark.timeout(60 + 20 * KILLS)
async def test_a_cluster_that_is_killed_loses_nothing_and_ends_every_job(tmp_path: Path) -> None:
    random, acknowledged, cluster = Random(7), dict[str, int](), Cluster(tmp_path)
    for life in range(KILLS):
        client = await asyncio.to_thread(cluster.start)
        await check(client, acknowledged)
        writing = asyncio.create_task(write_until_killed(client, life, acknowledged))
        await asyncio.sleep(random.uniform(0.05, 1.0))
        await asyncio.to_thread(cluster.kill)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await client.close()
    client = await asyncio.to_thread(cluster.start)
    try:
        await check(client, acknowledged)
        await until_jobs_end(client, {name for name in acknowledged if name.startswith("job-")})
    finally:
        await client.close()
        await asyncio.to_thread(cluster.down)
