"""Failures and missing objects in the kubelet."""

from dataclasses import replace

import pytest

from tests.nodes.kubelet.pods.bench import MACHINE, bench, container
from volcano.kube.api.errors import Unavailable
from volcano.kube.api.kinds import CONFIG_MAP, EVENT, NODE, POD, RESOURCE_CLAIM
from volcano.kube.api.manifest import Key, Manifest, condition_of, uid_of
from volcano.kube.client.protocol import Options, PatchType
from volcano.nodes.shim.specs import Failure


async def test_a_sandbox_that_cannot_be_made_is_tried_again() -> None:
    async with bench() as it:
        it.runtime.failures["sandbox"] = Failure("FailedCreatePodSandBox", "no more addresses")
        await it.create()
        assert (await it.status())["phase"] == "Pending"
        assert await it.events("FailedCreatePodSandBox") == [
            "Failed to create pod sandbox: no more addresses"
        ]
        it.runtime.failures.clear()
        await it.pass_time(11)
        assert (await it.status())["phase"] == "Running"


async def test_a_volume_that_is_missing_keeps_a_pod_waiting_until_it_is_there() -> None:
    async with bench() as it:
        volume = {"name": "v", "configMap": {"name": "settings"}}
        own = container(volumeMounts=[{"name": "v", "mountPath": "/settings"}])
        await it.create(containers=[own], volumes=[volume])
        assert (await it.container())["state"] == {"waiting": {"reason": "ContainerCreating"}}
        errors = await it.events("FailedMount")
        assert errors == ['MountVolume.SetUp failed for volume "v" : configmap "settings" not found']
        await it.cluster.create(CONFIG_MAP, "settings", data={"a": "b"})
        await it.pass_time(4, step=0.5)
        assert (await it.status())["phase"] == "Running"
        mount = it.runtime.starts[0].mounts[0]
        assert (mount.target, mount.read_only) == ("/settings", True)


async def test_a_pod_waits_until_its_resource_claim_is_allocated_and_reserved() -> None:
    async with bench() as it:
        devices = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}
        await it.cluster.create(RESOURCE_CLAIM, "c", spec={"devices": devices})
        pod = await it.create(resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}])
        assert (await it.container())["state"] == {"waiting": {"reason": "ContainerCreating"}}
        assert await it.events("FailedPrepareDynamicResources") == ["ResourceClaim c is not allocated"]
        result = {"request": "gpu", "driver": "gpu.example.com", "pool": "n", "device": "gpu-0"}
        user = {"resource": "pods", "name": pod["metadata"]["name"], "uid": uid_of(pod)}
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}
        await it.cluster.patch(RESOURCE_CLAIM, "c", {"status": status}, "status")
        await it.pass_time(4, step=0.5)
        assert (await it.status())["phase"] == "Running"


async def test_a_variable_without_its_source_is_a_config_error() -> None:
    async with bench() as it:
        variable = {"name": "X", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}
        await it.create(containers=[container(env=[variable])])
        waiting = (await it.container())["state"]["waiting"]
        assert waiting["reason"] == "CreateContainerConfigError"
        assert (await it.events("Failed"))[0].startswith("Error: ")
        await it.cluster.create(CONFIG_MAP, "settings", data={"a": "b"})
        await it.pass_time(11)
        assert it.runtime.starts[0].environment["X"] == "b"
        assert (await it.container())["restartCount"] == 0


@pytest.mark.parametrize(
    ("failure", "policy", "state"),
    [
        pytest.param(
            Failure("ContainerCannotRun", 'exec: "run": executable file not found in $PATH'),
            "Never",
            {"terminated": "StartError"},
            id="a missing program",
        ),
        pytest.param(
            Failure("RunContainerError", "no more processes"),
            "Always",
            {"waiting": "RunContainerError"},
            id="no process, tried again",
        ),
        pytest.param(
            Failure("CreateContainerError", "disk full"),
            "Never",
            {"waiting": "CreateContainerError"},
            id="a full disk",
        ),
        pytest.param(
            Failure("RuntimeUnavailable", "no shim"),
            "Never",
            {"waiting": "CreateContainerError"},
            id="no runtime",
        ),
    ],
)
async def test_a_container_that_does_not_start_reports_the_reason(
    failure: Failure, policy: str, state: dict[str, str]
) -> None:
    async with bench() as it:
        it.runtime.failures["c"] = failure
        await it.create(restartPolicy=policy)
        shown = (await it.container())["state"]
        assert {kind: shown[kind]["reason"] for kind in shown} == state
        assert next(iter(shown.values()))["message"] == failure.message
        assert await it.events("Failed") == [f"Error: {failure.message}"]


