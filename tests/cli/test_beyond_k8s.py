"""The commands beyond Volcano against a real kube-apiserver."""

import asyncio
import json
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.cli.conftest import Vcctl
from tests.contracts.clients import real
from tests.k8s.control_plane.cluster import RealCluster
from volcano.kube.api import crds
from volcano.kube.api.errors import AlreadyExists, NotFound
from volcano.kube.api.kinds import CRD, JOB, QUEUE
from volcano.kube.api.manifest import Key, condition_of
from volcano.kube.client.protocol import Client, Query

pytestmark = pytest.mark.k8s


@pytest.fixture
def served(real_apiserver: RealCluster, run_command: Vcctl, monkeypatch: pytest.MonkeyPatch) -> RealCluster:
    """A real server that knows our kinds, and queues `root` and `default`."""
    monkeypatch.setenv("KUBECONFIG", str(real_apiserver.kubeconfig))
    asyncio.run(_with(real_apiserver, _prepare))
    return real_apiserver


async def _with(cluster: RealCluster, work: Any) -> None:
    async with real(cluster) as client:
        await work(client)


async def _prepare(client: Client) -> None:
    for manifest in crds.load():
        try:
            await client.create(CRD, manifest)
        except AlreadyExists:
            continue
    for manifest in crds.load():
        while True:
            found = await client.get(CRD, Key("", manifest["metadata"]["name"]))
            established = condition_of(found, "Established")
            if established is not None and established["status"] == "True":
                break
            await asyncio.sleep(0.05)
    for name in ("root", "default"):
        spec = {"weight": 1, **({"parent": "root"} if name != "root" else {})}
        manifest = {
            "apiVersion": QUEUE.api_version,
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": spec,
        }
        for _ in range(100):
            try:
                await client.create(QUEUE, manifest)
                break
            except AlreadyExists:
                break
            except NotFound:  # established, and not served yet
                await asyncio.sleep(0.1)
    await client.list(QUEUE, Query())


def in_a_moment(cluster: RealCluster, work: Any) -> threading.Thread:
    async def late(client: Client) -> None:
        await asyncio.sleep(0.5)
        await work(client)

    thread = threading.Thread(target=lambda: asyncio.run(_with(cluster, late)))
    thread.start()
    return thread


def test_a_job_is_submitted_waited_for_described_and_completed_by_name(
    served: RealCluster, run_command: Vcctl
) -> None:
    vcctl = run_command
    made = vcctl(
        "submit", "--name", "real", "--workers", "2", "--queue", "default", "--", "python", "train.py"
    )
    assert (made.code, made.out) == (0, "submitted job default/real\n")
    late = vcctl("job", "wait", "real", "--timeout", "300ms")
    assert late.code == 1
    assert "job default/real is not Completed after 300ms: it is Pending" in late.err

    def complete(client: Client) -> Coroutine[Any, Any, Any]:
        status = {"status": {"state": {"phase": "Completed"}}}
        return client.patch(JOB, Key("default", "real"), status, subresource="status")

    thread = in_a_moment(served, complete)
    done = vcctl("job", "wait", "real", "--timeout", "20s")
    thread.join()
    assert (done.code, done.out) == (0, "job default/real is Completed\n")
    told = json.loads(vcctl("job", "describe", "real", "-o", "json").out)
    assert (told["phase"], told["spec"]["replicas"], told["spec"]["queue"]["name"]) == (
        "Completed",
        2,
        "default",
    )
    assert vcctl("__complete", "--", "job", "logs", "re").out == "real\n:4\n"
    followed = vcctl("job", "logs", "-f", "real")
    assert (followed.code, followed.out) == (0, "")
    assert "has no pods yet" in vcctl("job", "logs", "real").err


def test_queues_are_a_tree_and_top_lists_them(served: RealCluster, run_command: Vcctl) -> None:
    tree = run_command("queue", "tree")
    assert tree.code == 0
    assert [line.split()[0] for line in tree.lines[1:2]] == ["root"]
    assert "└─ default" in tree.out
    told = json.loads(run_command("top", "-o", "json").out)
    assert {"root", "default"} <= {queue["name"] for queue in told["queues"]}


def test_what_is_not_there_is_3(served: RealCluster, run_command: Vcctl) -> None:
    for words in (("job", "describe", "none"), ("job", "logs", "none"), ("job", "wait", "none")):
        assert run_command(*words).code == 3
