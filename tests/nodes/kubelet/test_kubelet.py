"""The kubelet on a runtime that the test controls."""

from typing import Any

from tests.nodes.kubelet.pods.bench import bench, container
from volcano.kube.api.kinds import LEASE, NODE, POD, Kind
from volcano.kube.api.manifest import Manifest, condition_of


async def test_a_pod_is_prepared_started_and_reported_as_running() -> None:
    async with bench() as it:
        await it.create()
        status = await it.status()
        assert status["phase"] == "Running"
        assert status["podIP"] == "10.88.0.9"
        assert status["hostIP"] == "192.0.2.7"
        entry = await it.container()
        assert entry["ready"] is True
        assert entry["started"] is True
        assert entry["containerID"].startswith("volcano-fake://")
        assert {c["type"]: c["status"] for c in status["conditions"]} == {
            "PodReadyToStartContainers": "True",
            "Initialized": "True",
            "Ready": "True",
            "ContainersReady": "True",
            "PodScheduled": "True",
        }
        assert await it.reasons() == ["Pulled", "Created", "Started"]


async def test_a_pod_that_has_done_its_work_succeeds_and_gives_its_sandbox_back() -> None:
    async with bench() as it:
        pod = await it.create(restartPolicy="Never")
        await it.end("c", 0)
        status = await it.status()
        assert status["phase"] == "Succeeded"
        assert status["containerStatuses"][0]["state"]["terminated"]["reason"] == "Completed"
        assert it.runtime.removed == [pod["metadata"]["uid"]]


async def test_nodes_register_and_keep_their_leases_fresh() -> None:
    async with bench(nodes=2) as it:
        node = await it.cluster.get(NODE, "local-1")
        assert node["status"]["capacity"]["cpu"] == "2"
        assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("volcano-fake://")
        ready = condition_of(node, "Ready")
        assert ready is not None
        assert ready["status"] == "True"
        first = (await it.cluster.get(LEASE, "local-1", "kube-node-lease"))["spec"]["renewTime"]
        await it.pass_time(25, step=5)
        assert (await it.cluster.get(LEASE, "local-1", "kube-node-lease"))["spec"]["renewTime"] > first


async def test_a_deleted_pod_gets_term_then_kill_and_is_removed() -> None:
    async with bench() as it:
        pod = await it.create(terminationGracePeriodSeconds=5)
        it.runtime.stubborn.add("c")
        await it.cluster.delete(POD, "p")
        await it.settle()
        assert it.runtime.signals == [("c", 15)]
        await it.pass_time(4)
        assert it.runtime.signals == [("c", 15)]
        await it.pass_time(2)
        assert it.runtime.signals == [("c", 15), ("c", 9)]
        await it.settle()
        assert await it.cluster.names(POD) == []
        await it.until(lambda: not it.options.pod_directory(pod["metadata"]["uid"]).exists())


async def test_a_failing_container_is_restarted_with_growing_pauses() -> None:
    async with bench() as it:
        await it.create(containers=[container()])
        await it.end("c", 1)
        assert it.runtime.started == ["c#0", "c#1"]
        await it.end("c", 1)
        entry = await it.container()
        assert entry["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert (
            "back-off 10s restarting failed container=c pod=p_default("
            in entry["state"]["waiting"]["message"]
        )
        assert entry["lastState"]["terminated"]["exitCode"] == 1
        assert entry["restartCount"] == 1
        await it.pass_time(9)
        assert it.runtime.started == ["c#0", "c#1"]
        await it.pass_time(2)
        assert it.runtime.started == ["c#0", "c#1", "c#2"]
        assert (await it.status())["phase"] == "Running"


async def test_a_pod_that_starts_at_once_costs_one_write() -> None:
    async with bench(status_delay=0.05) as it:
        patches = 0
        real = it.cluster.client.patch

        async def counted(kind: Kind, *args: Any, **rest: Any) -> Manifest:
            nonlocal patches
            patches += kind == POD
            return await real(kind, *args, **rest)

        it.cluster.client.patch = counted  # type: ignore[method-assign]
        await it.create("q")
        assert (await it.status("q"))["phase"] == "Running"
        assert patches == 1


async def test_a_pod_that_starts_slowly_is_reported_as_creating() -> None:
    async with bench(status_delay=0.05) as it:
        await it.create(volumes=[{"name": "v", "configMap": {"name": "none"}}])
        assert "containerStatuses" not in await it.status()
        await it.pass_time(0.1)
        assert (await it.container())["state"] == {"waiting": {"reason": "ContainerCreating"}}
