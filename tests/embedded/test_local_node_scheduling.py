"""Real and simulated nodes in one cluster: who goes where, what the nodes say of themselves, and what stays secret."""

import asyncio
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.program import PLAIN, Cluster, phase, pod_of, skip_unless_possible, status_of, used
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.options import ClusterOptions, LocalNodeOptions
from volcano.kube.api import names
from volcano.kube.api.kinds import NODE, POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.devices import vgpu
from volcano.nodes.pools import parse_pools

PATIENCE = 20.0
SIMULATED = ["cpu=1000,memory=4Ti,name=sim"]


@asynccontextmanager
async def cluster_in(
    directory: Path, *, nodes: int = 1, pools: list[str] | None = None, fake_gpus: int = 0
) -> AsyncIterator[LocalCluster]:
    settings = ClusterOptions(
        directory,
        durable=False,
        pools=parse_pools([2], pools) if pools else [],
        local=LocalNodeOptions(nodes=nodes, runtime="plain", fake_gpus=fake_gpus),
    )
    async with LocalCluster(settings) as cluster:
        yield cluster


async def until(
    cluster: LocalCluster,
    name: str,
    true: Callable[[Manifest], object] = lambda pod: pod["spec"].get("nodeName"),
) -> Manifest:
    async with asyncio.timeout(PATIENCE):
        while True:
            pod = await cluster.client.get(POD, Key("default", name))
            if true(pod):
                return pod
            await asyncio.sleep(0.02)


def asking(name: str, cpu: str, **fields: Any) -> Manifest:
    pod = pod_of(name, "sleep", "1000", **fields)
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return pod


async def test_pods_go_to_the_real_node_first_and_to_simulated_ones_when_it_is_full(tmp_path: Path) -> None:
    async with cluster_in(tmp_path / "c", pools=SIMULATED) as cluster:
        nodes = {node["metadata"]["name"]: node for node in (await cluster.client.list(NODE)).items}
        room = nodes["local-0"]["status"]["allocatable"]["cpu"]
        simulated = nodes["sim-0"]
        taints = [(taint["key"], taint["effect"]) for taint in simulated["spec"]["taints"]]
        assert (names.SIMULATED, "PreferNoSchedule") in taints
        assert names.SIMULATED in simulated["metadata"]["labels"]
        assert names.SIMULATED not in nodes["local-0"]["metadata"].get("labels", {})
        assert not nodes["local-0"]["spec"].get("taints")
        await cluster.client.create(POD, asking("first", room, schedulerName="volcano"))
        assert (await until(cluster, "first"))["spec"]["nodeName"] == "local-0"
        await cluster.client.create(POD, asking("second", room, schedulerName="volcano"))
        assert (await until(cluster, "second"))["spec"]["nodeName"].startswith("sim-")
        chosen = {"nodeSelector": {"kubernetes.io/hostname": "sim-1"}}
        await cluster.client.create(POD, asking("third", "10m", schedulerName="volcano", **chosen))
        assert (await until(cluster, "third"))["spec"]["nodeName"] == "sim-1"


async def test_without_real_nodes_simulated_ones_are_as_they_were(tmp_path: Path) -> None:
    async with cluster_in(tmp_path / "c", nodes=0, pools=SIMULATED) as cluster:
        node = await cluster.client.get(NODE, Key("", "sim-0"))
        assert not node["spec"].get("taints")
        assert cluster.local_nodes is None


async def test_a_host_may_be_several_nodes_that_share_what_it_has(tmp_path: Path) -> None:
    async with cluster_in(tmp_path / "a") as cluster:
        whole = (await cluster.client.get(NODE, Key("", "local-0")))["status"]["capacity"]
    async with cluster_in(tmp_path / "b", nodes=2, fake_gpus=4) as cluster:
        parts = [await cluster.client.get(NODE, Key("", f"local-{n}")) for n in range(2)]
        for part in parts:
            capacity = part["status"]["capacity"]
            assert capacity["nvidia.com/gpu"] == "2"
            assert _milli(capacity["cpu"]) * 2 == pytest.approx(_milli(whole["cpu"]), rel=0.01)
            ready = [each["status"] for each in part["status"]["conditions"] if each["type"] == "Ready"]
            assert ready == ["True"]


def _milli(quantity: str) -> int:
    return int(quantity[:-1]) if quantity.endswith("m") else int(quantity) * 1000


async def test_a_pod_on_this_host_really_runs_and_its_directory_goes_with_it(tmp_path: Path) -> None:
    directory = tmp_path / "c"
    async with cluster_in(directory) as cluster:
        await cluster.client.create(
            POD, pod_of("pod", "sh", "-c", "echo $((6 * 7)) > /dev/termination-log; exit 4")
        )
        pod = await until(cluster, "pod", phase("Failed"))
        ended = status_of(pod)["state"]["terminated"]
        assert (ended["exitCode"], ended["message"]) == (4, "42\n")
        (own,) = (directory / "pods").iterdir()
        await cluster.client.delete(POD, Key("default", "pod"))
        async with asyncio.timeout(PATIENCE):
            while own.exists():
                await asyncio.sleep(0.02)
    assert not (directory / "pods").exists()
    assert [path.name for path in (directory / "shim").iterdir()] == ["shim.log"]