async def test_run_as_non_root_rejects_root() -> None:
    async with bench() as it:
        await it.create(securityContext={"runAsNonRoot": True})
        waiting = (await it.container())["state"]["waiting"]
        assert waiting["reason"] == "CreateContainerConfigError"
        assert "container has runAsNonRoot and image will run as root" in waiting["message"]


async def test_a_pod_deleted_without_grace_is_killed_at_once() -> None:
    async with bench() as it:
        pod = await it.create()
        it.runtime.stubborn.add("c")
        await it.cluster.delete(POD, "p", grace=0)
        await it.until(lambda: it.runtime.removed == [pod["metadata"]["uid"]])
        assert it.runtime.signals == []
        assert it.runtime.running == []
        await it.until(lambda: not it.options.pod_directory(pod["metadata"]["uid"]).exists())


async def test_a_pod_that_does_not_fit_is_rejected() -> None:
    async with bench() as it:
        wants: Manifest = {"resources": {"requests": {"cpu": "3"}}}
        await it.create("first", containers=[container(**wants)])
        await it.create("second", containers=[container(**wants)])
        status = await it.status("second")
        assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")
        text = "Node didn't have enough resource: cpu, requested: 3000, used: 3000, capacity: 4000"
        assert status["message"] == f"Pod was rejected: {text}"
        assert await it.events("OutOfcpu") == [text]
        assert [start.pod for start in it.runtime.starts] == [(await it.pod("first"))["metadata"]["uid"]]


async def test_an_ended_pod_frees_its_capacity() -> None:
    async with bench(pods_per_node=1) as it:
        await it.create("first", restartPolicy="Never")
        await it.end("c", 0)
        await it.create("second")
        assert (await it.status("second"))["phase"] == "Running"
        await it.create("third")
        assert (await it.status("third"))["reason"] == "OutOfpods"


async def test_a_failure_of_one_pod_does_not_affect_others() -> None:
    async with bench() as it:
        it.runtime.failures["bad"] = RuntimeError("a bug")  # type: ignore[assignment]
        await it.create("bad", containers=[container("bad")])
        await it.create("good")
        assert (await it.status("good"))["phase"] == "Running"
        entry = await it.container("bad", "bad")
        assert entry["state"]["waiting"]["reason"] == "CreateContainerError"
        it.runtime.failures.clear()
        await it.pass_time(11)
        assert (await it.status("bad"))["phase"] == "Running"


async def test_containers_of_a_killed_shim_are_unknown_and_restarted() -> None:
    async with bench() as it:
        await it.create(initContainers=[container("i")])
        await it.end("i", 0)
        it.runtime.sandboxes.clear()
        await it.end("c", 137, "ContainerStatusUnknown")
        assert it.runtime.started == ["i#0", "c#0", "i#1"]
        await it.end("i", 0)
        assert it.runtime.started == ["i#0", "c#0", "i#1", "c#1"]
        last = (await it.container())["lastState"]["terminated"]
        assert (last["reason"], last["exitCode"]) == ("ContainerStatusUnknown", 137)
        assert last["message"] == "The container could not be located when the pod was terminated"


async def test_a_status_overwritten_by_another_client_is_restored() -> None:
    async with bench() as it:
        await it.create()
        ready = {"type": "Ready", "status": "False", "reason": "NodeNotReady"}
        await it.cluster.client.patch(
            POD,
            Key("default", "p"),
            {"status": {"conditions": [ready]}},
            subresource="status",
            options=Options(patch_type=PatchType.STRATEGIC),
        )
        await it.settle()
        assert (condition_of(await it.pod(), "Ready") or {})["status"] == "True"


async def test_conditions_of_others_are_left_alone() -> None:
    async with bench() as it:
        await it.create(readinessGates=[{"conditionType": "example.com/gate"}])
        assert (condition_of(await it.pod(), "Ready") or {})["reason"] == "ReadinessGatesNotReady"
        gate = {"type": "example.com/gate", "status": "True"}
        await it.cluster.client.patch(
            POD,
            Key("default", "p"),
            {"status": {"conditions": [gate]}},
            subresource="status",
            options=Options(patch_type=PatchType.STRATEGIC),
        )
        await it.settle()
        pod = await it.pod()
        ready = condition_of(pod, "Ready")
        assert ready is not None
        assert ready["status"] == "True"
        assert "reason" not in ready
        assert (condition_of(pod, "example.com/gate") or {})["status"] == "True"


async def test_nothing_is_written_while_nothing_changes() -> None:
    async with bench() as it:
        await it.create(
            containers=[container(readinessProbe={"exec": {"command": ["ok"]}, "periodSeconds": 1})]
        )
        await it.pass_time(2)
        version = (await it.pod())["metadata"]["resourceVersion"]
        await it.pass_time(20)
        assert (await it.pod())["metadata"]["resourceVersion"] == version
        assert len(it.runtime.executed) > 15


