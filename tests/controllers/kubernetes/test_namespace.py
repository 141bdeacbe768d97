"""Deletion of namespaces and CRDs with their contents."""

import pytest

from tests.apiserver.registries import config_map, namespace, pod, registry
from tests.apiserver.registry.test_registry import WIDGET, widget, with_widgets
from tests.controllers.kubernetes.driver import Driver
from volcano.apiserver.direct import DirectClient
from volcano.controllers.kubernetes.namespace import CrdFinalizer, NamespaceController
from volcano.kube.api.errors import NotFound
from volcano.kube.api.kinds import CONFIG_MAP, CRD, NAMESPACE, POD
from volcano.kube.api.manifest import Key
from volcano.kube.client.protocol import Options

WIDGETS = Key("", "widgets.example.com")


async def test_a_namespace_goes_when_its_content_has_gone() -> None:
    made = registry()
    client = DirectClient(made)
    controller = Driver(NamespaceController(), client)
    for name in ("ending", "safe"):
        await client.create(NAMESPACE, namespace(name))
        for number in range(250):
            await client.create(CONFIG_MAP, config_map(f"c{number}", name))
    await client.create(POD, pod("web", "ending", nodeName="n1"))
    await client.delete(NAMESPACE, Key("", "ending"))
    await controller.run()
    left = await client.list(CONFIG_MAP)
    assert {item["metadata"]["namespace"] for item in left.items} == {"safe"}
    terminating = await client.get(NAMESPACE, Key("", "ending"))
    assert terminating["status"]["phase"] == "Terminating"
    assert (await client.get(POD, Key("ending", "web")))["metadata"]["deletionTimestamp"]
    await client.delete(POD, Key("ending", "web"), options=Options(grace_seconds=0))
    await controller.run()
    with pytest.raises(NotFound):
        await client.get(NAMESPACE, Key("", "ending"))
    assert len((await client.list(CONFIG_MAP)).items) == 250


async def test_a_terminating_namespace_is_found_again_after_a_restart() -> None:
    made = registry()
    client = DirectClient(made)
    await client.create(NAMESPACE, namespace("ending"))
    await client.create(CONFIG_MAP, config_map("c", "ending"))
    await client.delete(NAMESPACE, Key("", "ending"))
    await Driver(NamespaceController(), client).run()
    assert (await client.list(NAMESPACE)).items == []


async def test_a_namespace_can_be_finalized_by_hand() -> None:
    made = registry()
    client = DirectClient(made)
    await client.create(NAMESPACE, namespace("ending"))
    ended = await client.delete(NAMESPACE, Key("", "ending"))
    ended["spec"]["finalizers"] = []
    await client.update(NAMESPACE, ended, subresource="finalize")
    assert (await client.list(NAMESPACE)).items == []


async def test_a_crd_takes_its_objects_along() -> None:
    made = registry()
    client = await with_widgets(made)
    controller = Driver(CrdFinalizer(), client)
    held = widget("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    for manifest in (held, widget("free")):
        await client.create(WIDGET, manifest)
    await client.delete(CRD, WIDGETS)
    await controller.run()
    assert [item["metadata"]["name"] for item in (await client.list(WIDGET)).items] == ["held"]
    await client.patch(WIDGET, Key("default", "held"), {"metadata": {"finalizers": None}})
    await controller.run()
    with pytest.raises(NotFound):
        await client.get(CRD, WIDGETS)
    with pytest.raises(NotFound, match="the server could not find the requested resource"):
        await client.list(WIDGET)
