"""The exact responses to every client."""

import asyncio

import pytest

from tests.contracts.namespaced_client import NamespacedClient, bind
from volcano.kube import kinds
from volcano.kube.client import Options, PatchType
from volcano.kube.errors import (
    ApiError,
    BadRequest,
    Conflict,
    NotFound,
)
from volcano.kube.kinds import CONFIG_MAP, DEPLOYMENT, NAMESPACE, POD
from volcano.kube.manifest import Key, uid_of


async def test_the_response_to_a_deletion_names_the_object(api: NamespacedClient) -> None:
    created = await api.create(api.config())
    status = await api.client.delete(CONFIG_MAP, api.key("settings"))
    assert (status["kind"], status["status"]) == ("Status", "Success")
    assert status["details"] == {"name": "settings", "kind": "configmaps", "uid": uid_of(created)}
    deployment = await api.create(api.deployment(), DEPLOYMENT)
    status = await api.client.delete(DEPLOYMENT, api.key("web"))
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
    api: NamespacedClient, propagation: str, finalizers: list[str]
) -> None:
    await api.create(api.deployment(), DEPLOYMENT)
    await api.client.delete(DEPLOYMENT, api.key("web"), options=Options(propagation=propagation))
    deleted = await api.client.get(DEPLOYMENT, api.key("web"))
    assert deleted["metadata"]["finalizers"] == finalizers
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 0
    assert deleted["metadata"]["generation"] == 2


async def test_batch_jobs_orphan_their_pods_by_default(api: NamespacedClient) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1"}]}}
    job = {"metadata": {"name": "sum", "namespace": api.namespace}, "spec": {"template": template}}
    await api.client.create(kinds.BATCH_JOB, {"apiVersion": "batch/v1", "kind": "Job", **job})
    await api.client.delete(kinds.BATCH_JOB, api.key("sum"))
    deleted = await api.client.get(kinds.BATCH_JOB, api.key("sum"))
    assert deleted["metadata"]["finalizers"] == ["orphan"]


async def test_a_namespace_is_removed_when_its_finalizer_is_removed(api: NamespacedClient) -> None:
    terminating = await api.client.delete(NAMESPACE, Key("", api.namespace))
    assert terminating["spec"]["finalizers"] == ["kubernetes"]
    terminating["spec"]["finalizers"] = []
    await api.client.update(NAMESPACE, terminating, subresource="finalize")
    with pytest.raises(NotFound):
        await api.client.get(NAMESPACE, Key("", api.namespace))


async def test_finalizers_of_a_namespace_change_only_by_finalizing(api: NamespacedClient) -> None:
    key = Key("", api.namespace)
    patched = await api.client.patch(NAMESPACE, key, {"spec": {"finalizers": ["example.com/mine"]}})
    assert patched["spec"]["finalizers"] == ["kubernetes"]


async def test_a_binding_may_contain_the_uid_of_the_pod(api: NamespacedClient) -> None:
    await api.create(api.pod(), POD)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web", "namespace": api.namespace, "uid": "not-this-one"},
        "target": {"kind": "Node", "name": "n1"},
    }
    with pytest.raises(Conflict, match="UID in precondition: not-this-one"):
        await api.client.create(POD, binding, subresource="binding")
    del binding["metadata"]["uid"]  # type: ignore[attr-defined]
    binding["metadata"] |= {"annotations": {"why": "because"}, "labels": {"zone": "a"}}  # type: ignore[operator]
    await api.client.create(POD, binding, subresource="binding")
    pod = await api.client.get(POD, api.key("web"))
    assert pod["metadata"]["annotations"]["why"] == "because"
    assert pod["metadata"]["labels"]["zone"] == "a"


async def test_a_binding_needs_a_target(api: NamespacedClient) -> None:
    await api.create(api.pod(), POD)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web", "namespace": api.namespace},
    }
    with pytest.raises(ApiError):
        await api.client.create(POD, {**binding, "target": {"name": ""}}, subresource="binding")
    with pytest.raises(NotFound, match='pods "ghost" not found'):
        await bind(api, "ghost", "n1")