async def test_a_status_is_written_when_the_server_is_available_again() -> None:
    async with bench() as it:
        real = it.cluster.client.patch
        attempts = 0

        async def away(*args: object, **rest: object) -> Manifest:
            nonlocal attempts
            attempts += 1
            raise Unavailable("away")

        await it.create(restartPolicy="Never")
        it.cluster.client.patch = away  # type: ignore[method-assign]
        await it.end("c", 3)
        await it.pass_time(2)
        assert attempts > 2
        it.cluster.client.patch = real  # type: ignore[method-assign]
        await it.pass_time(5)
        assert (await it.status())["phase"] == "Failed"


async def test_gpus_are_assigned_once() -> None:
    async with bench(machine=replace(MACHINE, gpus=("0", "1", "2"))) as it:
        wants: Manifest = {
            "resources": {"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "2"}}
        }
        one: Manifest = {
            "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}
        }
        assert (await it.cluster.get(NODE, "local-0"))["status"]["allocatable"]["nvidia.com/gpu"] == "3"
        await it.create("a", containers=[container(**wants)], restartPolicy="Never")
        await it.create("b", containers=[container("d", **one)])
        assert [start.environment["CUDA_VISIBLE_DEVICES"] for start in it.runtime.starts] == ["0,1", "2"]
        await it.end("c", 0)
        await it.create("e", containers=[container("f", **wants)])
        assert it.runtime.starts[-1].environment["NVIDIA_VISIBLE_DEVICES"] == "0,1"


async def test_limitations_of_a_runtime_are_reported_once() -> None:
    async with bench(features={"limitations": ("No names.", "No low ports.")}) as it:
        await it.create(containers=[container("a"), container("b")])
        assert await it.events("LimitedRuntime") == ["No names. No low ports."]
        pulled = await it.events("Pulled")
        assert len(pulled) == 1
        assert "is not pulled" in pulled[0]


async def test_a_pod_of_another_node_is_ignored() -> None:
    async with bench() as it:
        await it.create(nodeName="elsewhere")
        assert it.runtime.sandboxes == {}
        assert it.kubelet.locate_pod(await it.pod()) is None
        assert await it.cluster.all(EVENT) == []


async def test_a_missing_sandbox_is_created_again() -> None:
    async with bench() as it:
        await it.create()
        it.runtime.failures["c"] = Failure("SandboxNotFound", "no such sandbox")
        await it.end("c", 1)
        it.runtime.failures.clear()
        it.runtime.sandboxes.clear()
        await it.pass_time(2)
        assert len(it.runtime.sandboxes) == 1
        assert it.runtime.started == ["c#0", "c#1"]
        assert await it.events("Failed") == []


async def test_another_image_starts_a_container_again() -> None:
    async with bench() as it:
        await it.create(restartPolicy="Never", containers=[container(), container("d")])
        containers = (await it.pod())["spec"]["containers"]
        containers[0]["image"] = "busybox:2"
        await it.cluster.patch(POD, "p", {"spec": {"containers": containers}})
        await it.settle()
        assert it.runtime.started == ["c#0", "d#0", "c#1"]
        assert it.runtime.starts[-1].image == "busybox:2"
        assert await it.events("Killing") == ["Container c definition changed, will be restarted"]
        assert (await it.status())["phase"] == "Running"


@pytest.mark.parametrize(
    ("reason", "event"),
    [
        pytest.param("ErrImagePull", "Failed", id="it cannot be pulled"),
        pytest.param("ImagePullBackOff", "BackOff", id="not tried now"),
        pytest.param("ErrImageNeverPull", "ErrImageNeverPull", id="not to be pulled"),
        pytest.param("InvalidImageName", "InspectFailed", id="no name"),
    ],
)
async def test_a_missing_image_is_reported_as_by_the_kubelet(reason: str, event: str) -> None:
    async with bench(features={"pulls_images": True}) as it:
        it.runtime.failures["c"] = Failure(reason, "the registry says no")
        await it.create(restartPolicy="Never")
        waiting = (await it.container())["state"]["waiting"]
        assert waiting == {"reason": reason, "message": "the registry says no"}
        assert "the registry says no" in await it.events(event)
        assert f"Error: {reason}" in await it.events("Failed")
        it.runtime.failures.clear()
        await it.pass_time(11)
        assert (await it.status())["phase"] == "Running"
        assert await it.events("Pulled") == ['Container image "busybox" is on this machine']


async def test_a_signal_that_could_not_be_sent_is_sent_again() -> None:
    async with bench() as it:
        await it.create()
        it.runtime.undelivered_signals = 2
        await it.cluster.delete(POD, "p")
        await it.pass_time(3)
        await it.settle()
        assert it.runtime.signals == [("c", 15)]
        assert await it.cluster.names(POD) == []
