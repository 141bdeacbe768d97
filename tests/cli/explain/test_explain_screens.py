"""Screens of `vcctl explain`, compared with files that were reviewed by eye.

`UPDATE_SCREENS=1 pytest tests/cli/explain` writes them again; look at the difference before you commit it.
"""

import os
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.builders import START, JobManifests, job, node, priority_class, queue, resources
from tests.cli.test_screens import FixedSession
from tests.cluster import SmallCluster
from tests.scenario import schedule
from volcano.analysis.explain.tables import SHARE_COLUMNS
from volcano.base.clock import timestamp
from volcano.base.http.client_connection import Reply
from volcano.base.http.messages import Request
from volcano.cli.program import parser_of
from volcano.kube.api.errors import NotFound
from volcano.kube.api.kinds import CONFIG_MAP, NAMESPACE, NODE, POD, POD_GROUP, PRIORITY_CLASS, QUEUE
from volcano.kube.api.manifest import Key, Manifest
from volcano.scheduler.engine.config import PRESETS, shipped
from volcano.scheduler.history.cycle_history import CycleHistory
from volcano.scheduler.history.endpoint import API_SERVER_PATH, respond

SCREENS = Path(__file__).parent / "screens"
ALICE, BOB = {"volcano.sh/user": "alice"}, {"volcano.sh/user": "bob"}
WORKER: dict[str, Any] = {"gpu": 2, "cpu": 4, "memory": "4Gi"}
WAITS = {
    "type": "Unschedulable",
    "status": "True",
    "reason": "InsufficientResources",
    "message": "4/4 tasks in gang unschedulable",
    "lastTransitionTime": timestamp(START - 540),
}
COMMANDS = {
    "job-waiting": "explain job large",
    "job-never": "explain job never",
    "job-policy": "explain job behind",
    "job-running": "explain job train",
    "job-verbose": "explain job large -v nodes -v scores -v victims -v plugins",
    "job-past": "explain job large --cycle 1",
    "pod-running": "explain pod train-worker-0",
    "pod-waiting": "explain pod large-worker-0",
    "pod-evicted": "explain pod old-worker-3",
    "queue": "explain queue research",
    "node": "explain node gpu-0",
    "cluster": "explain cluster",
    "cluster-past": "explain cluster --cycle 1",
    "cycles": "explain cycle",
    "cycle": "explain cycle 1",
}


def jobs() -> list[JobManifests]:
    """A job that runs, one that waits for GPUs, one that never fits, and one behind the limit of its queue."""
    alice: dict[str, Any] = {"queue": "research", "group": {"annotations": ALICE}}
    bob: dict[str, Any] = {"queue": "research", "group": {"annotations": BOB}}
    return [
        job("train", 3, on=["gpu-0", "gpu-1", "gpu-1"], age=900, **WORKER, **alice),
        job(
            "large", 4, age=600, **WORKER, queue="research", group={"annotations": BOB, "conditions": [WAITS]}
        ),
        job("second", 6, age=300, **WORKER, **alice),
        job("never", 2, cpu=64, age=200, **bob),
        job("holder", 2, queue="teaching", on=["cpu-0", "cpu-0"], age=800, group={"annotations": BOB}),
        job("behind", 1, queue="teaching", age=100, group={"annotations": BOB}),
    ]


def nodes() -> list[Manifest]:
    return [
        *(node(f"gpu-{i}", 16, "64Gi", gpu=4) for i in range(2)),
        node("cpu-0", 8, "32Gi"),
        node("old-0", 8, "32Gi", unschedulable=True),
    ]


def queues() -> list[Manifest]:
    return [queue("default"), queue("research", 3), queue("teaching", capability=resources(cpu=2))]


