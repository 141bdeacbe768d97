"""The contract of every client, with any server. Where ours and the real server disagree, the real one is
right."""

from dataclasses import replace

import pytest

from tests.contracts.namespace_client import APPLY, NamespaceClient
from volcano.kube.api.errors import (
    AlreadyExists,
    Conflict,
    Invalid,
    NotFound,
)
from volcano.kube.api.kinds import CONFIG_MAP, DEPLOYMENT, LEASE, POD
from volcano.kube.api.manifest import uid_of
from volcano.kube.client.protocol import Options, PatchType

# Create and get


async def test_a_created_object_has_uid_timestamp_and_version_and_can_be_read(ns: NamespaceClient) -> None:
    created = await ns.create(ns.config(colour="blue"))
    metadata = created["metadata"]
    assert metadata["uid"]
    assert metadata["creationTimestamp"].endswith("Z")
    assert int(metadata["resourceVersion"]) > 0
    assert created["data"] == {"colour": "blue"}
    assert await ns.client.get(CONFIG_MAP, ns.key("settings")) == created


async def test_create_does_not_modify_its_argument(ns: NamespaceClient) -> None:
    given = ns.config(colour="blue")
    await ns.create(given)
    assert given == ns.config(colour="blue")


async def test_a_second_create_of_the_same_name_fails(ns: NamespaceClient) -> None:
    await ns.create(ns.config())
    with pytest.raises(AlreadyExists, match=r'^configmaps "settings" already exists$'):
        await ns.create(ns.config())


async def test_a_missing_object_is_not_found(ns: NamespaceClient) -> None:
    with pytest.raises(NotFound, match=r'^deployments.apps "ghost" not found$'):
        await ns.client.get(DEPLOYMENT, ns.key("ghost"))
    with pytest.raises(NotFound, match=r'^configmaps "ghost" not found$'):
        await ns.client.delete(CONFIG_MAP, ns.key("ghost"))
    with pytest.raises(NotFound, match=r'^configmaps "ghost" not found$'):
        await ns.client.patch(CONFIG_MAP, ns.key("ghost"), {"data": {"a": "b"}})


async def test_create_in_a_missing_namespace_fails(ns: NamespaceClient) -> None:
    lost = ns.config()
    lost["metadata"]["namespace"] = "nowhere"
    with pytest.raises(NotFound, match=r'^namespaces "nowhere" not found$'):
        await ns.create(lost)


async def test_names_are_generated(ns: NamespaceClient) -> None:
    manifest = ns.config()
    del manifest["metadata"]["name"]
    manifest["metadata"]["generateName"] = "made-"
    first, second = await ns.create(manifest), await ns.create(manifest)
    names = {first["metadata"]["name"], second["metadata"]["name"]}
    assert len(names) == 2
    assert all(name.startswith("made-") and len(name) == 10 for name in names)


async def test_an_object_needs_a_name(ns: NamespaceClient) -> None:
    manifest = ns.config()
    del manifest["metadata"]["name"]
    with pytest.raises(Invalid, match="name or generateName is required"):
        await ns.create(manifest)


async def test_the_error_for_an_invalid_object_names_the_field(ns: NamespaceClient) -> None:
    with pytest.raises(Invalid) as caught:
        await ns.create(ns.pod(containers=[]), POD)
    assert caught.value.message == 'Pod "web" is invalid: spec.containers: Required value'
    assert [(cause.reason, cause.field) for cause in caught.value.causes] == [
        ("FieldValueRequired", "spec.containers")
    ]


async def test_a_dry_run_stores_nothing(ns: NamespaceClient) -> None:
    returned = await ns.client.create(CONFIG_MAP, ns.config(a="b"), options=Options(dry_run=True))
    assert returned["data"] == {"a": "b"}
    assert returned["metadata"]["uid"]
    assert await ns.names() == []
    await ns.create(ns.config(a="b"))
    await ns.client.patch(CONFIG_MAP, ns.key("settings"), {"data": {"a": "c"}}, options=Options(dry_run=True))
    await ns.client.delete(CONFIG_MAP, ns.key("settings"), options=Options(dry_run=True))
    assert (await ns.client.get(CONFIG_MAP, ns.key("settings")))["data"] == {"a": "b"}


# Update and patch


