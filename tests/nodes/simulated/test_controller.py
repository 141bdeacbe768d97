"""Simulated nodes update pods as a kubelet does, without running anything."""

import pytest

from tests.cluster import SmallCluster, phases
from volcano.base.clock import Instant
from volcano.kube.api.kinds import LEASE, NODE, POD
from volcano.kube.api.manifest import Key, Manifest, condition_of
from volcano.kube.client.operations import Patch
from volcano.kube.client.protocol import Event, EventType, Options
from volcano.nodes.pools import PoolError, nodes_of, parse_pool, parse_pools
from volcano.nodes.simulated.controller import SimulatedNodes


def nodes(count: int = 1) -> SimulatedNodes:
    return SimulatedNodes(nodes_of(parse_pools([count], ["cpu=4,nvidia.com/gpu=8"])))


def spec(*commands: str, node: str = "node-0", **fields: object) -> Manifest:
    containers = [
        {"name": f"c{place}", "image": "busybox", "command": ["sh", "-c", command]}
        for place, command in enumerate(commands)
    ]
    return {"nodeName": node, "restartPolicy": "Never", "containers": containers, **fields}


async def test_nodes_register_with_what_they_have_and_keep_their_leases_fresh() -> None:
    async with SmallCluster(nodes(2)) as cluster:
        node = await cluster.get(NODE, "node-0")
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        ready = condition_of(node, "Ready")
        assert ready is not None
        assert ready["status"] == "True"
        first = (await cluster.get(LEASE, "node-0", "kube-node-lease"))["spec"]["renewTime"]
        await cluster.pass_time(25)
        assert (await cluster.get(LEASE, "node-0", "kube-node-lease"))["spec"]["renewTime"] > first


