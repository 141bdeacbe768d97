"""The documented example manifests run unchanged on simulated nodes and behave as documented."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.test_cluster import cluster, everything, until
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.files import read_files
from volcano.kube.api.kinds import CONFIG_MAP, JOB, POD, POD_GROUP, SECRET, SERVICE
from volcano.kube.api.manifest import Key, Manifest, annotations_of, labels_of
from volcano.kube.client.protocol import Client

MANIFESTS = Path(__file__).parents[1] / "manifests"
FIRST = (
    "prerequisites.yaml",
    "queue-ml-training.yaml",
    "queues-training-inference-dev.yaml",
    "queues-multi-tenant.yaml",
)
ENDLESS = {("default", "mpi-job"), ("default", "spark-job"), ("default", "urgent-training")}
NODES = "cpu=64,memory=512Gi,nvidia.com/gpu=8,count=8"


def found(*names: str) -> list[str]:
    paths = [next(MANIFESTS.rglob(name)) for name in names]
    return [str(path) for path in paths]


async def apply_examples(running: LocalCluster, *names: str) -> None:
    await running.apply(read_files(found(*FIRST, *names)))


def phase_of(client: Client, namespace: str, name: str, *wanted: str) -> Callable[[], Awaitable[object]]:
    async def check() -> bool:
        job = await client.get(JOB, Key(namespace, name))
        return ((job.get("status") or {}).get("state") or {}).get("phase") in wanted

    return check


async def pods_of(client: Client, job: str) -> list[Manifest]:
    pods = await everything(client, POD, labels=f"volcano.sh/job-name={job}")
    return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))


def env_of(pod: Manifest) -> dict[str, Any]:
    return {entry["name"]: entry.get("value") for entry in pod["spec"]["containers"][0].get("env") or ()}


@pytest.mark.slow
async def test_every_example_job_runs(tmp_path: Path) -> None:
    jobs = sorted(path.name for path in MANIFESTS.rglob("job-*.yaml"))
    async with cluster(tmp_path, nodes=NODES, sim_duration=1.0) as running:
        await apply_examples(running, *jobs, "priority-preemption.yaml")
        made = await everything(running.client, JOB)
        assert len(made) >= 9
        for job in made:
            key = (job["metadata"]["namespace"], job["metadata"]["name"])
            wanted = "Running" if key in ENDLESS else "Completed"
            await until(phase_of(running.client, *key, wanted), 60.0)
        await asyncio.sleep(1.0)
        for key in sorted(ENDLESS):
            assert await phase_of(running.client, *key, "Running")()


@pytest.mark.slow
async def test_the_pytorch_gang_is_wired_together(tmp_path: Path) -> None:
    async with cluster(tmp_path, nodes=NODES, sim_duration=3.0) as running:
        await apply_examples(running, "job-torchrun-gang.yaml")
        await until(phase_of(running.client, "ml", "torchrun-gang", "Running"), 30.0)
        pods = {pod["metadata"]["name"]: pod for pod in await pods_of(running.client, "torchrun-gang")}
        assert sorted(pods) == ["torchrun-gang-master-0", "torchrun-gang-worker-0", "torchrun-gang-worker-1"]
        worker = env_of(pods["torchrun-gang-worker-1"])
        assert (worker["MASTER_ADDR"], worker["MASTER_PORT"]) == (
            "torchrun-gang-master-0.torchrun-gang",
            "23456",
        )
        assert (worker["RANK"], worker["WORLD_SIZE"]) == ("2", "3")
        assert env_of(pods["torchrun-gang-master-0"])["RANK"] == "0"
        labels = labels_of(pods["torchrun-gang-worker-0"])
        assert (labels["volcano.sh/task-spec"], labels["volcano.sh/job-name"]) == ("worker", "torchrun-gang")
        (group,) = await everything(running.client, POD_GROUP, namespace="ml")
        assert group["metadata"]["name"].startswith("torchrun-gang-")
        assert (group["spec"]["minMember"], labels_of(group)["volcano.sh/job-name"]) == (3, "torchrun-gang")
        service = await running.client.get(SERVICE, Key("ml", "torchrun-gang"))
        assert service["spec"]["clusterIP"] == "None"
        await until(phase_of(running.client, "ml", "torchrun-gang", "Completed"), 30.0)


@pytest.mark.slow
async def test_the_mpi_gang_has_its_hosts_and_keys(tmp_path: Path) -> None:
    async with cluster(tmp_path, nodes=NODES, sim_duration=3.0) as running:
        await apply_examples(running, "job-mpi-gang.yaml")
        await until(phase_of(running.client, "ml", "mpi-gang", "Running"), 30.0)
        pods = await pods_of(running.client, "mpi-gang")
        hosts = env_of(pods[0])["MPI_HOST"]
        assert hosts == "mpi-gang-mpiworker-0.mpi-gang,mpi-gang-mpiworker-1.mpi-gang"
        secrets = [
            s
            for s in await everything(running.client, SECRET, namespace="ml")
            if "ssh" in s["metadata"]["name"]
        ]
        assert len(secrets) == 1
        assert "id_rsa" in secrets[0]["data"]


@pytest.mark.slow
async def test_the_training_job_knows_its_master_and_its_place(tmp_path: Path) -> None:
    async with cluster(tmp_path, nodes=NODES, sim_duration=3.0) as running:
        await apply_examples(running, "job-distributed-training.yaml")
        await until(phase_of(running.client, "ml-training", "distributed-training", "Running"), 30.0)
        pods = {pod["metadata"]["name"]: pod for pod in await pods_of(running.client, "distributed-training")}
        worker = env_of(pods["distributed-training-worker-2"])
        assert (worker["VK_TASK_INDEX"], worker["VC_TASK_INDEX"]) == ("2", "2")
        assert (worker["VK_TASK_NUM"], worker["VC_TASK_NUM"]) == ("3", "3")
        assert {"VC_MASTER_HOST", "VC_MASTER_HOSTS", "VC_WORKER_NUM"} <= worker.keys()
        maps = await everything(running.client, CONFIG_MAP, namespace="ml-training")
        assert any("svc" in m["metadata"]["name"] for m in maps)
        assert annotations_of(pods["distributed-training-master-0"])["scheduling.k8s.io/group-name"]
