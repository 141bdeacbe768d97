"""The end of namespaces and of CRDs."""

import pytest

from tests.apiserver.registries import config_map, namespace, pod, registry
from tests.apiserver.registry.test_registry import WIDGET, widget, with_widgets
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.janitor import Janitor
from volcano.apiserver.terminations import CrdTerminator, NamespaceTerminator
from volcano.kube.client import Options
from volcano.kube.errors import NotFound
from volcano.kube.kinds import CONFIG_MAP, CRD, NAMESPACE, POD
from volcano.kube.manifest import Key

WIDGETS = Key("", "widgets.example.com")


async def tidy(janitor: Janitor[str]) -> None:
    while janitor.next_due() == float("-inf"):
        await janitor.work()


async def test_a_namespace_goes_when_its_content_has_gone() -> None:
    made = registry()
    client, terminator = DirectClient(made), NamespaceTerminator(made)
    for name in ("doomed", "safe"):
        await client.create(NAMESPACE, namespace(name))
        for number in range(250):
            await client.create(CONFIG_MAP, config_map(f"c{number}", name))
    await client.create(POD, pod("web", "doomed", nodeName="n1"))
    await client.delete(NAMESPACE, Key("", "doomed"))
    await tidy(terminator)
    left = await client.list(CONFIG_MAP)
    assert {item["metadata"]["namespace"] for item in left.items} == {"safe"}
    terminating = await client.get(NAMESPACE, Key("", "doomed"))
    assert terminating["status"]["phase"] == "Terminating"
    assert (await client.get(POD, Key("doomed", "web")))["metadata"]["deletionTimestamp"]
    await client.delete(POD, Key("doomed", "web"), options=Options(grace_seconds=0))
    await tidy(terminator)
    with pytest.raises(NotFound):
        await client.get(NAMESPACE, Key("", "doomed"))
    assert len((await client.list(CONFIG_MAP)).items) == 250


async def test_a_terminating_namespace_is_found_again_after_a_restart() -> None:
    made = registry()
    client = DirectClient(made)
    await client.create(NAMESPACE, namespace("doomed"))
    await client.create(CONFIG_MAP, config_map("c", "doomed"))
    await client.delete(NAMESPACE, Key("", "doomed"))
    await tidy(NamespaceTerminator(made))
    assert (await client.list(NAMESPACE)).items == []


async def test_a_namespace_can_be_finalized_by_hand() -> None:
    made = registry()
    client = DirectClient(made)
    await client.create(NAMESPACE, namespace("doomed"))
    ended = await client.delete(NAMESPACE, Key("", "doomed"))
    ended["spec"]["finalizers"] = []
    await client.update(NAMESPACE, ended, subresource="finalize")
    assert (await client.list(NAMESPACE)).items == []


async def test_a_crd_takes_its_objects_along() -> None:
    made = registry()
    client = await with_widgets(made)
    terminator = CrdTerminator(made)
    held = widget("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    for manifest in (held, widget("free")):
        await client.create(WIDGET, manifest)
    await client.delete(CRD, WIDGETS)
    await tidy(terminator)
    assert [item["metadata"]["name"] for item in (await client.list(WIDGET)).items] == ["held"]
    await client.patch(WIDGET, Key("default", "held"), {"metadata": {"finalizers": None}})
    await tidy(terminator)
    with pytest.raises(NotFound):
        await client.get(CRD, WIDGETS)
    with pytest.raises(NotFound, match="the server could not find the requested resource"):
        await client.list(WIDGET)
