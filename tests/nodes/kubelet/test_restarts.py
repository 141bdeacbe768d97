"""After a restart, exactly what running pods hold is held, however the kubelet ended and whatever they hold."""

import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.nodes.kubelet.gpus.fake_nvml import FakeCard
from tests.nodes.kubelet.gpus.test_claims import CLAIMS, claim, claiming, machine_with
from tests.nodes.kubelet.pods.bench import MACHINE, KubeletBench, bench, container
from tests.nodes.kubelet.test_cpus import STATIC, guaranteed, published
from tests.nodes.kubelet.test_hostports import exposing, unused
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import Manifest, uid_of
from volcano.kube.devices import vgpu
from volcano.nodes.kubelet.gpus.inventory import GPU, Gpu
from volcano.nodes.kubelet.gpus.monitor import INTERVAL

CARD = Gpu("GPU-a", 0, "NVIDIA A100", 16000, "")
ONE_CARD = replace(MACHINE, gpus=(CARD.uuid,), cards=(CARD,))
SHARE = {"metadata": {"annotations": {vgpu.ASSIGNED: "GPU-a,NVIDIA,16000,0:"}}}
ADDRESS = "10.88.0.9"  # of every pod of the fake runtime


async def nothing(it: KubeletBench, pod: Manifest) -> None:
    return


@dataclass(frozen=True)
class Held:
    """Something that the pod p may hold: a node that has it, fields of the pod, and whether it is held."""

    node: dict[str, Any]
    pod: dict[str, Any]
    is_held: Callable[[KubeletBench], Awaitable[bool]]
    grant: Callable[[KubeletBench, Manifest], Awaitable[None]] = nothing


def refused_to_another(node: dict[str, Any], resource: str, **more: Any) -> Held:
    """A resource of which the node has one: it is held if another pod does not get it."""
    amount = {"limits": {resource: "1"}, "requests": {resource: "1"}}
    pod = {"containers": [container(resources=amount)], **more}

    async def is_held(it: KubeletBench) -> bool:
        other = await it.create("other", **pod)
        started = any(spec.pod == uid_of(other) for spec in it.runtime.starts)
        status = await it.status("other")
        assert started or status.get("reason") == f"OutOf{resource}", (status, await it.events())
        return not started

    return Held(node, pod, is_held)


def a_gpu() -> Held:
    return refused_to_another({"machine": ONE_CARD}, GPU)


def a_shared_gpu() -> Held:
    return refused_to_another({"machine": ONE_CARD, "share_gpus": 1}, vgpu.NUMBER, **SHARE)


def a_claimed_gpu() -> Held:
    card = FakeCard("GPU-a")

    async def reserve(it: KubeletBench, pod: Manifest) -> None:
        await claim(it, ("gpu", "gpu-0"), pod=pod)
        await it.pass_time(30)

    async def is_held(it: KubeletBench) -> bool:
        card.silent = True
        await it.pass_time(INTERVAL + 1)
        return any("which this pod uses" in text for text in await it.events("UnhealthyDevice"))

    node = {**machine_with(card), "publish_devices": True}
    return Held(node, {"containers": [claiming()], "resourceClaims": CLAIMS}, is_held, reserve)


def pinned_cpus() -> Held:
    async def is_held(it: KubeletBench) -> bool:
        return "p" in await published(it)

    return Held(STATIC, guaranteed(2), is_held)


def a_host_port() -> Held:
    number = unused()

    async def is_held(it: KubeletBench) -> bool:
        await it.settle()
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", number)) == 0

    return Held({}, {"containers": [exposing(number)]}, is_held)


def a_volume() -> Held:
    async def is_held(it: KubeletBench) -> bool:
        return any((it.options.directory / "pods").glob("*/volumes/*/*"))

    mount = {"name": "scratch", "mountPath": "/scratch"}
    pod = {"containers": [container(volumeMounts=[mount])], "volumes": [{"name": "scratch", "emptyDir": {}}]}
    return Held({}, pod, is_held)


def an_address() -> Held:
    async def is_held(it: KubeletBench) -> bool:
        return it.kubelet.pod_at(ADDRESS) is not None

    return Held({}, {"containers": [container()]}, is_held)


RESOURCES = (a_gpu, a_shared_gpu, a_claimed_gpu, pinned_cpus, a_host_port, a_volume, an_address)


# What happens to the pod before the kubelet ends, and while none runs.


async def runs_on(it: KubeletBench) -> None:
    return


async def ends(it: KubeletBench) -> None:
    await it.end("c", 0)
    await it.pass_time(1)


async def is_deleted(it: KubeletBench) -> None:
    it.runtime.stubborn.add("c")
    await it.cluster.delete(POD, "p", grace=4)
    await it.pass_time(1)


async def ends_meanwhile(it: KubeletBench) -> None:
    it.runtime.end("c", 0)


# How the kubelet ends.


async def is_killed(it: KubeletBench) -> None:
    await it.stop()


async def is_terminated(it: KubeletBench) -> None:
    await it.stop()
    await it.kubelet.close(keep=True)


async def goes_down(it: KubeletBench) -> None:
    await it.stop()
    await it.kubelet.close(keep=False)
    it.runtime.forget()


@pytest.mark.parametrize("end", [is_killed, is_terminated, goes_down])
@pytest.mark.parametrize(
    ("before", "meanwhile", "runs"),
    [
        pytest.param(runs_on, runs_on, True, id="running"),
        pytest.param(ends, runs_on, False, id="finished"),
        pytest.param(runs_on, ends_meanwhile, False, id="finished meanwhile"),
        pytest.param(is_deleted, runs_on, False, id="being deleted"),
    ],
)
@pytest.mark.parametrize("resource", RESOURCES)
async def test_after_a_restart_exactly_what_running_pods_hold_is_held(
    resource: Callable[[], Held],
    before: Callable[[KubeletBench], Awaitable[None]],
    meanwhile: Callable[[KubeletBench], Awaitable[None]],
    runs: bool,
    end: Callable[[KubeletBench], Awaitable[None]],
) -> None:
    held = resource()
    async with bench(**held.node) as it:
        pod = await it.create("p", restartPolicy="OnFailure", **held.pod)
        await held.grant(it, pod)
        assert it.runtime.running == ["c"], await it.events()
        await before(it)
        await end(it)
        await meanwhile(it)
        await it.begin()
        await it.pass_time(30)
        # What ended in a node that was stopped is not known: the container is restarted.
        runs = runs or (meanwhile is ends_meanwhile and end is goes_down)
        assert it.runtime.running == (["c"] if runs else [])
        assert await held.is_held(it) == runs


async def test_what_a_crash_left_of_a_finished_pod_is_released_by_the_next_kubelet() -> None:
    async with bench(**a_volume().node) as it:
        await it.create("p", restartPolicy="Never", **a_volume().pod)
        uid = uid_of(await it.pod())
        await ends(it)
        await it.stop()
        left = it.options.pod_directory(uid) / "volumes" / "kubernetes.io~empty-dir" / "scratch"
        left.mkdir(parents=True)
        await it.begin()
        await it.pass_time(1)
        assert not left.exists()


async def test_a_pod_bound_while_no_kubelet_ran_does_not_get_what_a_running_pod_holds() -> None:
    held = a_gpu()
    async with bench(**held.node) as it:
        await it.create("z", **held.pod)
        await it.stop()
        await it.create("a", **held.pod)
        await it.begin()
        await it.settle()
        assert (await it.status("a"))["reason"] == f"OutOf{GPU}"
        assert (await it.status("z"))["phase"] == "Running"
