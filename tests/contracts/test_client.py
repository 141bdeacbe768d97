"""The contract of every client and server. Where ours and kube-apiserver differ, kube-apiserver is right."""

from dataclasses import replace

import pytest

from tests.contracts.namespaced_client import APPLY, NamespacedClient
from volcano.kube.client import Options, PatchType
from volcano.kube.errors import (
    AlreadyExists,
    Conflict,
    Invalid,
    NotFound,
)
from volcano.kube.kinds import CONFIG_MAP, DEPLOYMENT, LEASE, POD
from volcano.kube.manifest import uid_of

# Create and get


async def test_a_created_object_has_uid_timestamp_and_version_and_can_be_read(api: NamespacedClient) -> None:
    created = await api.create(api.config(colour="blue"))
    metadata = created["metadata"]
    assert metadata["uid"]
    assert metadata["creationTimestamp"].endswith("Z")
    assert int(metadata["resourceVersion"]) > 0
    assert created["data"] == {"colour": "blue"}
    assert await api.client.get(CONFIG_MAP, api.key("settings")) == created


async def test_create_does_not_modify_its_argument(api: NamespacedClient) -> None:
    given = api.config(colour="blue")
    await api.create(given)
    assert given == api.config(colour="blue")


async def test_a_second_create_of_the_same_name_fails(api: NamespacedClient) -> None:
    await api.create(api.config())
    with pytest.raises(AlreadyExists, match=r'^configmaps "settings" already exists$'):
        await api.create(api.config())


async def test_a_missing_object_is_not_found(api: NamespacedClient) -> None:
    with pytest.raises(NotFound, match=r'^deployments.apps "ghost" not found$'):
        await api.client.get(DEPLOYMENT, api.key("ghost"))
    with pytest.raises(NotFound, match=r'^configmaps "ghost" not found$'):
        await api.client.delete(CONFIG_MAP, api.key("ghost"))
    with pytest.raises(NotFound, match=r'^configmaps "ghost" not found$'):
        await api.client.patch(CONFIG_MAP, api.key("ghost"), {"data": {"a": "b"}})


async def test_create_in_a_missing_namespace_fails(api: NamespacedClient) -> None:
    lost = api.config()
    lost["metadata"]["namespace"] = "nowhere"
    with pytest.raises(NotFound, match=r'^namespaces "nowhere" not found$'):
        await api.create(lost)


async def test_names_are_generated(api: NamespacedClient) -> None:
    manifest = api.config()
    del manifest["metadata"]["name"]
    manifest["metadata"]["generateName"] = "made-"
    first, second = await api.create(manifest), await api.create(manifest)
    names = {first["metadata"]["name"], second["metadata"]["name"]}
    assert len(names) == 2
    assert all(name.startswith("made-") and len(name) == 10 for name in names)


async def test_an_object_needs_a_name(api: NamespacedClient) -> None:
    manifest = api.config()
    del manifest["metadata"]["name"]
    with pytest.raises(Invalid, match="name or generateName is required"):
        await api.create(manifest)


async def test_the_error_for_an_invalid_object_names_the_field(api: NamespacedClient) -> None:
    with pytest.raises(Invalid) as caught:
        await api.create(api.pod(containers=[]), POD)
    assert caught.value.message == 'Pod "web" is invalid: spec.containers: Required value'
    assert [(cause.reason, cause.field) for cause in caught.value.causes] == [
        ("FieldValueRequired", "spec.containers")
    ]


async def test_a_dry_run_stores_nothing(api: NamespacedClient) -> None:
    returned = await api.client.create(CONFIG_MAP, api.config(a="b"), options=Options(dry_run=True))
    assert returned["data"] == {"a": "b"}
    assert returned["metadata"]["uid"]
    assert await api.names() == []
    await api.create(api.config(a="b"))
    await api.client.patch(
        CONFIG_MAP, api.key("settings"), {"data": {"a": "c"}}, options=Options(dry_run=True)
    )
    await api.client.delete(CONFIG_MAP, api.key("settings"), options=Options(dry_run=True))
    assert (await api.client.get(CONFIG_MAP, api.key("settings")))["data"] == {"a": "b"}


# Update and patch