async def test_a_running_pod_gets_a_container_for_debugging(api: NamespacedClient) -> None:
    await api.create(api.pod(), POD)
    debugger = {"name": "debug", "image": "busybox:1"}
    patch = {"spec": {"ephemeralContainers": [debugger], "nodeSelector": {"a": "b"}}}
    options = Options(patch_type=PatchType.STRATEGIC)
    patched = await api.client.patch(
        POD, api.key("web"), patch, subresource="ephemeralcontainers", options=options
    )
    assert [container["name"] for container in patched["spec"]["ephemeralContainers"]] == ["debug"]
    assert "nodeSelector" not in patched["spec"]


async def test_resize_changes_resources_only(api: NamespacedClient) -> None:
    await api.create(api.pod(), POD)
    sized = api.pod("sized")
    sized["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}
    created = await api.create(sized, POD)
    created["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "150m"
    created["spec"]["containers"][0]["image"] = "busybox:2"
    created["spec"]["activeDeadlineSeconds"] = 5
    created["metadata"]["annotations"] = {"a": "b"}
    resized = await api.client.update(POD, created, subresource="resize")
    assert resized["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "150m"}
    assert resized["spec"]["containers"][0]["image"] == "busybox:1"
    assert "activeDeadlineSeconds" not in resized["spec"]
    assert "annotations" not in resized["metadata"]
    assert resized["metadata"]["generation"] == 2


async def test_a_stale_scale_conflicts(api: NamespacedClient) -> None:
    await api.create(api.deployment(), DEPLOYMENT)
    scale = await api.client.get(DEPLOYMENT, api.key("web"), subresource="scale")
    await api.client.patch(DEPLOYMENT, api.key("web"), {"metadata": {"labels": {"a": "b"}}})
    scale["spec"]["replicas"] = 9
    with pytest.raises(Conflict):
        await api.client.update(DEPLOYMENT, scale, subresource="scale")
    del scale["metadata"]["resourceVersion"]
    assert (await api.client.update(DEPLOYMENT, scale, subresource="scale"))["spec"]["replicas"] == 9


async def test_strict_field_validation_names_the_unknown_field(api: NamespacedClient) -> None:
    manifest = {**api.config(), "colour": "blue"}
    with pytest.raises(BadRequest, match='strict decoding error: unknown field "colour"'):
        await api.client.create(CONFIG_MAP, manifest, options=Options(field_validation="Strict"))


async def test_a_patch_cannot_rename_an_object(api: NamespacedClient) -> None:
    await api.create(api.config())
    with pytest.raises(ApiError) as caught:
        await api.client.patch(CONFIG_MAP, api.key("settings"), {"metadata": {"name": "other"}})
    assert caught.value.code in (400, 422)
    assert await api.names() == ["settings"]


async def test_an_invalid_continue_token_is_rejected(api: NamespacedClient) -> None:
    with pytest.raises(BadRequest, match="continue key is not valid"):
        await api.client.list(CONFIG_MAP, api.query(limit=1, continue_token="bm9uc2Vuc2U"))


async def test_a_read_after_a_write_sees_it(api: NamespacedClient) -> None:
    for number in range(10):
        name = f"c{number}"
        await api.create(api.config(name))
        assert name in await api.names()
        await api.client.delete(CONFIG_MAP, api.key(name))
        assert name not in await api.names()


async def test_updates_with_retry_on_conflict_are_not_lost(api: NamespacedClient) -> None:
    await api.create(api.config(count="0"))

    async def increment() -> None:
        while True:
            present = await api.client.get(CONFIG_MAP, api.key("settings"))
            present["data"]["count"] = str(int(present["data"]["count"]) + 1)
            try:
                await api.client.update(CONFIG_MAP, present)
                return
            except Conflict:
                continue

    await asyncio.gather(*(increment() for _ in range(8)))
    assert (await api.client.get(CONFIG_MAP, api.key("settings")))["data"] == {"count": "8"}
