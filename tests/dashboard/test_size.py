"""A cluster of 1,000 nodes and 10,000 pods in the browser."""

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.dashboard.cluster import UserCluster, eventually, in_thread
from volcano.base.clock import SystemClock
from volcano.kube.api.fields import at
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.connect import connect
from volcano.kube.client.kubeconfig import load_client_config

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

NODES, JOBS, PODS_OF_A_JOB = 1000, 200, 50
CLUSTER_FLAGS = ("--nodes", str(NODES), "--node", "cpu=32,memory=128Gi")
AT_ONCE = 8
WITHIN = 400.0


@pytest.fixture(scope="module")
def full(cluster: UserCluster) -> UserCluster:
    """10,000 pods that run."""
    in_thread(_create_jobs(cluster))
    eventually(lambda: _running(cluster) == JOBS, f"{JOBS} jobs run", WITHIN)
    return cluster


async def _create_jobs(cluster: UserCluster) -> None:
    client = connect(load_client_config({}, kubeconfig=str(cluster.kubeconfig)), SystemClock())
    limit = asyncio.Semaphore(AT_ONCE)

    async def create(number: int) -> None:
        async with limit:
            await client.create(JOB, _job(f"job-{number:03}"))

    try:
        await asyncio.gather(*map(create, range(JOBS)))
    finally:
        await client.close()


def _job(name: str) -> Manifest:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "2"}}}
    task = {
        "name": "worker",
        "replicas": PODS_OF_A_JOB,
        "template": {"spec": {"containers": [container]}},
    }
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": PODS_OF_A_JOB, "tasks": [task]},
    }


def _running(cluster: UserCluster) -> int:
    listed = cluster.objects("job", "list")["items"]
    return sum(at(job, "status", "state", "phase") == "Running" for job in listed)


def test_every_job_and_node_is_shown(page: "Page", full: UserCluster) -> None:
    page.set_default_timeout(60_000)
    page.goto("/jobs")
    page.get_by_text(f"{JOBS} jobs").wait_for()
    page.goto("/jobs?sort=name&page=4")
    page.get_by_role("link", name="job-199").wait_for()
    page.goto("/nodes")
    page.locator("a.volcano-cell").nth(NODES - 1).wait_for()
    assert page.locator("a.volcano-cell").count() == NODES
    page.goto("/")
    page.get_by_text(f"{JOBS} running").wait_for()


def test_a_change_appears_on_an_open_page(page: "Page", full: UserCluster) -> None:
    page.set_default_timeout(60_000)
    page.goto("/jobs")
    page.get_by_text(f"{JOBS} jobs").wait_for()
    full.submit("another")
    page.get_by_role("link", name="another").wait_for()
