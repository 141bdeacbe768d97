"""Exact answers, for every client."""

import asyncio

import pytest

from tests.contracts.namespace_client import NamespaceClient, bind
from volcano.kube.api import kinds
from volcano.kube.api.errors import (
    ApiError,
    BadRequest,
    Conflict,
    NotFound,
)
from volcano.kube.api.kinds import CONFIG_MAP, DEPLOYMENT, NAMESPACE, POD
from volcano.kube.api.manifest import Key, uid_of
from volcano.kube.client.protocol import Options, PatchType


async def test_the_response_to_a_deletion_names_the_object(ns: NamespaceClient) -> None:
    created = await ns.create(ns.config())
    status = await ns.client.delete(CONFIG_MAP, ns.key("settings"))
    assert (status["kind"], status["status"]) == ("Status", "Success")
    assert status["details"] == {"name": "settings", "kind": "configmaps", "uid": uid_of(created)}
    deployment = await ns.create(ns.deployment(), DEPLOYMENT)
    status = await ns.client.delete(DEPLOYMENT, ns.key("web"))
    assert status["details"] == {
        "name": "web",
        "group": "apps",
        "kind": "deployments",
        "uid": uid_of(deployment),
    }


@pytest.mark.parametrize(
    ("propagation", "finalizers"),
    [
        pytest.param("Foreground", ["foregroundDeletion"], id="foreground"),
        pytest.param("Orphan", ["orphan"], id="orphan"),
    ],
)
async def test_a_propagation_policy_is_stored_as_a_finalizer(
    ns: NamespaceClient, propagation: str, finalizers: list[str]
) -> None:
    await ns.create(ns.deployment(), DEPLOYMENT)
    await ns.client.delete(DEPLOYMENT, ns.key("web"), options=Options(propagation=propagation))
    deleted = await ns.client.get(DEPLOYMENT, ns.key("web"))
    assert deleted["metadata"]["finalizers"] == finalizers
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 0
    assert deleted["metadata"]["generation"] == 2


async def test_batch_jobs_orphan_their_pods_by_default(ns: NamespaceClient) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1"}]}}
    job = {"metadata": {"name": "sum", "namespace": ns.namespace}, "spec": {"template": template}}
    await ns.client.create(kinds.BATCH_JOB, {"apiVersion": "batch/v1", "kind": "Job", **job})
    await ns.client.delete(kinds.BATCH_JOB, ns.key("sum"))
    deleted = await ns.client.get(kinds.BATCH_JOB, ns.key("sum"))
    assert deleted["metadata"]["finalizers"] == ["orphan"]


async def test_a_namespace_is_removed_when_its_finalizer_is_removed(ns: NamespaceClient) -> None:
    terminating = await ns.client.delete(NAMESPACE, Key("", ns.namespace))
    assert terminating["spec"]["finalizers"] == ["kubernetes"]
    terminating["spec"]["finalizers"] = []
    await ns.client.update(NAMESPACE, terminating, subresource="finalize")
    with pytest.raises(NotFound):
        await ns.client.get(NAMESPACE, Key("", ns.namespace))


async def test_finalizers_of_a_namespace_change_only_by_finalizing(ns: NamespaceClient) -> None:
    key = Key("", ns.namespace)
    patched = await ns.client.patch(NAMESPACE, key, {"spec": {"finalizers": ["example.com/mine"]}})
    assert patched["spec"]["finalizers"] == ["kubernetes"]


async def test_a_binding_may_contain_the_uid_of_the_pod(ns: NamespaceClient) -> None:
    await ns.create(ns.pod(), POD)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web", "namespace": ns.namespace, "uid": "not-this-one"},
        "target": {"kind": "Node", "name": "n1"},
    }
    with pytest.raises(Conflict, match="UID in precondition: not-this-one"):
        await ns.client.create(POD, binding, subresource="binding")
    del binding["metadata"]["uid"]  # type: ignore[attr-defined]
    binding["metadata"] |= {"annotations": {"why": "because"}, "labels": {"zone": "a"}}  # type: ignore[operator]
    await ns.client.create(POD, binding, subresource="binding")
    pod = await ns.client.get(POD, ns.key("web"))
    assert pod["metadata"]["annotations"]["why"] == "because"
    assert pod["metadata"]["labels"]["zone"] == "a"