async def test_a_pod_is_created_runs_for_its_sleep_and_succeeds() -> None:
    async with SmallCluster(nodes()) as cluster:
        await cluster.create(POD, "p", spec=spec("sleep 5"))
        pod = await cluster.get(POD, "p")
        assert pod["status"]["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
        await cluster.pass_time(1)
        pod = await cluster.get(POD, "p")
        assert pod["status"]["phase"] == "Running"
        assert pod["status"]["podIP"].startswith("10.128.0.")
        assert pod["status"]["containerStatuses"][0]["ready"] is True
        await cluster.pass_time(6)
        pod = await cluster.get(POD, "p")
        assert pod["status"]["phase"] == "Succeeded"
        assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


@pytest.mark.parametrize(
    ("command", "annotations", "phase"),
    [
        pytest.param("sleep 1; exit 3", {}, "Failed", id="the command's exit code counts"),
        pytest.param(
            "serve", {"volcano.sh/sim-duration": "2s"}, "Succeeded", id="an annotation says how long"
        ),
        pytest.param(
            "sleep 1", {"volcano.sh/sim-exit-code": "7"}, "Failed", id="an annotation says with which code"
        ),
        pytest.param("serve", {}, "Running", id="without either it runs for the default duration"),
    ],
)
async def test_how_a_pod_ends(command: str, annotations: dict[str, str], phase: str) -> None:
    async with SmallCluster(nodes()) as cluster:
        await cluster.create(POD, "p", metadata={"annotations": annotations}, spec=spec(command))
        await cluster.pass_time(5)
        assert phases(await cluster.all(POD)) == [phase]


async def test_a_failing_container_is_restarted_with_growing_pauses() -> None:
    async with SmallCluster(nodes()) as cluster:
        await cluster.create(POD, "p", spec=spec("sleep 1; exit 1", restartPolicy="Always"))
        await cluster.pass_time(4)
        status = (await cluster.get(POD, "p"))["status"]["containerStatuses"][0]
        assert status["restartCount"] == 1
        assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert status["lastState"]["terminated"]["exitCode"] == 1
        await cluster.pass_time(10)
        assert (await cluster.get(POD, "p"))["status"]["containerStatuses"][0]["restartCount"] == 2


async def test_init_containers_run_one_after_the_other_before_the_rest() -> None:
    init = [
        {"name": "first", "image": "i", "command": ["sleep", "3"]},
        {"name": "proxy", "image": "i", "restartPolicy": "Always"},
        {"name": "second", "image": "i", "command": ["sleep", "3"]},
    ]
    async with SmallCluster(nodes()) as cluster:
        await cluster.create(POD, "p", spec=spec("sleep 2", initContainers=init))
        await cluster.pass_time(2)
        status = (await cluster.get(POD, "p"))["status"]
        assert status["phase"] == "Pending"
        assert [s["name"] for s in status["initContainerStatuses"] if "running" in s["state"]] == ["first"]
        await cluster.pass_time(3)
        status = (await cluster.get(POD, "p"))["status"]
        assert [s["name"] for s in status["initContainerStatuses"] if "running" in s["state"]] == [
            "proxy",
            "second",
        ]
        await cluster.pass_time(6)
        status = (await cluster.get(POD, "p"))["status"]
        assert status["phase"] == "Succeeded"
        assert all("terminated" in s["state"] for s in status["initContainerStatuses"])


async def test_a_failed_init_container_fails_a_pod_that_never_restarts() -> None:
    init = [{"name": "bad", "image": "i", "command": ["sh", "-c", "exit 2"]}]
    async with SmallCluster(nodes()) as cluster:
        await cluster.create(POD, "p", spec=spec("sleep 1", initContainers=init))
        await cluster.pass_time(2)
        assert phases(await cluster.all(POD)) == ["Failed"]


async def test_a_deleted_pod_may_use_its_grace_and_no_more() -> None:
    slow = {"annotations": {"volcano.sh/sim-stop-duration": "1h"}}
    async with SmallCluster(nodes()) as cluster:
        await cluster.create(POD, "quick", spec=spec("sleep infinity"))
        await cluster.create(POD, "slow", metadata=slow, spec=spec("sleep infinity"))
        await cluster.pass_time(1)
        await cluster.delete(POD, "quick")
        await cluster.delete(POD, "slow", grace=10)
        assert await cluster.names(POD) == ["slow"]
        await cluster.pass_time(11)
        assert await cluster.names(POD) == []


async def test_containers_of_a_deleted_pod_take_a_moment_to_end_unless_it_has_no_grace() -> None:
    delayed = SimulatedNodes(nodes_of(parse_pools([1], [])), stop_delay=1.0)
    async with SmallCluster(delayed) as cluster:
        for name in ("default", "short", "none"):
            await cluster.create(POD, name, spec=spec("sleep infinity"))
        await cluster.pass_time(1)
        await cluster.delete(POD, "none", grace=0)
        await cluster.delete(POD, "default")
        assert await cluster.names(POD) == ["default", "short"]
        await cluster.pass_time(1.1)
        assert await cluster.names(POD) == ["short"]


async def test_a_pod_past_its_deadline_fails() -> None:
    async with SmallCluster(nodes()) as cluster:
        await cluster.create(POD, "p", spec=spec("sleep infinity", activeDeadlineSeconds=5))
        await cluster.pass_time(7)
        status = (await cluster.get(POD, "p"))["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")


async def test_a_restarted_process_carries_on_with_the_pods_it_finds() -> None:
    async with SmallCluster() as cluster:
        first = cluster.start(nodes())
        await cluster.rest()
        await cluster.create(POD, "p", spec=spec("sleep 10"))
        await cluster.pass_time(4)
        first.cancel()
        address = (await cluster.get(POD, "p"))["status"]["podIP"]
        cluster.start(nodes())
        await cluster.rest()
        await cluster.pass_time(3)
        pod = await cluster.get(POD, "p")
        assert (pod["status"]["phase"], pod["status"]["podIP"]) == ("Running", address)
        await cluster.pass_time(5)
        assert phases(await cluster.all(POD)) == ["Succeeded"]


def asking(cpu: str, seconds: float, **resources: str) -> Manifest:
    made = spec(f"sleep {seconds}")
    made["containers"][0]["resources"] = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu, **resources}}
    return made


async def test_a_pod_that_does_not_fit_is_rejected_by_its_node() -> None:
    async with SmallCluster(nodes()) as cluster:
        await cluster.create(POD, "a", spec=asking("3", 5))
        await cluster.create(POD, "b", spec=asking("2", 5))
        await cluster.pass_time(2)
        late = (await cluster.get(POD, "b"))["status"]
        assert (late["phase"], late["reason"]) == ("Failed", "OutOfcpu")
        assert "requested: 2000, used: 3000, capacity: 4000" in late["message"]
        await cluster.pass_time(5)
        await cluster.create(POD, "c", spec=asking("4", 1))  # the first has ended: its capacity is free again
        await cluster.pass_time(3)
        assert phases(await cluster.all(POD)) == ["Succeeded", "Failed", "Succeeded"]


