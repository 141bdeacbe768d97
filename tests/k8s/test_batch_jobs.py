"""batch/v1 Jobs under kube-controller-manager and under our controller: the same statuses for the same events."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.cluster import SmallCluster
from tests.conftest import started
from tests.k8s.test_client import admin
from volcano.controllers.kubernetes.job.controller import BatchJobController
from volcano.kube.api.kinds import BATCH_JOB, POD
from volcano.kube.api.manifest import Key, Manifest, annotations_of, is_deleting
from volcano.kube.client.protocol import Client, Query

pytestmark = pytest.mark.k8s

INDEX = "batch.kubernetes.io/job-completion-index"
Pause = Callable[[float], Awaitable[None]]
POD_SPEC = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}
ON_42 = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
# Each scenario: the spec of a job, and its steps: a change of its spec, or the end of a pod (place, phase, exit code).
SCENARIOS: dict[str, tuple[Manifest, list[Any]]] = {
    "suspended": ({"parallelism": 2}, [{"suspend": True}]),
    "resumed": ({"parallelism": 2}, [{"suspend": True}, {"suspend": False}]),
    "completed": ({"completions": 2, "parallelism": 2}, [(0, "Succeeded", 0), (0, "Succeeded", 0)]),
    "failed": ({"backoffLimit": 0}, [(0, "Failed", 1)]),
    "failed-by-policy": ({"parallelism": 2, "podFailurePolicy": {"rules": [ON_42]}}, [(0, "Failed", 42)]),
    "scaled-down": ({"parallelism": 3}, [{"parallelism": 1}]),
    "indexed": ({"completionMode": "Indexed", "completions": 3, "parallelism": 3}, [(1, "Succeeded", 0)]),
    "failed-indexes": (
        {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimitPerIndex": 0},
        [(0, "Failed", 1), (0, "Succeeded", 0)],
    ),
    "too-many-failed-indexes": (
        {
            "completionMode": "Indexed",
            "completions": 3,
            "parallelism": 3,
            "backoffLimitPerIndex": 0,
            "maxFailedIndexes": 1,
        },
        [(0, "Failed", 1), (0, "Failed", 1)],
    ),
    "success-policy": (
        {
            "completionMode": "Indexed",
            "completions": 3,
            "parallelism": 3,
            "successPolicy": {"rules": [{"succeededCount": 1}]},
        },
        [(2, "Succeeded", 0)],
    ),
}


async def active_pods(client: Client, job: str) -> list[Manifest]:
    pods = (await client.list(POD, Query(namespace="default", labels=f"job-name={job}"))).items
    running = [pod for pod in pods if pod["status"]["phase"] == "Pending" and not is_deleting(pod)]
    return sorted(running, key=lambda pod: (annotations_of(pod).get(INDEX, ""), pod["metadata"]["name"]))


async def end(client: Client, pod: Manifest, phase: str, code: int) -> None:
    terminated = {"exitCode": code, "finishedAt": pod["metadata"]["creationTimestamp"]}
    container = {
        "name": "main",
        "image": "busybox",
        "imageID": "x",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": terminated},
    }
    key = Key("default", pod["metadata"]["name"])
    await client.patch(
        POD, key, {"status": {"phase": phase, "containerStatuses": [container]}}, subresource="status"
    )


async def outcomes(client: Client, pause: Pause) -> dict[str, Any]:
    """The status of each scenario's job at its end, without names and times."""
    for name, (spec, _) in SCENARIOS.items():
        manifest = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"template": {"spec": POD_SPEC}, **spec},
        }
        await client.create(BATCH_JOB, manifest)
    await pause(4)
    for place in range(max(len(steps) for _, steps in SCENARIOS.values())):
        for name, (_, steps) in SCENARIOS.items():
            if place >= len(steps):
                continue
            step = steps[place]
            if isinstance(step, dict):
                await client.patch(BATCH_JOB, Key("default", name), {"spec": step})
            else:
                pods = await active_pods(client, name)
                await end(client, pods[step[0]], step[1], step[2])
        await pause(5)
    found = {}
    for name in SCENARIOS:
        status = (await client.get(BATCH_JOB, Key("default", name)))["status"]
        conditions = [(each["type"], each["status"], each["reason"]) for each in status.pop("conditions", ())]
        times = {part: part in status for part in ("startTime", "completionTime")}
        counts = {part: value for part, value in status.items() if part not in times}
        left = len(await active_pods(client, name))
        found[name] = {"conditions": conditions, **times, "counts": counts, "active pods": left}
    return found


async def test_jobs_end_as_under_kube_controller_manager(tmp_path_factory: pytest.TempPathFactory) -> None:
    for cluster in started(tmp_path_factory, controllers=True):
        async with admin(cluster) as client:
            theirs = await outcomes(client, asyncio.sleep)
    async with SmallCluster(BatchJobController()) as small:
        ours = await outcomes(small.client, small.pass_time)
    for name in SCENARIOS:
        assert ours[name] == theirs[name], name
