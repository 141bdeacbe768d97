"""The contract of every client for subresources, events and custom kinds."""

import asyncio
import contextlib
from typing import Any

import pytest

from tests.contracts.namespace_client import APPLY, NamespaceClient, bind
from volcano.kube.api import kinds
from volcano.kube.api.errors import (
    AlreadyExists,
    Conflict,
    Invalid,
    NotFound,
    UnsupportedMediaType,
)
from volcano.kube.api.kinds import DEPLOYMENT, POD, Kind
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Options, PatchType

# Subresources


async def test_a_pod_is_bound_only_once(ns: NamespaceClient) -> None:
    await ns.create(ns.pod(), POD)
    await bind(ns, "web", "n1")
    pod = await ns.client.get(POD, ns.key("web"))
    assert pod["spec"]["nodeName"] == "n1"
    (scheduled,) = [c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled"]
    assert scheduled["status"] == "True"
    with pytest.raises(Conflict) as caught:
        await bind(ns, "web", "n2")
    assert caught.value.message == (
        'Operation cannot be fulfilled on pods/binding "web": pod web is already assigned to node "n1"'
    )


async def test_a_gated_pod_cannot_be_bound(ns: NamespaceClient) -> None:
    await ns.create(ns.pod(schedulingGates=[{"name": "example.com/wait"}]), POD)
    with pytest.raises(Conflict, match=r"has non-empty .spec.schedulingGates"):
        await bind(ns, "web", "n1")


async def test_status_and_spec_are_updated_separately(ns: NamespaceClient) -> None:
    pod = await ns.create(ns.pod(), POD)
    pod["status"] = {"phase": "Running", "message": "hello"}
    pod["spec"]["activeDeadlineSeconds"] = 5
    updated_status = await ns.client.update(POD, pod, subresource="status")
    assert updated_status["status"]["message"] == "hello"
    assert "activeDeadlineSeconds" not in updated_status["spec"]
    updated_status["status"]["message"] = "changed"
    updated_status["spec"]["activeDeadlineSeconds"] = 5
    asked = await ns.client.update(POD, updated_status)
    assert asked["status"]["message"] == "hello"
    assert asked["spec"]["activeDeadlineSeconds"] == 5


async def test_a_status_patch_changes_the_status_only(ns: NamespaceClient) -> None:
    await ns.create(ns.deployment(replicas=2), DEPLOYMENT)
    patch = {"status": {"replicas": 1, "observedGeneration": 1}, "spec": {"replicas": 9}}
    patched = await ns.client.patch(DEPLOYMENT, ns.key("web"), patch, subresource="status")
    assert (patched["spec"]["replicas"], patched["status"]["replicas"]) == (2, 1)
    assert patched["metadata"]["generation"] == 1


async def test_a_workload_is_scaled_through_its_scale_subresource(ns: NamespaceClient) -> None:
    await ns.create(ns.deployment(replicas=2), DEPLOYMENT)
    scale = await ns.client.get(DEPLOYMENT, ns.key("web"), subresource="scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 0, "selector": "app=web"})
    scale["spec"]["replicas"] = 4
    updated = await ns.client.update(DEPLOYMENT, scale, subresource="scale")
    assert updated["spec"]["replicas"] == 4
    patched = await ns.client.patch(DEPLOYMENT, ns.key("web"), {"spec": {"replicas": 7}}, subresource="scale")
    assert patched["spec"]["replicas"] == 7
    deployment = await ns.client.get(DEPLOYMENT, ns.key("web"))
    assert (deployment["spec"]["replicas"], deployment["metadata"]["generation"]) == (7, 3)


async def test_a_negative_scale_is_rejected(ns: NamespaceClient) -> None:
    await ns.create(ns.deployment(), DEPLOYMENT)
    with pytest.raises(Invalid, match="must be greater than or equal to 0"):
        await ns.client.patch(DEPLOYMENT, ns.key("web"), {"spec": {"replicas": -1}}, subresource="scale")


async def test_a_pod_without_a_budget_can_be_evicted(ns: NamespaceClient) -> None:
    await ns.create(ns.pod(), POD)
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web", "namespace": ns.namespace},
    }
    await ns.client.create(POD, eviction, subresource="eviction")
    assert await ns.names(POD) == []


# Events in two API groups


async def test_an_event_is_served_in_both_api_groups(ns: NamespaceClient) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e1", "namespace": ns.namespace},
        "involvedObject": {"kind": "Pod", "name": "web", "namespace": ns.namespace, "uid": "u1"},
        "reason": "Started",
        "message": "hello",
        "type": "Normal",
    }
    await ns.client.create(kinds.EVENT, event)
    other = await ns.client.get(kinds.EVENTS_EVENT, ns.key("e1"))
    assert (other["apiVersion"], other["note"], other["regarding"]["name"]) == (
        "events.k8s.io/v1",
        "hello",
        "web",
    )
    assert await ns.names(kinds.EVENTS_EVENT, fields="regarding.uid=u1") == ["e1"]
    assert await ns.names(kinds.EVENT, fields="involvedObject.uid=u1,reason=Started") == ["e1"]
    assert await ns.names(kinds.EVENT, fields="involvedObject.uid=u2") == []