async def test_an_update_with_an_old_version_conflicts(api: NamespacedClient) -> None:
    created = await api.create(api.config(a="1"))
    created["data"]["a"] = "2"
    updated = await api.client.update(CONFIG_MAP, created)
    assert int(updated["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])
    with pytest.raises(Conflict) as caught:
        await api.client.update(CONFIG_MAP, created)
    assert caught.value.message == (
        'Operation cannot be fulfilled on configmaps "settings": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


async def test_an_update_without_a_version_is_unconditional(api: NamespacedClient) -> None:
    created = await api.create(api.config(a="1"))
    updated = await api.client.update(CONFIG_MAP, api.config(b="2"))
    assert updated["data"] == {"b": "2"}
    assert uid_of(updated) == uid_of(created)
    assert updated["metadata"]["creationTimestamp"] == created["metadata"]["creationTimestamp"]


async def test_an_update_with_another_uid_conflicts(api: NamespacedClient) -> None:
    created = await api.create(api.config())
    created["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555"
    with pytest.raises(Conflict, match="UID in precondition"):
        await api.client.update(CONFIG_MAP, created)


async def test_an_update_of_a_missing_object_creates_only_certain_kinds(api: NamespacedClient) -> None:
    with pytest.raises(NotFound, match=r'^configmaps "settings" not found$'):
        await api.client.update(CONFIG_MAP, api.config())
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "leader", "namespace": api.namespace},
        "spec": {"holderIdentity": "me"},
    }
    assert uid_of(await api.client.update(LEASE, lease))


async def test_a_write_that_changes_nothing_keeps_the_version(api: NamespacedClient) -> None:
    created = await api.create(api.config(a="1"))
    updated = await api.client.update(CONFIG_MAP, created)
    patched = await api.client.patch(CONFIG_MAP, api.key("settings"), {"data": {"a": "1"}})
    versions = {manifest["metadata"]["resourceVersion"] for manifest in (created, updated, patched)}
    assert len(versions) == 1


async def test_a_merge_patch_sets_and_removes(api: NamespacedClient) -> None:
    await api.create(api.config(keep="1", drop="2"))
    patched = await api.client.patch(CONFIG_MAP, api.key("settings"), {"data": {"drop": None, "add": "3"}})
    assert patched["data"] == {"keep": "1", "add": "3"}


async def test_a_merge_patch_that_names_an_old_version_conflicts(api: NamespacedClient) -> None:
    created = await api.create(api.config(a="1"))
    await api.client.patch(CONFIG_MAP, api.key("settings"), {"data": {"a": "2"}})
    stale = {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}, "data": {"a": "3"}}
    with pytest.raises(Conflict, match="the object has been modified"):
        await api.client.patch(CONFIG_MAP, api.key("settings"), stale)


async def test_a_json_patch_is_applied_in_order_or_not_at_all(api: NamespacedClient) -> None:
    await api.create(api.config(a="1"))
    options = Options(patch_type=PatchType.JSON)
    steps = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "replace", "path": "/data/a", "value": "2"},
        {"op": "add", "path": "/data/b", "value": "3"},
    ]
    patched = await api.client.patch(CONFIG_MAP, api.key("settings"), steps, options=options)
    assert patched["data"] == {"a": "2", "b": "3"}
    with pytest.raises(Invalid):
        await api.client.patch(CONFIG_MAP, api.key("settings"), steps, options=options)
    assert (await api.client.get(CONFIG_MAP, api.key("settings")))["data"] == {"a": "2", "b": "3"}


async def test_a_strategic_patch_merges_lists_by_their_key(api: NamespacedClient) -> None:
    await api.create(api.deployment(), DEPLOYMENT)
    change = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "busybox:2"}]}}}}
    patched = await api.client.patch(
        DEPLOYMENT, api.key("web"), change, options=Options(patch_type=PatchType.STRATEGIC)
    )
    (container,) = patched["spec"]["template"]["spec"]["containers"]
    assert (container["name"], container["image"]) == ("main", "busybox:2")
    assert container["terminationMessagePath"] == "/dev/termination-log"


async def test_generation_counts_changes_of_the_spec(api: NamespacedClient) -> None:
    created = await api.create(api.deployment(), DEPLOYMENT)
    labelled = await api.client.patch(DEPLOYMENT, api.key("web"), {"metadata": {"labels": {"a": "b"}}})
    scaled = await api.client.patch(DEPLOYMENT, api.key("web"), {"spec": {"replicas": 5}})
    generations = [manifest["metadata"]["generation"] for manifest in (created, labelled, scaled)]
    assert generations == [1, 1, 2]


async def test_generation_and_status_cannot_be_patched(api: NamespacedClient) -> None:
    created = await api.create(api.deployment(), DEPLOYMENT)
    patched = await api.client.patch(
        DEPLOYMENT, api.key("web"), {"metadata": {"generation": 77}, "status": {"replicas": 77}}
    )
    assert patched["metadata"]["generation"] == created["metadata"]["generation"]
    assert "replicas" not in patched["status"]


# Server-side apply


async def test_apply_creates_changes_and_removes(api: NamespacedClient) -> None:
    created = await api.client.patch(CONFIG_MAP, api.key("settings"), api.config(a="1", b="2"), options=APPLY)
    assert created["data"] == {"a": "1", "b": "2"}
    changed = await api.client.patch(CONFIG_MAP, api.key("settings"), api.config(a="3"), options=APPLY)
    assert changed["data"] == {"a": "3"}
    assert uid_of(changed) == uid_of(created)
    (entry,) = changed["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("tester", "Apply")


async def test_apply_of_a_field_of_another_manager_conflicts_unless_forced(api: NamespacedClient) -> None:
    await api.client.patch(CONFIG_MAP, api.key("settings"), api.config(a="1"), options=APPLY)
    other = replace(APPLY, field_manager="other")
    with pytest.raises(Conflict, match=r'conflict with "tester": .data.a'):
        await api.client.patch(CONFIG_MAP, api.key("settings"), api.config(a="2"), options=other)
    forced = await api.client.patch(
        CONFIG_MAP, api.key("settings"), api.config(a="2"), options=replace(other, force=True)
    )
    assert forced["data"] == {"a": "2"}