async def test_a_binding_needs_a_target(ns: NamespaceClient) -> None:
    await ns.create(ns.pod(), POD)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web", "namespace": ns.namespace},
    }
    with pytest.raises(ApiError):
        await ns.client.create(POD, {**binding, "target": {"name": ""}}, subresource="binding")
    with pytest.raises(NotFound, match='pods "ghost" not found'):
        await bind(ns, "ghost", "n1")


async def test_a_running_pod_gets_a_container_for_debugging(ns: NamespaceClient) -> None:
    await ns.create(ns.pod(), POD)
    debugger = {"name": "debug", "image": "busybox:1"}
    patch = {"spec": {"ephemeralContainers": [debugger], "nodeSelector": {"a": "b"}}}
    options = Options(patch_type=PatchType.STRATEGIC)
    patched = await ns.client.patch(
        POD, ns.key("web"), patch, subresource="ephemeralcontainers", options=options
    )
    assert [container["name"] for container in patched["spec"]["ephemeralContainers"]] == ["debug"]
    assert "nodeSelector" not in patched["spec"]


async def test_resize_changes_resources_only(ns: NamespaceClient) -> None:
    await ns.create(ns.pod(), POD)
    sized = ns.pod("sized")
    sized["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}
    created = await ns.create(sized, POD)
    created["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "150m"
    created["spec"]["containers"][0]["image"] = "busybox:2"
    created["spec"]["activeDeadlineSeconds"] = 5
    created["metadata"]["annotations"] = {"a": "b"}
    resized = await ns.client.update(POD, created, subresource="resize")
    assert resized["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "150m"}
    assert resized["spec"]["containers"][0]["image"] == "busybox:1"
    assert "activeDeadlineSeconds" not in resized["spec"]
    assert "annotations" not in resized["metadata"]
    assert resized["metadata"]["generation"] == 2


async def test_a_stale_scale_conflicts(ns: NamespaceClient) -> None:
    await ns.create(ns.deployment(), DEPLOYMENT)
    scale = await ns.client.get(DEPLOYMENT, ns.key("web"), subresource="scale")
    await ns.client.patch(DEPLOYMENT, ns.key("web"), {"metadata": {"labels": {"a": "b"}}})
    scale["spec"]["replicas"] = 9
    with pytest.raises(Conflict):
        await ns.client.update(DEPLOYMENT, scale, subresource="scale")
    del scale["metadata"]["resourceVersion"]
    assert (await ns.client.update(DEPLOYMENT, scale, subresource="scale"))["spec"]["replicas"] == 9


async def test_strict_field_validation_names_the_unknown_field(ns: NamespaceClient) -> None:
    manifest = {**ns.config(), "colour": "blue"}
    with pytest.raises(BadRequest, match='strict decoding error: unknown field "colour"'):
        await ns.client.create(CONFIG_MAP, manifest, options=Options(field_validation="Strict"))


async def test_a_patch_cannot_rename_an_object(ns: NamespaceClient) -> None:
    await ns.create(ns.config())
    with pytest.raises(ApiError) as caught:
        await ns.client.patch(CONFIG_MAP, ns.key("settings"), {"metadata": {"name": "other"}})
    assert caught.value.code in (400, 422)
    assert await ns.names() == ["settings"]


async def test_an_invalid_continue_token_is_rejected(ns: NamespaceClient) -> None:
    with pytest.raises(BadRequest, match="continue key is not valid"):
        await ns.client.list(CONFIG_MAP, ns.query(limit=1, continue_token="bm9uc2Vuc2U"))


async def test_a_read_after_a_write_sees_it(ns: NamespaceClient) -> None:
    for number in range(10):
        name = f"c{number}"
        await ns.create(ns.config(name))
        assert name in await ns.names()
        await ns.client.delete(CONFIG_MAP, ns.key(name))
        assert name not in await ns.names()


async def test_updates_with_retry_on_conflict_are_not_lost(ns: NamespaceClient) -> None:
    await ns.create(ns.config(count="0"))

    async def increment() -> None:
        while True:
            present = await ns.client.get(CONFIG_MAP, ns.key("settings"))
            present["data"]["count"] = str(int(present["data"]["count"]) + 1)
            try:
                await ns.client.update(CONFIG_MAP, present)
                return
            except Conflict:
                continue

    await asyncio.gather(*(increment() for _ in range(8)))
    assert (await ns.client.get(CONFIG_MAP, ns.key("settings")))["data"] == {"count": "8"}
