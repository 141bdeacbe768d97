"""A starting kubelet adopts the pods of an earlier one."""

from pathlib import Path
from typing import Any

from tests.nodes.kubelet.pods.bench import KubeletBench, bench, container
from volcano.kube.api.kinds import CONFIG_MAP, EVENT, POD
from volcano.kube.api.manifest import owner_reference


async def test_a_running_pod_is_adopted_unchanged() -> None:
    async with bench() as it:
        await it.create(containers=[container(readinessProbe={"exec": {"command": ["ok"]}})])
        await it.pass_time(2)
        before = await it.pod()
        await it.stop()
        await it.begin()
        assert (await it.pod())["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        assert it.runtime.started == ["c#0"]
        located = it.kubelet.locate_pod(before)
        assert located is not None
        assert located.running == {"c"}
        assert located.log_path("c") == it.options.log_path(located.uid, "c", 0)
        assert located.log_path("c", previous=True) is None


async def test_an_exit_during_a_restart_is_handled_afterwards() -> None:
    async with bench() as it:
        await it.create(restartPolicy="Never")
        await it.stop()
        it.runtime.end("c", 42)
        await it.begin()
        await it.settle()
        status = await it.status()
        assert status["phase"] == "Failed"
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 42


async def test_restarts_and_back_off_go_on_where_they_were() -> None:
    async with bench() as it:
        await it.create()
        await it.end("c", 1)
        await it.end("c", 1)
        await it.pass_time(10)
        await it.end("c", 1)
        waiting = (await it.container())["state"]["waiting"]
        assert "back-off 20s" in waiting["message"]
        await it.stop()
        await it.pass_time(5)
        await it.begin()
        assert (await it.container())["state"]["waiting"] == waiting
        await it.pass_time(14)
        assert it.runtime.started == ["c#0", "c#1", "c#2"]
        await it.pass_time(2)
        assert it.runtime.started == ["c#0", "c#1", "c#2", "c#3"]
        entry = await it.container()
        assert entry["restartCount"] == 3
        await it.end("c", 1)
        assert "back-off 40s" in (await it.container())["state"]["waiting"]["message"]


async def test_a_container_unknown_to_the_runtime_has_ended_with_unknown_status() -> None:
    async with bench() as it:
        await it.create()
        await it.create("once", containers=[container("o")], restartPolicy="Never")
        await it.stop()
        it.runtime.sandboxes.clear()
        it.runtime.live.clear()
        await it.begin()
        await it.settle()
        entry = await it.container()
        assert "running" in entry["state"]
        assert entry["restartCount"] == 1
        assert entry["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"
        once = await it.status("once")
        assert once["phase"] == "Failed"
        assert once["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


async def owned(it: KubeletBench) -> dict[str, Any]:
    """Metadata of a pod whose controller exists; the garbage collector deletes those of missing owners."""
    owner = await it.cluster.create(CONFIG_MAP, "owner")
    return {"ownerReferences": [{**owner_reference(owner), "controller": True}]}


async def test_a_pod_of_a_controller_that_ended_with_its_node_is_deleted_and_not_reported_as_failed() -> None:
    async with bench() as it:
        metadata = await owned(it)
        await it.create(metadata=metadata, restartPolicy="Never")
        await it.create("restarts", metadata=metadata, containers=[container("r")])
        await it.stop()
        it.runtime.sandboxes.clear()
        it.runtime.live.clear()
        await it.pass_time(1)
        await it.begin()
        await it.settle()
        assert await it.cluster.names(POD) == ["restarts"], "one that restarts in place stays"
        message = "Pod p was running when its node was stopped; its controller replaces it"
        events = [event for event in await it.cluster.all(EVENT) if event["reason"] == "NodeRestarted"]
        assert {event["involvedObject"]["kind"] for event in events} == {"Pod", "ConfigMap"}
        assert {event["message"] for event in events} == {message}


async def test_a_pod_whose_containers_were_lost_with_the_runtime_is_deleted_too() -> None:
    """After a reboot, the runtime still has the states that it saved, with an unknown exit."""
    async with bench() as it:
        await it.create(metadata=await owned(it), restartPolicy="Never")
        await it.stop()
        it.runtime.end("c", 137, "ContainerStatusUnknown")
        it.runtime.sandboxes.clear()
        await it.begin()
        await it.settle()
        assert await it.cluster.names(POD) == []
        assert len(await it.events("NodeRestarted")) >= 1


async def test_pods_deleted_meanwhile_are_ended_and_their_directories_removed() -> None:
    async with bench() as it:
        pod = await it.create()
        uid = pod["metadata"]["uid"]
        await it.stop()
        await it.cluster.delete(POD, "p", grace=0)
        stray = it.options.pod_directory("stray")
        stray.mkdir()
        await it.begin()
        await it.until(lambda: it.runtime.removed == [uid])
        await it.until(lambda: not it.options.pod_directory(uid).exists() and not stray.exists())
        assert it.runtime.running == []


async def test_a_start_that_was_never_reported_counts() -> None:
    async with bench() as it:
        await it.create()
        await it.end("c", 1)
        await it.stop()
        await it.cluster.patch(
            POD,
            "p",
            {"status": {"containerStatuses": [{**(await it.container()), "restartCount": 0}]}},
            "status",
        )
        await it.begin()
        await it.settle()
        assert (await it.container())["restartCount"] == 1
        assert it.runtime.started == ["c#0", "c#1"]


async def test_a_deletion_under_way_is_carried_through() -> None:
    async with bench() as it:
        await it.create()
        it.runtime.stubborn.add("c")
        await it.cluster.delete(POD, "p")
        await it.settle()
        await it.stop()
        await it.begin()
        await it.pass_time(31)
        await it.settle()
        assert await it.cluster.names(POD) == []


async def test_pods_that_are_over_stay_as_they_are() -> None:
    async with bench() as it:
        await it.create(restartPolicy="Never")
        await it.end("c", 3)
        before = await it.pod()
        it.runtime.over.clear()
        await it.stop()
        await it.begin()
        await it.settle()
        assert await it.pod() == before


async def test_pods_keep_running_when_the_kubelet_is_closed() -> None:
    async with bench() as it:
        await it.create()
        await it.stop()
        await it.kubelet.close(keep=True)
        assert it.runtime.kept is True
        assert list((it.options.directory / "pods").iterdir()) != []
        await it.begin()


async def test_nothing_is_left_when_it_ends_everything() -> None:
    async with bench() as it:
        await it.create()
        await it.stop()
        await it.kubelet.close(keep=False)
        assert it.runtime.kept is False
        assert not (it.options.directory / "pods").exists()
        await it.begin()


async def test_volumes_of_an_adopted_pod_follow_their_sources() -> None:
    async with bench() as it:
        await it.cluster.create(CONFIG_MAP, "settings", data={"a": "old"})
        mounts = [{"name": "v", "mountPath": "/settings"}]
        volumes = [{"name": "v", "configMap": {"name": "settings"}}]
        await it.create(containers=[container(volumeMounts=mounts)], volumes=volumes)
        path = Path(it.runtime.starts[0].mounts[0].source) / "a"
        assert path.read_text() == "old"
        await it.stop()
        await it.cluster.patch(CONFIG_MAP, "settings", {"data": {"a": "new"}})
        await it.begin()
        await it.pass_time(80, step=20)
        assert path.read_text() == "new"
        await it.cluster.patch(CONFIG_MAP, "settings", {"data": {"a": "newer"}})
        await it.pass_time(80, step=20)
        assert path.read_text() == "newer"
