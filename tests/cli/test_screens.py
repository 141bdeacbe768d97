"""Screens at 80 and 200 columns, and in a file, compared with files that were reviewed by eye.

`UPDATE_SCREENS=1 pytest tests/cli/test_screens.py` writes them again; look at the difference before you commit it.
"""

import asyncio
import io
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.cli import fair_shares
from tests.cluster import SmallCluster
from volcano.base.clock import VirtualClock
from volcano.cli.program import parser_of
from volcano.cli.session import Session
from volcano.kube.api.kinds import EVENT, HYPER_NODE, JOB, NODE, POD, POD_GROUP, QUEUE, Kind
from volcano.kube.api.manifest import Key, Manifest
from volcano.services.connection import Connection

SCREENS = Path(__file__).parent / "screens"
COMMANDS = {
    "job-list": "job list",
    "job-list-wide": "job list -o wide",
    "job-describe": "job describe large",
    "queue-list": "queue list",
    "queue-tree": "queue tree",
    "podgroup-list": "podgroup list",
    "podgroup-describe": "podgroup describe large",
    "pod-list": "pod list",
    "pod-list-wide": "pod list -o wide",
    "top-once": "top --once",
    "topology": "topology --pod nvidia.com/gpu=4",
    "topology-nodes": "topology --nodes",
    "priority": "priority",
    "fairshare": "fairshare",
    "vjobs": "vjobs",
    "vqueues": "vqueues",
}
SHORT = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu"


class Output(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


class FixedSession(Session):
    """A session with a given client, clock and width; without colours."""

    def __init__(self, client: Any, clock: VirtualClock, columns: int | None) -> None:
        self.output = Output(columns is not None)
        connection = Connection(client=client, clock=clock, environment={"NO_COLOR": "1"})
        super().__init__(connection, stdout=self.output, stderr=self.output)
        self._columns = columns

    @property
    def namespace(self) -> str:
        return "default"

    @property
    def width(self) -> int:
        return self._columns or 10_000


async def drawn(command: str, columns: int | None) -> str:
    async with SmallCluster() as cluster:
        await fill(cluster)
        if command in ("priority", "fairshare"):
            client = cluster.client = fair_shares.RecordingClient(cluster.registry)
            client.now = cluster.clock.now().wall
            await fair_shares.configure(client)
        cluster.clock.advance(125)
        program, *words = shlex.split(command)
        single = program in ("vjobs", "vqueues")
        parser = parser_of(program if single else "vcctl")
        arguments = parser.parse_args(words if single else [program, *words])
        session = FixedSession(cluster.client, cluster.clock, columns)
        assert await arguments.run(arguments, session) == 0
        text = session.output.getvalue()
        return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


async def fill(cluster: SmallCluster) -> None:
    """Two queues; a running job, one that waits, one that failed; two nodes in a rack each."""

    async def add(kind: Kind, manifest: Manifest, status: Manifest | None = None) -> Manifest:
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **manifest}
        made = await cluster.client.create(kind, whole)
        if status is None:
            return made
        key = Key(made["metadata"].get("namespace", ""), made["metadata"]["name"])
        subresource = "status" if "status" in kind.subresources else ""
        return await cluster.client.patch(kind, key, {"status": status}, subresource=subresource)

    allocatable = {"cpu": "32", "memory": "128Gi", "nvidia.com/gpu": "8", "pods": "110"}
    ready = [{"type": "Ready", "status": "True"}]
    for name in ("gpu-0", "gpu-1"):
        await add(NODE, {"metadata": {"name": name}}, {"allocatable": allocatable, "conditions": ready})
    await add(QUEUE, {"metadata": {"name": "root"}, "spec": {"weight": 1}}, {"state": "Open"})
    held = {"cpu": "4", "memory": "4Gi", "nvidia.com/gpu": "8"}
    await add(
        QUEUE,
        {
            "metadata": {"name": "research"},
            "spec": {"weight": 2, "parent": "root", "capability": {"cpu": "48"}},
        },
        {"state": "Open", "allocated": held},
    )
    await add(
        QUEUE,
        {"metadata": {"name": "teaching"}, "spec": {"weight": 1, "parent": "root"}},
        {"state": "Closed"},
    )
    waiting = [{"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": SHORT}]
    rows: tuple[tuple[str, str, int, str, Manifest, str, Manifest], ...] = (
        ("train", "research", 4, "Running", {"running": 4}, "Running", {"running": 4}),
        ("large", "research", 64, "Pending", {"pending": 64}, "Inqueue", {"conditions": waiting}),
        ("broken-preprocessing", "teaching", 1, "Failed", {"failed": 1, "retryCount": 3}, "Running", {}),
    )
    for name, queue, replicas, phase, counts, group_phase, group_status in rows:
        state = (
            {"phase": phase, "message": "the job failed too often: maxRetry 3"}
            if phase == "Failed"
            else {"phase": phase}
        )
        job = await add(
            JOB,
            {"metadata": {"name": name, "namespace": "default"}, "spec": spec(queue, replicas)},
            {"state": state, "minAvailable": replicas, **counts},
        )
        owner = {
            "apiVersion": JOB.api_version,
            "kind": JOB.kind,
            "name": name,
            "uid": job["metadata"]["uid"],
            "controller": True,
        }
        group = f"{name}-{job['metadata']['uid']}"
        await add(
            POD_GROUP,
            {
                "metadata": {"name": group, "namespace": "default", "ownerReferences": [owner]},
                "spec": {
                    "queue": queue,
                    "minMember": replicas,
                    "minResources": {"nvidia.com/gpu": str(2 * replicas)},
                },
            },
            {"phase": group_phase, **group_status},
        )
        if name == "large":
            await add(EVENT, event(group))
        for index in range(2 if name == "train" else 0):
            await add_pod(cluster, name, index, group)
    tree: tuple[tuple[str, int, str, str, tuple[str, ...]], ...] = (
        ("rack-0", 1, "rack", "Node", ("gpu-0",)),
        ("rack-1", 1, "rack", "Node", ("gpu-1",)),
        ("spine-0", 2, "spine", "HyperNode", ("rack-0", "rack-1")),
    )
    for name, tier, tier_name, kind, below in tree:
        members = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in below]
        domain = {"tier": tier, "tierName": tier_name, "members": members}
        await add(HYPER_NODE, {"metadata": {"name": name}, "spec": domain})


