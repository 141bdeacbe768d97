"""`volcano config plan`: the effect of another configuration, for a live cluster and for a snapshot."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders import START, job, node, priority_class, queue
from tests.cmd.test_volcano import Shown, say
from tests.scenario import cluster_of
from tests.simulate.test_same_as_cluster import LONG, submit
from volcano.cmd.volcano import main
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.options import ClusterOptions
from volcano.kube.api.kinds import POD
from volcano.nodes.pools import parse_pools
from volcano.scheduler.engine.config import shipped
from volcano.scheduler.snapshot_file import save

__all__ = ["say"]

WITHOUT_SHARES = (
    "actions: enqueue, allocate, backfill\ntiers:\n- plugins: [{name: gang}, {name: predicates}]\n"
)


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    """A full node; a job of high priority and one that fits nowhere wait."""
    low = job("low", 4, min_available=1, cpu=1, on="n1", priority_class="low", preemptable=True)
    cluster = cluster_of(
        nodes=[node("n1", cpu=4)],
        queues=[queue("default"), queue("research", weight=3)],
        jobs=[low, job("high", 2, cpu=1, priority_class="high"), job("never", 1, cpu=64)],
        others=[priority_class("low", 10), priority_class("high", 1000)],
    )
    path = tmp_path / "cluster.snapshot"
    path.write_bytes(save(cluster.snapshot(START, 1), shipped()))
    return str(path)


def test_jobs_that_start_and_pods_that_are_evicted_are_listed(
    snapshot: str, say: Callable[..., Shown]
) -> None:
    data = json.loads(say("config", "plan", "preempt", "--snapshot", snapshot, "-o", "json").out)
    assert data["starting"] == [{"job": "default/high", "queue": "default", "anyway": False}]
    assert len(data["evicted"]) == 2
    assert {each["job"] for each in data["evicted"]} == {"default/low"}
    assert {each["onBehalfOf"] for each in data["evicted"]} == {"default/high"}
    assert (data["changesNothing"], data["waiting"]) == (False, 1)
    shown = say("config", "plan", "preempt", "--snapshot", snapshot)
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert "Jobs that would start:" in lines
    assert "Pods that would be evicted:" in lines
    assert lines[-1] == "1 job waits with both configurations."


def test_the_same_configuration_changes_nothing(snapshot: str, say: Callable[..., Shown]) -> None:
    shown = say("config", "plan", "default", "--snapshot", snapshot)
    assert shown.out.startswith("The new configuration changes nothing now")
    assert json.loads(say("config", "plan", "default", "--snapshot", snapshot, "-o", "json").out)[
        "changesNothing"
    ]


def test_shares_that_change_are_shown_for_each_queue(
    snapshot: str, say: Callable[..., Shown], tmp_path: Path
) -> None:
    path = tmp_path / "new.conf"
    path.write_text(WITHOUT_SHARES)
    shown = say("config", "plan", str(path), "--snapshot", snapshot)
    (cpu,) = [line.split() for line in shown.out.splitlines() if line.split()[:2] == ["default", "cpu"]]
    assert cpu == ["default", "cpu", "4", "-", "4", "4"]


def test_wrong_files_are_explained(snapshot: str, say: Callable[..., Shown], tmp_path: Path) -> None:
    path = tmp_path / "wrong.conf"
    path.write_text("actions: alocate\n")
    shown = say("config", "plan", str(path), "--snapshot", snapshot)
    assert shown.code == 1
    assert "alocate" in shown.err
    shown = say("config", "plan", "preempt", "--snapshot", str(path))
    assert shown.code == 1
    assert "this is not a snapshot" in shown.err
    shown = say("config", "plan", "preempt", "--kubeconfig", str(tmp_path / "none"))
    assert shown.code == 1
    assert "none" in shown.err


async def planned(directory: Path) -> int:
    options = ClusterOptions(directory, durable=False, pools=parse_pools([], ["cpu=4,memory=8Gi,count=1"]))
    async with LocalCluster(options) as cluster:
        await submit(cluster.client, "first", LONG, 1, 3, 1)
        await submit(cluster.client, "second", LONG, 1, 3, 1)
        for _ in range(200):
            pods: list[Any] = (await cluster.client.list(POD)).items
            if sum(bool(pod["spec"].get("nodeName")) for pod in pods if "first" in pod["metadata"]["name"]):
                break
            await asyncio.sleep(0.05)
        words = ["config", "plan", "preempt", "--kubeconfig", str(cluster.kubeconfig), "-o", "json"]
        return await asyncio.to_thread(main, words)


def test_a_live_cluster_is_planned_with_the_configuration_of_its_scheduler(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asyncio.run(planned(tmp_path / "cluster")) == 0
    captured = capsys.readouterr()
    data = json.loads(captured.out[captured.out.index("{") :])
    assert (data["waiting"], data["starting"], data["evicted"]) == (1, [], [])
    default = next(each for each in data["queues"] if each["queue"] == "default")
    assert default["allocated"]["before"]["cpu"] == "3"
    assert captured.err == ""
