"""Quotas: usage stays within the limits of the namespace under concurrent requests, and the status reports it."""

import asyncio
import copy
from typing import Any

import pytest

from tests.apiserver.registries import namespace, registry
from volcano.apiserver.admission.chain import chain
from volcano.apiserver.admission.quota import admit_quota
from volcano.apiserver.interfaces import Attributes, Lookup, admission_plugin
from volcano.apiserver.registry.registry import Registry
from volcano.base.clock import Instant
from volcano.kube.api.errors import Forbidden
from volcano.kube.api.kinds import (
    CONFIG_MAP,
    LEASE,
    NAMESPACE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    RESOURCE_QUOTA,
    SERVICE,
    Kind,
)
from volcano.kube.api.manifest import Manifest, key_of
from volcano.kube.resources.quota import used_by

NOW = Instant(1_800_000_000.0, 0.0)


def pod(name: str = "p", cpu: str = "", **spec: Any) -> Manifest:
    container: Manifest = {"name": "main", "image": "busybox"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], **spec},
    }


def quota(hard: dict[str, str], **spec: Any) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": hard, **spec},
    }


@admission_plugin()
async def _slow(
    request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
) -> Manifest | None:
    """A webhook that lets others go ahead."""
    await asyncio.sleep(0)
    return new


async def server(*quotas: Manifest) -> Registry:
    found = registry(admit=chain(_slow, admit_quota))
    await create(found, NAMESPACE, namespace("default"))
    for each in quotas:
        await create(found, RESOURCE_QUOTA, each)
    return found


async def create(target: Registry, kind: Kind, manifest: Manifest) -> None:
    await target.create(Attributes("create", kind, key_of(manifest)), copy.deepcopy(manifest))


async def test_what_exceeds_a_quota_is_refused_with_the_sums() -> None:
    target = await server(quota({"pods": "2"}))
    await create(target, POD, pod("a"))
    await create(target, POD, pod("b"))
    with pytest.raises(Forbidden) as refused:
        await create(target, POD, pod("c"))
    assert refused.value.message == (
        'pods "c" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2'
    )


async def test_of_many_that_ask_at_once_only_as_many_as_fit_get_in() -> None:
    target = await server(quota({"pods": "7", "requests.cpu": "5"}))
    results = await asyncio.gather(
        *(create(target, POD, pod(f"p{number}", cpu="1")) for number in range(20)), return_exceptions=True
    )
    assert sum(result is None for result in results) == 5
    assert all(isinstance(result, Forbidden) for result in results if result is not None)
    assert len(target.lookup.all(POD, "default")) == 5


async def test_any_kind_can_be_counted_by_its_full_name() -> None:
    target = await server(quota({"count/leases.coordination.k8s.io": "1"}))
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "a", "namespace": "default"},
    }
    await create(target, LEASE, lease)
    lease["metadata"] = {"name": "b", "namespace": "default"}
    with pytest.raises(Forbidden, match=r"exceeded quota: q, requested: count/leases.coordination.k8s.io=1"):
        await create(target, LEASE, lease)


async def test_where_cpu_is_limited_every_container_must_say_what_it_wants() -> None:
    target = await server(quota({"requests.cpu": "5", "limits.cpu": "5"}))
    with pytest.raises(
        Forbidden, match=r"failed quota: q: must specify limits.cpu for: main; requests.cpu for: main"
    ):
        await create(target, POD, pod("a"))


async def test_finished_pods_use_nothing_but_a_name() -> None:
    done = pod("a", cpu="1") | {"status": {"phase": "Succeeded"}}
    running = pod("b", cpu="1") | {"status": {"phase": "Running"}}
    used = used_by(quota({"pods": "9", "cpu": "9", "count/pods": "9"}), [(POD, done), (POD, running)])
    assert {name: int(value) for name, value in used.items()} == {"pods": 1, "cpu": 1, "count/pods": 2}


@pytest.mark.parametrize(
    ("scopes", "counted"),
    [
        ({"scopes": ["BestEffort"]}, ["plain"]),
        ({"scopes": ["NotBestEffort"]}, ["cpu", "short"]),
        ({"scopes": ["Terminating"]}, ["short"]),
        ({"scopes": ["NotTerminating", "BestEffort"]}, ["plain"]),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
                }
            },
            ["cpu"],
        ),
    ],
)
def test_scopes_pick_the_pods_a_quota_is_about(scopes: Manifest, counted: list[str]) -> None:
    pods = [
        pod("plain"),
        pod("cpu", cpu="1", priorityClassName="high"),
        pod("short", cpu="1", activeDeadlineSeconds=5),
    ]
    found = [
        each["metadata"]["name"]
        for each in pods
        if used_by(quota({"pods": "9"}, **scopes), [(POD, each)])["pods"] == 1
    ]
    assert found == counted


def test_services_claims_and_everything_else_can_be_counted() -> None:
    balanced = {"spec": {"type": "LoadBalancer", "ports": [{}, {}]}}
    claim = {"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "2Gi"}}}}
    hard = {
        "services": "9",
        "services.nodeports": "9",
        "services.loadbalancers": "9",
        "requests.storage": "9Gi",
        "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "9",
        "configmaps": "9",
        "count/configmaps": "9",
    }
    used = used_by(quota(hard), [(SERVICE, balanced), (PERSISTENT_VOLUME_CLAIM, claim), (CONFIG_MAP, {})])
    assert {name: int(value) for name, value in used.items()} == {
        "services": 1,
        "services.nodeports": 2,
        "services.loadbalancers": 1,
        "requests.storage": 2 * 2**30,
        "fast.storageclass.storage.k8s.io/persistentvolumeclaims": 1,
        "configmaps": 1,
        "count/configmaps": 1,
    }


def test_an_update_counts_only_what_it_adds() -> None:
    async def scenario() -> None:
        target = await server(quota({"requests.storage": "3Gi"}))
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "c", "namespace": "default"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}},
        }
        await create(target, PERSISTENT_VOLUME_CLAIM, claim)
        key = key_of(claim)
        bound = target.lookup.find(PERSISTENT_VOLUME_CLAIM, key)
        assert bound is not None
        bound["status"]["phase"] = "Bound"
        await target.update(Attributes("update", PERSISTENT_VOLUME_CLAIM, key, subresource="status"), bound)
        for size, fits in (("3Gi", True), ("4Gi", False)):
            changed = target.lookup.find(PERSISTENT_VOLUME_CLAIM, key)
            assert changed is not None
            changed["spec"]["resources"]["requests"]["storage"] = size
            request = Attributes("update", PERSISTENT_VOLUME_CLAIM, key)
            if fits:
                await target.update(request, changed)
            else:
                with pytest.raises(
                    Forbidden, match=r"requested: requests.storage=1Gi, used: requests.storage=3Gi"
                ):
                    await target.update(request, changed)

    asyncio.run(scenario())