async def test_an_update_with_an_old_version_conflicts(ns: NamespaceClient) -> None:
    created = await ns.create(ns.config(a="1"))
    created["data"]["a"] = "2"
    updated = await ns.client.update(CONFIG_MAP, created)
    assert int(updated["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])
    with pytest.raises(Conflict) as caught:
        await ns.client.update(CONFIG_MAP, created)
    assert caught.value.message == (
        'Operation cannot be fulfilled on configmaps "settings": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


async def test_an_update_without_a_version_is_unconditional(ns: NamespaceClient) -> None:
    created = await ns.create(ns.config(a="1"))
    updated = await ns.client.update(CONFIG_MAP, ns.config(b="2"))
    assert updated["data"] == {"b": "2"}
    assert uid_of(updated) == uid_of(created)
    assert updated["metadata"]["creationTimestamp"] == created["metadata"]["creationTimestamp"]


async def test_an_update_with_another_uid_conflicts(ns: NamespaceClient) -> None:
    created = await ns.create(ns.config())
    created["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555"
    with pytest.raises(Conflict, match="UID in precondition"):
        await ns.client.update(CONFIG_MAP, created)


async def test_an_update_of_a_missing_object_creates_only_certain_kinds(ns: NamespaceClient) -> None:
    with pytest.raises(NotFound, match=r'^configmaps "settings" not found$'):
        await ns.client.update(CONFIG_MAP, ns.config())
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "leader", "namespace": ns.namespace},
        "spec": {"holderIdentity": "me"},
    }
    assert uid_of(await ns.client.update(LEASE, lease))


async def test_a_write_that_changes_nothing_keeps_the_version(ns: NamespaceClient) -> None:
    created = await ns.create(ns.config(a="1"))
    updated = await ns.client.update(CONFIG_MAP, created)
    patched = await ns.client.patch(CONFIG_MAP, ns.key("settings"), {"data": {"a": "1"}})
    versions = {manifest["metadata"]["resourceVersion"] for manifest in (created, updated, patched)}
    assert len(versions) == 1


async def test_a_merge_patch_sets_and_removes(ns: NamespaceClient) -> None:
    await ns.create(ns.config(keep="1", drop="2"))
    patched = await ns.client.patch(CONFIG_MAP, ns.key("settings"), {"data": {"drop": None, "add": "3"}})
    assert patched["data"] == {"keep": "1", "add": "3"}


async def test_a_merge_patch_that_names_an_old_version_conflicts(ns: NamespaceClient) -> None:
    created = await ns.create(ns.config(a="1"))
    await ns.client.patch(CONFIG_MAP, ns.key("settings"), {"data": {"a": "2"}})
    stale = {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}, "data": {"a": "3"}}
    with pytest.raises(Conflict, match="the object has been modified"):
        await ns.client.patch(CONFIG_MAP, ns.key("settings"), stale)


async def test_a_json_patch_is_applied_in_order_or_not_at_all(ns: NamespaceClient) -> None:
    await ns.create(ns.config(a="1"))
    options = Options(patch_type=PatchType.JSON)
    steps = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "replace", "path": "/data/a", "value": "2"},
        {"op": "add", "path": "/data/b", "value": "3"},
    ]
    patched = await ns.client.patch(CONFIG_MAP, ns.key("settings"), steps, options=options)
    assert patched["data"] == {"a": "2", "b": "3"}
    with pytest.raises(Invalid):
        await ns.client.patch(CONFIG_MAP, ns.key("settings"), steps, options=options)
    assert (await ns.client.get(CONFIG_MAP, ns.key("settings")))["data"] == {"a": "2", "b": "3"}


async def test_a_strategic_patch_merges_lists_by_their_key(ns: NamespaceClient) -> None:
    await ns.create(ns.deployment(), DEPLOYMENT)
    change = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "busybox:2"}]}}}}
    patched = await ns.client.patch(
        DEPLOYMENT, ns.key("web"), change, options=Options(patch_type=PatchType.STRATEGIC)
    )
    (container,) = patched["spec"]["template"]["spec"]["containers"]
    assert (container["name"], container["image"]) == ("main", "busybox:2")
    assert container["terminationMessagePath"] == "/dev/termination-log"


async def test_generation_counts_changes_of_the_spec(ns: NamespaceClient) -> None:
    created = await ns.create(ns.deployment(), DEPLOYMENT)
    labelled = await ns.client.patch(DEPLOYMENT, ns.key("web"), {"metadata": {"labels": {"a": "b"}}})
    scaled = await ns.client.patch(DEPLOYMENT, ns.key("web"), {"spec": {"replicas": 5}})
    generations = [manifest["metadata"]["generation"] for manifest in (created, labelled, scaled)]
    assert generations == [1, 1, 2]


async def test_generation_and_status_cannot_be_patched(ns: NamespaceClient) -> None:
    created = await ns.create(ns.deployment(), DEPLOYMENT)
    patched = await ns.client.patch(
        DEPLOYMENT, ns.key("web"), {"metadata": {"generation": 77}, "status": {"replicas": 77}}
    )
    assert patched["metadata"]["generation"] == created["metadata"]["generation"]
    assert "replicas" not in patched["status"]


# Server-side apply


async def test_apply_creates_changes_and_removes(ns: NamespaceClient) -> None:
    created = await ns.client.patch(CONFIG_MAP, ns.key("settings"), ns.config(a="1", b="2"), options=APPLY)
    assert created["data"] == {"a": "1", "b": "2"}
    changed = await ns.client.patch(CONFIG_MAP, ns.key("settings"), ns.config(a="3"), options=APPLY)
    assert changed["data"] == {"a": "3"}
    assert uid_of(changed) == uid_of(created)
    (entry,) = changed["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("tester", "Apply")


async def test_apply_of_a_field_of_another_manager_conflicts_unless_forced(ns: NamespaceClient) -> None:
    await ns.client.patch(CONFIG_MAP, ns.key("settings"), ns.config(a="1"), options=APPLY)
    other = replace(APPLY, field_manager="other")
    with pytest.raises(Conflict, match=r'conflict with "tester": .data.a'):
        await ns.client.patch(CONFIG_MAP, ns.key("settings"), ns.config(a="2"), options=other)
    forced = await ns.client.patch(
        CONFIG_MAP, ns.key("settings"), ns.config(a="2"), options=replace(other, force=True)
    )
    assert forced["data"] == {"a": "2"}