# Custom resources


WIDGET = Kind("example.com", "v1", "Widget", "widgets")


async def widgets(ns: NamespaceClient) -> None:
    """Creates the CRD of Widgets and waits until they are served."""
    properties = {
        "size": {"type": "integer", "default": 1},
        "weight": {"type": "integer", "minimum": 0},
    }
    spec = {"type": "object", "properties": properties}
    schema = {
        "type": "object",
        "properties": {
            "spec": spec,
            "status": {"type": "object", "properties": {"size": {"type": "integer"}}},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
        },
    }
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [version],
        },
    }
    with contextlib.suppress(AlreadyExists):
        await ns.client.create(kinds.CRD, crd)
    for _ in range(100):
        with contextlib.suppress(NotFound):
            await ns.client.list(WIDGET, ns.query())
            await ns.client.create(WIDGET, widget(ns, "probe"), options=Options(dry_run=True))
            return
        await asyncio.sleep(0.1)
    raise AssertionError("Widgets were not served within ten seconds")


def widget(ns: NamespaceClient, name: str = "w", **spec: Any) -> Manifest:
    metadata = {"name": name, "namespace": ns.namespace}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": spec}


async def test_custom_objects_are_defaulted_pruned_and_validated(ns: NamespaceClient) -> None:
    await widgets(ns)
    created = await ns.create(widget(ns, colour="blue"), WIDGET)
    assert created["spec"] == {"size": 1}
    assert created["metadata"]["generation"] == 1
    with pytest.raises(Invalid) as caught:
        await ns.create(widget(ns, "wrong", weight=-1), WIDGET)
    assert caught.value.message == (
        'Widget.example.com "wrong" is invalid: spec.weight: Invalid value: -1: '
        "spec.weight in body should be greater than or equal to 0"
    )


async def test_custom_objects_are_patched_but_not_strategically(ns: NamespaceClient) -> None:
    await widgets(ns)
    await ns.create(widget(ns, size=1), WIDGET)
    patched = await ns.client.patch(WIDGET, ns.key("w"), {"spec": {"size": 5}})
    assert (patched["spec"]["size"], patched["metadata"]["generation"]) == (5, 2)
    with pytest.raises(UnsupportedMediaType):
        await ns.client.patch(
            WIDGET, ns.key("w"), {"spec": {"size": 6}}, options=Options(patch_type=PatchType.STRATEGIC)
        )
    applied = await ns.client.patch(WIDGET, ns.key("w"), widget(ns, size=5), options=APPLY)
    assert applied["spec"]["size"] == 5


async def test_updates_of_custom_objects_need_a_version(ns: NamespaceClient) -> None:
    await widgets(ns)
    created = await ns.create(widget(ns), WIDGET)
    with pytest.raises(Invalid, match=r"metadata\.resourceVersion: Invalid value: .*: must be specified"):
        await ns.client.update(WIDGET, widget(ns, size=3))
    created["spec"]["size"] = 3
    created["status"] = {"size": 7}
    updated = await ns.client.update(WIDGET, created)
    assert (updated["spec"], updated.get("status")) == ({"size": 3}, None)
    updated["status"] = {"size": 7}
    updated_status = await ns.client.update(WIDGET, updated, subresource="status")
    assert (updated_status["status"], updated_status["metadata"]["generation"]) == ({"size": 7}, 2)


async def test_custom_objects_are_scaled(ns: NamespaceClient) -> None:
    await widgets(ns)
    await ns.create(widget(ns, size=2), WIDGET)
    scaled = await ns.client.patch(WIDGET, ns.key("w"), {"spec": {"replicas": 4}}, subresource="scale")
    assert scaled["spec"] == {"replicas": 4}
    assert (await ns.client.get(WIDGET, ns.key("w")))["spec"] == {"size": 4}