async def add_pod(cluster: SmallCluster, job: str, index: int, group: str) -> None:
    labels = {
        "volcano.sh/job-name": job,
        "volcano.sh/task-spec": "worker",
        "volcano.sh/queue-name": "research",
    }
    annotations = {"scheduling.k8s.io/group-name": group, "volcano.sh/task-index": str(index)}
    container = {
        "name": "main",
        "image": "busybox",
        "resources": {"requests": {"nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "2"}},
    }
    name = f"{job}-worker-{index}"
    await cluster.client.create(
        POD,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": labels, "annotations": annotations},
            "spec": {"containers": [container], "nodeName": f"gpu-{index}"},
        },
    )
    running = {
        "name": "main",
        "ready": True,
        "restartCount": 0,
        "image": "busybox",
        "imageID": "",
        "state": {"running": {}},
    }
    status = {"phase": "Running", "podIP": f"10.88.0.{index + 2}", "containerStatuses": [running]}
    await cluster.client.patch(POD, Key("default", name), {"status": status}, subresource="status")


def event(group: str) -> Manifest:
    return {
        "metadata": {"name": "large.1", "namespace": "default"},
        "involvedObject": {
            "kind": "PodGroup",
            "namespace": "default",
            "name": group,
            "apiVersion": POD_GROUP.api_version,
        },
        "type": "Warning",
        "reason": "Unschedulable",
        "message": SHORT,
        "count": 3,
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "source": {"component": "volcano"},
    }


def spec(queue: str, replicas: int) -> Manifest:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": "2"}}
    container = {"name": "main", "image": "busybox", "command": ["sleep", "600"], "resources": resources}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "queue": queue,
        "minAvailable": replicas,
        "schedulerName": "volcano",
        "maxRetry": 3,
        "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
        "tasks": [{"name": "worker", "replicas": replicas, "template": template}],
    }


@pytest.mark.parametrize("columns", [80, 200, None])
@pytest.mark.parametrize("name", COMMANDS)
def test_screens_are_as_reviewed(name: str, columns: int | None) -> None:
    text = asyncio.run(drawn(COMMANDS[name], columns))
    path = SCREENS / f"{name}.{columns or 'file'}.txt"
    if os.environ.get("UPDATE_SCREENS"):
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("name", [name for name in COMMANDS if "describe" not in name])
def test_tables_fit_the_terminal_with_complete_headers(name: str, columns: int) -> None:
    lines = (SCREENS / f"{name}.{columns}.txt").read_text().splitlines()
    assert max(map(len, lines)) <= columns
    assert "…" not in lines[0]