def history() -> CycleHistory:
    """Two cycles: the jobs wait, then an urgent one preempts."""
    kept = CycleHistory()
    first = schedule(nodes=nodes(), queues=queues(), jobs=jobs())
    kept.record(first.outcome, first.snapshot, first.decisions, 0.012)
    old = job("old", 4, on="n1", priority_class="low", min_available=1)
    second = schedule(
        now=START + 60,
        nodes=[node("n1")],
        jobs=[old, job("urgent", priority_class="high")],
        others=[priority_class("low", 1), priority_class("high", 100)],
        actions=("enqueue", "allocate", "preempt", "backfill"),
    )
    kept.record(second.outcome, second.snapshot, second.decisions, 0.007)
    return kept


class ClientWithHistory:
    """A client whose server also answers about cycles, as that of `volcano up` does."""

    def __init__(self, client: Any, kept: CycleHistory) -> None:
        self._client = client
        self._kept = kept

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def raw(self, method: str, target: str) -> Reply:
        path, _, parameters = target.partition("?")
        if path != API_SERVER_PATH:
            raise NotFound("no such path")
        query = {
            name: [value]
            for name, _, value in (each.partition("=") for each in parameters.split("&") if each)
        }
        query = {name: [value[0].replace("%2F", "/")] for name, value in query.items()}
        response = respond(self._kept, Request(method, path, query))
        assert response.status == 200, response.body
        return Reply(200, {}, response.body)


async def fill(cluster: SmallCluster) -> None:
    async def add(kind: Any, manifest: Manifest) -> None:
        dropped = ("uid", "resourceVersion", "creationTimestamp")
        metadata = {name: value for name, value in manifest["metadata"].items() if name not in dropped}
        made = await cluster.client.create(kind, {**manifest, "metadata": metadata})
        if manifest.get("status"):
            key = Key(made["metadata"].get("namespace", ""), made["metadata"]["name"])
            subresource = "status" if "status" in kind.subresources else ""
            await cluster.client.patch(kind, key, {"status": manifest["status"]}, subresource=subresource)

    await cluster.client.create(
        NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "volcano-system"}}
    )
    conf = {"volcano-scheduler.conf": shipped(PRESETS["preempt"])}
    config_map = {
        "metadata": {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"},
        "data": conf,
    }
    await cluster.client.create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", **config_map})
    await add(PRIORITY_CLASS, priority_class("high", 1000))
    for manifest in nodes():
        await add(NODE, manifest)
    for manifest in queues():
        await add(QUEUE, manifest)
    for each in jobs():
        await add(POD_GROUP, each.group)
        for pod in each.pods:
            for container in pod["spec"]["containers"]:  # devices cannot be overcommitted
                container["resources"]["limits"] = dict(container["resources"]["requests"])
            await add(POD, pod)
        cluster.clock.advance(1)


async def drawn(command: str, columns: int | None, *, client: Any = None) -> str:
    async with SmallCluster() as cluster:
        await fill(cluster)
        cluster.clock.advance(120)
        session = FixedSession(client or ClientWithHistory(cluster.client, history()), cluster.clock, columns)
        arguments = parser_of("vcctl").parse_args(shlex.split(command))
        assert await arguments.run(arguments, session) == 0
        text = session.output.getvalue()
        return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


@pytest.mark.parametrize("columns", [80, 140])
@pytest.mark.parametrize("name", COMMANDS)
async def test_screens_are_as_reviewed(name: str, columns: int) -> None:
    text = await drawn(COMMANDS[name], columns)
    path = SCREENS / f"{name}.{columns}.txt"
    if os.environ.get("UPDATE_SCREENS"):
        path.write_text(text)
    assert text == path.read_text()
    longest = max(map(len, text.splitlines()))
    assert longest <= columns, f"{longest} columns"


def test_amounts_of_a_division_are_rounded_for_people() -> None:
    row = SimpleNamespace(resource="memory", cluster="128Gi", by_weight="91625968981", limit="none")
    cells = {column.header: column.value for column in SHARE_COLUMNS}
    assert [cells[name](row) for name in ("CLUSTER", "BY WEIGHT", "LIMIT")] == ["128Gi", "85.3Gi", "none"]
    assert cells["BY WEIGHT"](SimpleNamespace(resource="cpu", by_weight="21333m")) == "21.3"
