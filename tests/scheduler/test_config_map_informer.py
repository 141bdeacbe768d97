"""The ConfigMap of devices is watched while a plugin reads it, and bindings carry the annotations of device plugins."""

import asyncio
from typing import Any

from tests.apiserver.registries import namespace
from tests.scheduler.plugins.deviceshare.cards import ask, card, containers, device_config, gpu_node, pods
from tests.scheduler.test_loop import Bench, bench
from volcano.apiserver.direct import DirectClient
from volcano.kube.api import kinds
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Options
from volcano.kube.devices import vgpu
from volcano.scheduler.config_map_informer import config_maps
from volcano.scheduler.engine.config import parse

CONFIG = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - {name: gang}
  - {name: predicates}
  - name: deviceshare
    arguments: {deviceshare.VGPUEnable: true}
"""
GEOMETRY = """
nvidia:
  knownMigGeometries:
  - models: [A100]
    allowedGeometries: [{group: one, geometries: [{name: 1g, memory: 8000, count: 2}]}]
"""


async def assignment(b: Bench, name: str) -> str:
    """The cards of a pod, once it is bound."""
    pod: Manifest = {}

    async def bound() -> bool:
        nonlocal pod
        pod = await b.client.get(kinds.POD, Key("default", name))
        return bool(pod["spec"].get("nodeName"))

    await b.until(bound)
    text: str = pod["metadata"]["annotations"][vgpu.ASSIGNED]
    return text


async def put(b: Bench, manifest: Manifest) -> None:
    manifest["metadata"].pop("resourceVersion")
    await DirectClient.create(b.client, kinds.CONFIG_MAP, manifest)


async def test_a_bound_pod_has_the_annotations_of_its_binding() -> None:
    async with bench(CONFIG) as b:
        await b.add(gpu_node(), pods("p", spec=containers(ask(1, 4000))))
        assert await assignment(b, "p-worker-0") == "GPU-b,NVIDIA,4000,0:"


async def test_changes_of_the_config_map_take_effect() -> None:
    async with bench(CONFIG) as b:
        await b.client.create(kinds.NAMESPACE, namespace("kube-system"))
        await b.add(gpu_node(cards=[card("a", 16000, mode="mig")]), pods("p", spec=containers(ask(1, 4000))))
        assert await assignment(b, "p-worker-0") == "a,NVIDIA,4000,0:"
        await b.client.delete(kinds.POD, Key("default", "p-worker-0"), options=Options(grace_seconds=0))
        await put(b, device_config(GEOMETRY))

        async def known() -> bool:
            return bool(b.scheduler.cluster.snapshot().device_configs)

        await b.until(known)
        await b.add(pods("q", spec=containers(ask(1, 4000))))
        assert await assignment(b, "q-worker-0") == "a[one-0],NVIDIA,8000,0:"


async def test_the_config_map_that_the_configuration_names_is_watched() -> None:
    async with bench(CONFIG) as b:
        await b.client.create(kinds.NAMESPACE, namespace("gpu"))
        await put(b, device_config(GEOMETRY, "mine", "gpu"))
        await put(b, device_config(GEOMETRY, "other", "gpu"))
        assert b.scheduler.cluster.snapshot().device_configs == {}
        arguments = "deviceshare.KnownGeometriesCMName: mine, deviceshare.KnownGeometriesCMNamespace: gpu"
        b.scheduler.source.load(CONFIG.replace("VGPUEnable: true", f"VGPUEnable: true, {arguments}"))
        b.scheduler._on_new_config()

        async def known() -> bool:
            return list(b.scheduler.cluster.snapshot().device_configs) == [("gpu", "mine")]

        await b.until(known)
        b.scheduler.source.load(CONFIG)
        b.scheduler._on_new_config()

        async def forgotten() -> bool:
            return b.scheduler.cluster.snapshot().device_configs == {}

        await b.until(forgotten)
        await asyncio.sleep(0)


def test_nothing_is_watched_without_the_plugin() -> None:
    names: list[Any] = [
        config_maps(None),
        config_maps(parse(CONFIG.replace("true", "false"))),
        config_maps(parse(CONFIG)),
    ]
    assert names == [(), (), (("kube-system", "volcano-vgpu-device-config"),)]