@pytest.mark.slow
def test_the_token_is_for_its_owner_alone_and_in_no_log() -> None:
    with used(skip_unless_possible(PLAIN)) as volcano:
        cluster = Cluster(volcano)
        cluster.up("-vv")
        cluster.create(pod_of("pod", "echo", "hello"))
        cluster.until("pod", phase("Succeeded"))
        assert cluster.log("pod") == "hello\n"
        token = cluster.token
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in cluster.directory.iterdir()}
        for name in ("admin.token", "kubeconfig", "signing.key", "ca.key", "server.key", "cluster.json"):
            assert modes[name] == 0o600, name
        assert stat.S_IMODE(cluster.directory.stat().st_mode) == 0o700
        assert stat.S_IMODE((cluster.directory / "shim").stat().st_mode) == 0o700
        logs = [cluster.directory / "volcano.log", cluster.directory / "shim" / "shim.log"]
        texts = [log.read_text() for log in logs]
        cluster.down()
        texts.append(logs[0].read_text())
        assert "listening" in texts[0], "at -vv there is something to look for a token in"
        assert not any(token in text for text in texts)


async def test_a_gang_shares_one_card_of_this_host(tmp_path: Path) -> None:
    local = LocalNodeOptions(nodes=1, runtime="plain", fake_gpus=2, share_gpus=4)
    async with LocalCluster(ClusterOptions(tmp_path / "c", durable=False, local=local)) as cluster:
        limits = {vgpu.NUMBER: "1", vgpu.MEMORY: "4000"}
        for number in range(4):
            pod = pod_of(f"p{number}", "sh", "-c", "sleep 1", schedulerName="volcano")
            pod["spec"]["containers"][0]["resources"] = {"limits": limits}
            await cluster.client.create(POD, pod)
        pods = [await until(cluster, f"p{n}", phase("Succeeded")) for n in range(4)]
        annotations = [pod["metadata"]["annotations"] for pod in pods]
        assert {each[vgpu.ASSIGNED] for each in annotations} == {"0,NVIDIA,4000,0:"}
        assert {each[vgpu.BIND_PHASE] for each in annotations} == {"success"}


async def test_pods_share_the_cards_of_simulated_nodes(tmp_path: Path) -> None:
    text = "nvidia.com/gpu=2,vgpu=10,gpu-memory=16000Mi,gpu-type=A100,name=sim"
    settings = ClusterOptions(tmp_path / "c", durable=False, pools=parse_pools([1], [text]))
    async with LocalCluster(settings) as cluster:
        for number in range(3):
            pod = pod_of(f"p{number}", "sleep", "1000", schedulerName="volcano")
            pod["spec"]["containers"][0]["resources"] = {"limits": {vgpu.NUMBER: "1", vgpu.MEMORY: "8000"}}
            await cluster.client.create(POD, pod)
        pods = [await until(cluster, f"p{n}", phase("Running")) for n in range(3)]
        cards = [pod["metadata"]["annotations"][vgpu.ASSIGNED].partition(",")[0] for pod in pods]
        assert sorted(cards.count(card) for card in set(cards)) == [1, 2]


async def test_pods_get_the_gpus_of_their_claims(tmp_path: Path) -> None:
    local = LocalNodeOptions(nodes=1, runtime="plain", fake_gpus=2, dra=True)
    async with LocalCluster(ClusterOptions(tmp_path / "c", durable=False, local=local)) as cluster:
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
        template = {
            "metadata": {"name": "one", "namespace": "default"},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        }
        await cluster.client.create(RESOURCE_CLAIM_TEMPLATE, template)
        claims = [{"name": "own", "resourceClaimTemplateName": "one"}]
        for number in range(2):
            pod = pod_of(
                f"p{number}", "sh", "-c", "echo card=$NVIDIA_VISIBLE_DEVICES; sleep 1000",
                schedulerName="volcano", resourceClaims=claims,
            )  # fmt: skip
            pod["spec"]["containers"][0]["resources"] = {
                "requests": {"cpu": "10m"},
                "claims": [{"name": "own"}],
            }
            await cluster.client.create(POD, pod)
        pods = [await until(cluster, f"p{n}", phase("Running")) for n in range(2)]
        assert cluster.local_nodes is not None
        assert {pod["spec"]["nodeName"] for pod in pods} == {"local-0"}
        found = (await cluster.client.list(RESOURCE_CLAIM)).items
        held = [claim["status"]["allocation"]["devices"]["results"][0]["device"] for claim in found]
        assert sorted(held) == ["gpu-0", "gpu-1"]
        found_paths = [cluster.local_nodes.locate(pod).log_path("main") for pod in pods]  # type: ignore[union-attr]
        paths = [path for path in found_paths if path is not None]
        for _ in range(100):  # the output comes after the start
            if all(path.exists() and path.read_text() for path in paths):
                break
            await asyncio.sleep(0.1)
        assert sorted(path.read_text().split()[-1] for path in paths) == ["card=0", "card=1"]
