"""Subresources: bodies that are none, and the parts a subresource may change."""

from typing import Any

import pytest

from tests.apiserver.registries import namespace, pod, registry
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.interfaces import Attributes
from volcano.apiserver.registry.subresources import restrict
from volcano.kube.api.errors import ApiError, MethodNotAllowed
from volcano.kube.api.kinds import DEPLOYMENT, NAMESPACE, POD
from volcano.kube.api.manifest import Key, Manifest

WEB = Key("default", "web")


async def ready() -> DirectClient:
    client = DirectClient(registry())
    await client.create(NAMESPACE, namespace("default"))
    await client.create(POD, pod())
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    await client.create(DEPLOYMENT, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
    return client


@pytest.mark.parametrize("subresource", ["binding", "eviction"])
@pytest.mark.parametrize(
    "body",
    [
        [],
        "text",
        {"metadata": [1]},
        {"metadata": {"name": "other"}},
        {"metadata": {"annotations": ["a"]}, "target": {"name": "n"}, "deleteOptions": 5},
        {"metadata": {"labels": {"a": 5}}, "target": {"name": "n"}, "deleteOptions": {"preconditions": 5}},
        {"metadata": {}, "target": [], "deleteOptions": {"gracePeriodSeconds": "soon"}},
        {"metadata": {}, "target": {"name": {}}, "deleteOptions": {"gracePeriodSeconds": 1.5}},
        {"metadata": {}, "target": {"kind": "Moon", "name": "n"}, "deleteOptions": [1]},
    ],
)
async def test_a_body_that_is_none_is_the_clients_mistake(subresource: str, body: Any) -> None:
    client = await ready()
    request = Attributes("create", POD, WEB, subresource=subresource)
    with pytest.raises(ApiError) as refused:
        await client._registry.create(request, body)
    assert 400 <= refused.value.code < 500


@pytest.mark.parametrize(
    "scale",
    [{"spec": 5}, {"spec": {"replicas": "many"}}, {"spec": {"replicas": True}}, {"metadata": {"name": "x"}}],
)
async def test_a_scale_that_is_none_is_the_clients_mistake(scale: Manifest) -> None:
    client = await ready()
    request = Attributes("update", DEPLOYMENT, WEB, subresource="scale")
    with pytest.raises(ApiError) as refused:
        await client._registry.update(request, {"metadata": {}, **scale})
    assert 400 <= refused.value.code < 500


async def test_only_some_subresources_can_be_posted_to() -> None:
    client = await ready()
    with pytest.raises(MethodNotAllowed):
        await client.create(POD, pod(), subresource="status")


def test_other_containers_in_a_resize_are_left_for_validation() -> None:
    old, new = pod(), pod()
    new["spec"]["containers"].append({"name": "more"})
    restrict("resize", new, old)
    assert [container["name"] for container in new["spec"]["containers"]] == ["main", "more"]


def test_a_plain_update_is_not_restricted() -> None:
    new = pod(nodeName="n1")
    restrict("", new, pod())
    assert new == pod(nodeName="n1")
