"""Probes and hooks as the kubelet runs them, on a fake runtime under a virtual clock."""

from tests.nodes.kubelet.pods.bench import bench, container
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import Manifest, condition_of

OK = {"exec": {"command": ["ok"]}, "periodSeconds": 1}


async def test_a_readiness_probe_decides_when_a_pod_is_ready() -> None:
    async with bench() as it:
        it.runtime.answers["ok",] = (1, "not yet")
        await it.create(containers=[container(readinessProbe=OK)])
        await it.pass_time(1)
        assert (condition_of(await it.pod(), "Ready") or {})["status"] == "False"
        assert "Readiness probe failed: not yet" in await it.events("Unhealthy")
        it.runtime.answers["ok",] = (0, "")
        await it.pass_time(1)
        assert (condition_of(await it.pod(), "Ready") or {})["status"] == "True"


async def test_a_failing_liveness_probe_kills_and_restarts() -> None:
    async with bench() as it:
        it.runtime.answers["ok",] = (1, "stuck")
        await it.create(containers=[container(livenessProbe={**OK, "failureThreshold": 2})])
        await it.pass_time(3)
        assert it.runtime.signals == [("c", 15)]
        assert it.runtime.started == ["c#0", "c#1"]
        assert await it.events("Killing") == ["Container c failed liveness probe, will be restarted"]
        entry = await it.container()
        assert entry["restartCount"] == 1
        assert entry["lastState"]["terminated"]["exitCode"] == 143


async def test_a_startup_probe_holds_the_others_back() -> None:
    async with bench() as it:
        it.runtime.answers["up",] = (1, "")
        probes: Manifest = {
            "startupProbe": {"exec": {"command": ["up"]}, "periodSeconds": 1},
            "livenessProbe": OK,
        }
        await it.create(containers=[container(**probes)])
        await it.pass_time(1)
        assert ("c", ("ok",)) not in it.runtime.executed
        assert (await it.container())["started"] is False
        it.runtime.answers["up",] = (0, "")
        await it.pass_time(3)
        assert ("c", ("ok",)) in it.runtime.executed
        assert (await it.container())["started"] is True


async def test_post_start_comes_before_a_container_counts_as_running() -> None:
    async with bench() as it:
        it.runtime.answers["hello",] = (None, "")
        hook = {"postStart": {"exec": {"command": ["hello"]}}}
        await it.create(containers=[container(lifecycle=hook), container("d")])
        assert it.runtime.started == ["c#0"]
        assert (await it.container())["state"] == {"waiting": {"reason": "ContainerCreating"}}
        await it.cluster.delete(POD, "p", grace=0)


async def test_a_container_whose_post_start_fails_is_killed() -> None:
    async with bench() as it:
        it.runtime.answers["hello",] = (1, "")
        hook = {"postStart": {"exec": {"command": ["hello"]}}}
        await it.create(containers=[container(lifecycle=hook)], restartPolicy="Never")
        assert (await it.status())["phase"] == "Failed"
        assert await it.events("FailedPostStartHook") == ["PostStartHook failed"]
        assert await it.events("Killing") == ["FailedPostStartHook"]


async def test_pre_stop_comes_before_term() -> None:
    async with bench() as it:
        hook = {"preStop": {"sleep": {"seconds": 3}}}
        await it.create(containers=[container(lifecycle=hook)])
        await it.cluster.delete(POD, "p")
        await it.pass_time(2)
        assert it.runtime.signals == []
        await it.pass_time(2)
        assert it.runtime.signals == [("c", 15)]
        await it.settle()
        assert await it.cluster.names(POD) == []


async def test_a_pre_stop_that_hangs_costs_the_container_its_grace() -> None:
    async with bench() as it:
        it.runtime.answers["bye",] = (None, "")
        hook = {"preStop": {"exec": {"command": ["bye"]}}}
        await it.create(containers=[container(lifecycle=hook)], terminationGracePeriodSeconds=4)
        await it.cluster.delete(POD, "p")
        await it.pass_time(3)
        assert it.runtime.signals == []
        await it.pass_time(2)
        assert it.runtime.signals == [("c", 15)]
        assert await it.events("FailedPreStopHook") == ["PreStopHook failed"]


async def test_a_container_may_choose_the_signal_it_is_stopped_with() -> None:
    async with bench() as it:
        await it.create(containers=[container(lifecycle={"stopSignal": "SIGUSR1"})], os={"name": "linux"})
        await it.cluster.delete(POD, "p")
        await it.settle()
        assert it.runtime.signals == [("c", 10)]


async def test_a_deadline_ends_a_pod() -> None:
    async with bench() as it:
        await it.create(activeDeadlineSeconds=5)
        await it.pass_time(6)
        status = await it.status()
        assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
        assert await it.events("DeadlineExceeded") == [
            "Pod was active on the node longer than the specified deadline"
        ]


async def test_init_containers_and_sidecars_in_order() -> None:
    async with bench() as it:
        inits = [container("i"), container("s", restartPolicy="Always", startupProbe=OK)]
        await it.create(initContainers=inits, restartPolicy="Never")
        assert it.runtime.started == ["i#0"]
        await it.end("i", 0)
        await it.settle()
        assert it.runtime.started == ["i#0", "s#0", "c#0"]
        await it.end("c", 0)
        assert it.runtime.signals == [("s", 15)]
        assert (await it.status())["phase"] == "Succeeded"
        assert (await it.container("s"))["state"]["terminated"]["exitCode"] == 143


async def test_an_ephemeral_container_joins_a_running_pod() -> None:
    async with bench() as it:
        await it.create()
        pod = await it.pod()
        debug = container("debug", terminationMessagePolicy="File", imagePullPolicy="Always")
        pod["spec"]["ephemeralContainers"] = [debug]
        await it.cluster.client.update(POD, pod, subresource="ephemeralcontainers")
        await it.settle()
        assert it.runtime.started == ["c#0", "debug#0"]
        await it.end("debug", 0)
        status = await it.status()
        assert status["phase"] == "Running"
        assert status["ephemeralContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
        assert it.runtime.started == ["c#0", "debug#0"]