def test_capacity_is_free_as_soon_as_the_watch_reports_the_end_of_a_pod() -> None:
    controller, now = nodes(), Instant(1_800_000_000.0, 0.0)

    def see(name: str, version: int, kind: EventType, **status: str) -> None:
        metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": str(version)}
        manifest = {"metadata": metadata, "spec": asking("3", 100), "status": status}
        controller.on_event(Event(kind, POD, manifest))

    def said() -> list[str]:
        patches = [work.operations[0] for work in controller.step(now) if isinstance(work.key, Key)]
        return [operation.patch["status"]["phase"] for operation in patches if isinstance(operation, Patch)]

    see("a", 1, EventType.ADDED)
    assert said() == ["Pending"]
    see("a", 2, EventType.MODIFIED, phase="Succeeded")  # the response to that write has not arrived yet
    see("b", 3, EventType.ADDED)
    assert said() == ["Pending"]
    see("c", 4, EventType.ADDED)
    assert said() == ["Failed"]


async def test_a_restarted_process_keeps_admitted_and_rejected_pods() -> None:
    async with SmallCluster() as cluster:
        first = cluster.start(nodes())
        await cluster.rest()
        await cluster.create(POD, "first", spec=asking("3", 100))
        await cluster.pass_time(2)
        await cluster.create(POD, "second", spec=asking("3", 100))
        await cluster.pass_time(2)
        first.cancel()
        cluster.start(nodes())
        await cluster.rest()
        await cluster.pass_time(3)
        found = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in await cluster.all(POD)}
        assert found == {"first": "Running", "second": "Failed"}


async def test_what_was_added_to_a_node_counts() -> None:
    async with SmallCluster(nodes()) as cluster:
        added = {"status": {"allocatable": {"example.com/dongle": "1"}}}
        await cluster.client.patch(NODE, Key("", "node-0"), added, subresource="status")
        for name in ("a", "b"):
            await cluster.create(POD, name, spec=asking("1", 5, **{"example.com/dongle": "1"}))
        await cluster.pass_time(2)
        assert phases(await cluster.all(POD)) == ["Running", "Failed"]


async def test_a_pod_of_the_same_name_created_after_deletion_is_independent() -> None:
    async with SmallCluster(nodes()) as cluster:
        await cluster.create(POD, "p", spec=spec("sleep 100"))
        await cluster.pass_time(2)
        await cluster.client.delete(POD, Key("default", "p"), options=Options(grace_seconds=0))
        await cluster.create(POD, "p", spec=spec("sleep 2"))
        await cluster.pass_time(4)
        assert phases(await cluster.all(POD)) == ["Succeeded"]


async def test_a_pod_on_another_node_is_ignored() -> None:
    async with SmallCluster(nodes()) as cluster:
        await cluster.create(POD, "p", spec=spec("sleep 1", node="elsewhere"))
        await cluster.pass_time(3)
        assert phases(await cluster.all(POD)) == ["Pending"]


def test_a_specification_names_resources_labels_and_taints() -> None:
    pool = parse_pool("cpu=32,nvidia.com/gpu=8,label:zone=a,taint:gpu=yes:NoSchedule,count=3,name=gpu")
    assert (pool.name, pool.count, pool.resources["cpu"], pool.resources["nvidia.com/gpu"]) == (
        "gpu",
        3,
        "32",
        "8",
    )
    assert dict(pool.labels) == {"zone": "a"}
    assert [(t.key, t.value, t.effect) for t in pool.taints] == [("gpu", "yes", "NoSchedule")]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("cpu=lots", "not a quantity", id="a quantity that is none"),
        pytest.param("cpu", "resource=quantity", id="no value"),
        pytest.param("taint:gpu=yes:Sometimes", "NoSchedule", id="an effect that is none"),
        pytest.param("count=many", "no number", id="a count that is none"),
    ],
)
def test_a_wrong_specification_says_what_would_be_right(text: str, error: str) -> None:
    with pytest.raises(PoolError, match=error):
        parse_pool(text)


def test_pools_pair_counts_with_specifications() -> None:
    pools = parse_pools([2, 1], ["cpu=1", "cpu=2"])
    assert [(p.name, p.count, p.resources["cpu"]) for p in pools] == [("pool1", 2, "1"), ("pool2", 1, "2")]
