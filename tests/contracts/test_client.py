"""What every client may rely on, whoever answers. Where ours and the real server disagree, the real one is right."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.clients import OURS, Opened, real
from volcano.kube import kinds
from volcano.kube.client import Client, EventType, Options, PatchType, Query
from volcano.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Invalid,
    NotFound,
    Timeout,
    UnsupportedMediaType,
)
from volcano.kube.kinds import CONFIG_MAP, DEPLOYMENT, LEASE, NAMESPACE, POD, SECRET, Kind
from volcano.kube.manifest import Key, Manifest, uid_of

SERVERS = [*OURS, pytest.param("real", marks=pytest.mark.k8s)]
_numbers = itertools.count(1)


@dataclass
class Room:
    """A client and a namespace of its own."""

    client: Client
    namespace: str

    def key(self, name: str) -> Key:
        return Key(self.namespace, name)

    def query(self, **more: Any) -> Query:
        return Query(namespace=self.namespace, **more)

    def config(self, name: str = "settings", labels: dict[str, str] | None = None, **data: str) -> Manifest:
        metadata: Manifest = {"name": name, "namespace": self.namespace}
        if labels:
            metadata["labels"] = labels
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}

    def pod(self, name: str = "web", **spec: Any) -> Manifest:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"containers": [{"name": "main", "image": "busybox:1"}], **spec},
        }

    def deployment(self, name: str = "web", replicas: int = 2) -> Manifest:
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "main", "image": "busybox:1"}]},
                },
            },
        }

    async def create(self, manifest: Manifest, kind: Kind = CONFIG_MAP) -> Manifest:
        return await self.client.create(kind, manifest)

    async def names(self, kind: Kind = CONFIG_MAP, **query: Any) -> list[str]:
        listing = await self.client.list(kind, self.query(**query))
        return [item["metadata"]["name"] for item in listing.items if not _everywhere(item)]


def _everywhere(item: Manifest) -> bool:
    """Whether a controller puts this object into every namespace."""
    return bool(item["metadata"]["name"] == "kube-root-ca.crt")


@pytest.fixture(params=SERVERS)
async def room(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Room]:
    """A namespace on each server in turn."""
    opened: Opened
    if request.param == "real":
        opened = real(request.getfixturevalue("real_apiserver"))
    else:
        opened = OURS[request.param](tmp_path)
    async with opened as client:
        name = f"room-{next(_numbers)}"
        await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        yield Room(client, name)


# Creating and reading


async def test_a_created_object_gets_its_identity_and_is_found_again(room: Room) -> None:
    created = await room.create(room.config(colour="blue"))
    metadata = created["metadata"]
    assert metadata["uid"]
    assert metadata["creationTimestamp"].endswith("Z")
    assert int(metadata["resourceVersion"]) > 0
    assert created["data"] == {"colour": "blue"}
    assert await room.client.get(CONFIG_MAP, room.key("settings")) == created


async def test_what_is_given_is_not_changed(room: Room) -> None:
    given = room.config(colour="blue")
    await room.create(given)
    assert given == room.config(colour="blue")


async def test_a_name_can_be_taken_only_once(room: Room) -> None:
    await room.create(room.config())
    with pytest.raises(AlreadyExists, match=r'^configmaps "settings" already exists$'):
        await room.create(room.config())


async def test_what_is_not_there_is_not_found(room: Room) -> None:
    with pytest.raises(NotFound, match=r'^deployments.apps "ghost" not found$'):
        await room.client.get(DEPLOYMENT, room.key("ghost"))
    with pytest.raises(NotFound, match=r'^configmaps "ghost" not found$'):
        await room.client.delete(CONFIG_MAP, room.key("ghost"))
    with pytest.raises(NotFound, match=r'^configmaps "ghost" not found$'):
        await room.client.patch(CONFIG_MAP, room.key("ghost"), {"data": {"a": "b"}})


async def test_nothing_is_created_in_a_namespace_that_is_not_there(room: Room) -> None:
    lost = room.config()
    lost["metadata"]["namespace"] = "nowhere"
    with pytest.raises(NotFound, match=r'^namespaces "nowhere" not found$'):
        await room.create(lost)


async def test_names_are_generated(room: Room) -> None:
    manifest = room.config()
    del manifest["metadata"]["name"]
    manifest["metadata"]["generateName"] = "made-"
    first, second = await room.create(manifest), await room.create(manifest)
    names = {first["metadata"]["name"], second["metadata"]["name"]}
    assert len(names) == 2
    assert all(name.startswith("made-") and len(name) == 10 for name in names)


async def test_an_object_needs_a_name(room: Room) -> None:
    manifest = room.config()
    del manifest["metadata"]["name"]
    with pytest.raises(Invalid, match="name or generateName is required"):
        await room.create(manifest)


async def test_an_invalid_object_is_refused_with_the_field(room: Room) -> None:
    with pytest.raises(Invalid) as refused:
        await room.create(room.pod(containers=[]), POD)
    assert refused.value.message == 'Pod "web" is invalid: spec.containers: Required value'
    assert [(cause.reason, cause.field) for cause in refused.value.causes] == [
        ("FieldValueRequired", "spec.containers")
    ]


async def test_a_dry_run_leaves_nothing_behind(room: Room) -> None:
    shown = await room.client.create(CONFIG_MAP, room.config(a="b"), options=Options(dry_run=True))
    assert shown["data"] == {"a": "b"}
    assert shown["metadata"]["uid"]
    assert await room.names() == []
    await room.create(room.config(a="b"))
    await room.client.patch(
        CONFIG_MAP, room.key("settings"), {"data": {"a": "c"}}, options=Options(dry_run=True)
    )
    await room.client.delete(CONFIG_MAP, room.key("settings"), options=Options(dry_run=True))
    assert (await room.client.get(CONFIG_MAP, room.key("settings")))["data"] == {"a": "b"}


# Changing


async def test_an_update_with_an_old_version_conflicts(room: Room) -> None:
    created = await room.create(room.config(a="1"))
    created["data"]["a"] = "2"
    updated = await room.client.update(CONFIG_MAP, created)
    assert int(updated["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])
    with pytest.raises(Conflict) as refused:
        await room.client.update(CONFIG_MAP, created)
    assert refused.value.message == (
        'Operation cannot be fulfilled on configmaps "settings": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


async def test_an_update_without_a_version_replaces_whatever_is_there(room: Room) -> None:
    created = await room.create(room.config(a="1"))
    updated = await room.client.update(CONFIG_MAP, room.config(b="2"))
    assert updated["data"] == {"b": "2"}
    assert uid_of(updated) == uid_of(created)
    assert updated["metadata"]["creationTimestamp"] == created["metadata"]["creationTimestamp"]


async def test_an_update_of_another_object_of_that_name_conflicts(room: Room) -> None:
    created = await room.create(room.config())
    created["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555"
    with pytest.raises(Conflict, match="UID in precondition"):
        await room.client.update(CONFIG_MAP, created)


async def test_an_update_of_what_is_not_there_creates_only_certain_kinds(room: Room) -> None:
    with pytest.raises(NotFound, match=r'^configmaps "settings" not found$'):
        await room.client.update(CONFIG_MAP, room.config())
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "leader", "namespace": room.namespace},
        "spec": {"holderIdentity": "me"},
    }
    assert uid_of(await room.client.update(LEASE, lease))


async def test_a_write_that_changes_nothing_keeps_the_version(room: Room) -> None:
    created = await room.create(room.config(a="1"))
    updated = await room.client.update(CONFIG_MAP, created)
    patched = await room.client.patch(CONFIG_MAP, room.key("settings"), {"data": {"a": "1"}})
    versions = {manifest["metadata"]["resourceVersion"] for manifest in (created, updated, patched)}
    assert len(versions) == 1


async def test_a_merge_patch_sets_and_removes(room: Room) -> None:
    await room.create(room.config(keep="1", drop="2"))
    patched = await room.client.patch(CONFIG_MAP, room.key("settings"), {"data": {"drop": None, "add": "3"}})
    assert patched["data"] == {"keep": "1", "add": "3"}


async def test_a_merge_patch_that_names_an_old_version_conflicts(room: Room) -> None:
    created = await room.create(room.config(a="1"))
    await room.client.patch(CONFIG_MAP, room.key("settings"), {"data": {"a": "2"}})
    stale = {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}, "data": {"a": "3"}}
    with pytest.raises(Conflict, match="the object has been modified"):
        await room.client.patch(CONFIG_MAP, room.key("settings"), stale)


async def test_a_json_patch_is_done_in_order_or_not_at_all(room: Room) -> None:
    await room.create(room.config(a="1"))
    options = Options(patch_type=PatchType.JSON)
    steps = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "replace", "path": "/data/a", "value": "2"},
        {"op": "add", "path": "/data/b", "value": "3"},
    ]
    patched = await room.client.patch(CONFIG_MAP, room.key("settings"), steps, options=options)
    assert patched["data"] == {"a": "2", "b": "3"}
    with pytest.raises(Invalid):
        await room.client.patch(CONFIG_MAP, room.key("settings"), steps, options=options)
    assert (await room.client.get(CONFIG_MAP, room.key("settings")))["data"] == {"a": "2", "b": "3"}


async def test_a_strategic_patch_merges_lists_by_their_key(room: Room) -> None:
    await room.create(room.deployment(), DEPLOYMENT)
    change = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "busybox:2"}]}}}}
    patched = await room.client.patch(
        DEPLOYMENT, room.key("web"), change, options=Options(patch_type=PatchType.STRATEGIC)
    )
    (container,) = patched["spec"]["template"]["spec"]["containers"]
    assert (container["name"], container["image"]) == ("main", "busybox:2")
    assert container["terminationMessagePath"] == "/dev/termination-log"


async def test_generation_counts_changes_of_what_is_asked_for(room: Room) -> None:
    created = await room.create(room.deployment(), DEPLOYMENT)
    labelled = await room.client.patch(DEPLOYMENT, room.key("web"), {"metadata": {"labels": {"a": "b"}}})
    scaled = await room.client.patch(DEPLOYMENT, room.key("web"), {"spec": {"replicas": 5}})
    generations = [manifest["metadata"]["generation"] for manifest in (created, labelled, scaled)]
    assert generations == [1, 1, 2]


async def test_what_only_the_server_sets_cannot_be_changed(room: Room) -> None:
    created = await room.create(room.deployment(), DEPLOYMENT)
    patched = await room.client.patch(
        DEPLOYMENT, room.key("web"), {"metadata": {"generation": 77}, "status": {"replicas": 77}}
    )
    assert patched["metadata"]["generation"] == created["metadata"]["generation"]
    assert "replicas" not in patched["status"]


# Server-side apply


APPLY = Options(patch_type=PatchType.APPLY, field_manager="tester")


async def test_applying_creates_and_then_changes_and_removes(room: Room) -> None:
    created = await room.client.patch(
        CONFIG_MAP, room.key("settings"), room.config(a="1", b="2"), options=APPLY
    )
    assert created["data"] == {"a": "1", "b": "2"}
    changed = await room.client.patch(CONFIG_MAP, room.key("settings"), room.config(a="3"), options=APPLY)
    assert changed["data"] == {"a": "3"}
    assert uid_of(changed) == uid_of(created)
    (entry,) = changed["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("tester", "Apply")


async def test_applying_over_a_field_of_another_conflicts_unless_forced(room: Room) -> None:
    await room.client.patch(CONFIG_MAP, room.key("settings"), room.config(a="1"), options=APPLY)
    other = replace(APPLY, field_manager="other")
    with pytest.raises(Conflict, match=r'conflict with "tester": .data.a'):
        await room.client.patch(CONFIG_MAP, room.key("settings"), room.config(a="2"), options=other)
    forced = await room.client.patch(
        CONFIG_MAP, room.key("settings"), room.config(a="2"), options=replace(other, force=True)
    )
    assert forced["data"] == {"a": "2"}


# Deleting


async def test_a_deleted_object_is_gone(room: Room) -> None:
    await room.create(room.config())
    await room.client.delete(CONFIG_MAP, room.key("settings"))
    with pytest.raises(NotFound):
        await room.client.get(CONFIG_MAP, room.key("settings"))


async def test_a_deletion_may_say_which_object_it_means(room: Room) -> None:
    created = await room.create(room.config())
    wrong = Options(uid="11111111-2222-3333-4444-555555555555")
    with pytest.raises(Conflict, match="does not match the UID in record"):
        await room.client.delete(CONFIG_MAP, room.key("settings"), options=wrong)
    stale = Options(resource_version="1")
    with pytest.raises(Conflict, match="does not match the ResourceVersion in record"):
        await room.client.delete(CONFIG_MAP, room.key("settings"), options=stale)
    await room.client.delete(CONFIG_MAP, room.key("settings"), options=Options(uid=uid_of(created)))
    assert await room.names() == []


async def test_a_finalizer_holds_an_object_until_it_is_taken_off(room: Room) -> None:
    manifest = room.config()
    manifest["metadata"]["finalizers"] = ["example.com/hold"]
    await room.create(manifest)
    await room.client.delete(CONFIG_MAP, room.key("settings"))
    held = await room.client.get(CONFIG_MAP, room.key("settings"))
    assert held["metadata"]["deletionTimestamp"]
    with pytest.raises(Invalid, match="no new finalizers can be added if the object is being deleted"):
        await room.client.patch(
            CONFIG_MAP,
            room.key("settings"),
            {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}},
        )
    await room.client.patch(CONFIG_MAP, room.key("settings"), {"metadata": {"finalizers": None}})
    with pytest.raises(NotFound):
        await room.client.get(CONFIG_MAP, room.key("settings"))


async def test_a_pod_that_runs_nowhere_goes_at_once(room: Room) -> None:
    await room.create(room.pod(), POD)
    gone = await room.client.delete(POD, room.key("web"))
    assert gone["metadata"]["name"] == "web"
    assert await room.names(POD) == []


async def test_a_bound_pod_gets_its_grace_period_which_can_be_shortened(room: Room) -> None:
    await room.create(room.pod(nodeName="n1"), POD)
    going = await room.client.delete(POD, room.key("web"))
    assert going["metadata"]["deletionGracePeriodSeconds"] == 30
    assert going["metadata"]["generation"] == 2
    again = await room.client.delete(POD, room.key("web"), options=Options(grace_seconds=60))
    assert again["metadata"]["deletionGracePeriodSeconds"] == 30
    sooner = await room.client.delete(POD, room.key("web"), options=Options(grace_seconds=5))
    assert sooner["metadata"]["deletionGracePeriodSeconds"] == 5
    await room.client.delete(POD, room.key("web"), options=Options(grace_seconds=0))
    assert await room.names(POD) == []


async def test_the_first_namespaces_cannot_be_deleted(room: Room) -> None:
    with pytest.raises(
        ApiError, match='namespaces "default" is forbidden: this namespace may not be deleted'
    ):
        await room.client.delete(NAMESPACE, Key("", "default"))


async def test_a_terminating_namespace_takes_nothing_new(room: Room) -> None:
    await room.create(room.config())
    await room.client.patch(
        CONFIG_MAP, room.key("settings"), {"metadata": {"finalizers": ["example.com/hold"]}}
    )
    ended = await room.client.delete(NAMESPACE, Key("", room.namespace))
    assert ended["status"]["phase"] == "Terminating"
    with pytest.raises(ApiError) as refused:
        await room.create(room.config("late"))
    assert refused.value.code == 403
    assert "because it is being terminated" in refused.value.message


# Listing


async def test_lists_are_in_order_and_selected_by_labels_and_fields(room: Room) -> None:
    for name, tier in (("c", "front"), ("a", "back"), ("b", "front")):
        await room.create(room.config(name, {"tier": tier}))
    assert await room.names() == ["a", "b", "c"]
    assert await room.names(labels="tier=front") == ["b", "c"]
    assert await room.names(labels="tier in (back),!missing") == ["a"]
    assert await room.names(fields="metadata.name=b") == ["b"]
    assert await room.names(fields=f"metadata.name!=b,metadata.namespace={room.namespace}") == ["a", "c"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param("spec.nodeName=n1", ["bound"], id="the node"),
        pytest.param("spec.nodeName=", ["free"], id="no node"),
        pytest.param("spec.nodeName!=n1", ["free"], id="another node"),
        pytest.param("status.phase=Pending", ["bound", "free"], id="the phase"),
        pytest.param("spec.restartPolicy=Never", ["free"], id="the restart policy"),
        pytest.param("spec.schedulerName=volcano,spec.nodeName=n1", ["bound"], id="both"),
        pytest.param("spec.hostNetwork=false", ["bound", "free"], id="a flag that is not there"),
    ],
)
async def test_pods_are_selected_by_field(room: Room, fields: str, expected: list[str]) -> None:
    await room.create(room.pod("bound", nodeName="n1", schedulerName="volcano"), POD)
    await room.create(room.pod("free", restartPolicy="Never"), POD)
    assert await room.names(POD, fields=fields) == expected


async def test_secrets_are_selected_by_type(room: Room) -> None:
    for name, kind in (("plain", "Opaque"), ("other", "example.com/other")):
        secret = {"metadata": {"name": name, "namespace": room.namespace}, "type": kind}
        await room.client.create(SECRET, {"apiVersion": "v1", "kind": "Secret", **secret})
    assert await room.names(SECRET, fields="type=example.com/other") == ["other"]


async def test_fields_nobody_knows_are_refused(room: Room) -> None:
    with pytest.raises(BadRequest, match=r"field label not supported: spec.colour"):
        await room.names(POD, fields="spec.colour=blue")
    with pytest.raises(BadRequest, match=r'"data.a" is not a known field selector'):
        await room.names(CONFIG_MAP, fields="data.a=b")
    with pytest.raises(BadRequest):
        await room.names(CONFIG_MAP, labels="a in (")


async def test_pages_show_one_moment_however_late_they_are_read(room: Room) -> None:
    for number in range(5):
        await room.create(room.config(f"c{number}", {"set": "x"}))
    query = room.query(labels="set=x", limit=2)
    first = await room.client.list(CONFIG_MAP, query)
    await room.client.delete(CONFIG_MAP, room.key("c3"))
    await room.create(room.config("c25", {"set": "x"}))
    await room.client.patch(CONFIG_MAP, room.key("c4"), {"data": {"late": "yes"}})
    seen, page = list(first.items), first
    while page.continue_token:
        page = await room.client.list(CONFIG_MAP, replace(query, continue_token=page.continue_token))
        seen += page.items
        assert page.resource_version == first.resource_version
    assert [item["metadata"]["name"] for item in seen] == ["c0", "c1", "c2", "c3", "c4"]
    assert not any((item.get("data") or {}).get("late") for item in seen)


async def test_a_page_says_how_much_is_left(room: Room) -> None:
    for number in range(5):
        await room.create(room.pod(f"p{number}"), POD)
    page = await room.client.list(POD, room.query(limit=2))
    assert page.remaining == 3
    selected = await room.client.list(POD, room.query(limit=2, fields="status.phase=Pending"))
    assert selected.remaining is None


async def test_a_list_can_be_of_an_exact_version(room: Room) -> None:
    created = await room.create(room.config("one"))
    await room.create(room.config("two"))
    version = created["metadata"]["resourceVersion"]
    assert await room.names(resource_version=version, resource_version_match="Exact") == ["one"]
    assert await room.names(resource_version=version, resource_version_match="NotOlderThan") == ["one", "two"]
    assert await room.names(resource_version="0") == ["one", "two"]


async def test_a_list_of_the_future_is_refused(room: Room) -> None:
    listing = await room.client.list(CONFIG_MAP, room.query())
    future = str(int(listing.resource_version) + 1_000_000)
    with pytest.raises(Timeout, match="Too large resource version"):
        await room.names(resource_version=future, resource_version_match="NotOlderThan")


# Watching


async def watched(
    room: Room, query: Query, count: int, kind: Kind = CONFIG_MAP
) -> list[tuple[str, str, str]]:
    """The next `count` events as (type, name, version), bookmarks left out."""
    seen: list[tuple[str, str, str]] = []

    async def follow() -> None:
        async for event in room.client.watch(kind, query):
            metadata = event.object["metadata"]
            if event.type is not EventType.BOOKMARK and not _everywhere(event.object):
                seen.append((event.type.value, metadata["name"], metadata["resourceVersion"]))
            if len(seen) == count:
                return

    await asyncio.wait_for(follow(), 10)
    return seen


async def test_a_watch_tells_what_happened_since_a_version(room: Room) -> None:
    start = (await room.client.list(CONFIG_MAP, room.query())).resource_version
    created = await room.create(room.config(a="1"))
    changed = await room.client.patch(CONFIG_MAP, room.key("settings"), {"data": {"a": "2"}})
    await room.client.delete(CONFIG_MAP, room.key("settings"))
    events = await watched(room, room.query(resource_version=start), 3)
    versions = [int(version) for _, _, version in events]
    assert [type_ for type_, _, _ in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert versions[0] == int(created["metadata"]["resourceVersion"])
    assert versions[1] == int(changed["metadata"]["resourceVersion"])
    assert versions[2] > versions[1]


async def test_a_watch_goes_on_with_what_happens_next(room: Room) -> None:
    start = (await room.client.list(CONFIG_MAP, room.query())).resource_version
    watching = asyncio.create_task(watched(room, room.query(resource_version=start), 2))
    await asyncio.sleep(0.05)
    await room.create(room.config("one"))
    await room.create(room.config("two"))
    assert [name for _, name, _ in await watching] == ["one", "two"]


async def test_what_stops_being_selected_is_gone_for_the_watcher(room: Room) -> None:
    start = (await room.client.list(CONFIG_MAP, room.query())).resource_version
    await room.create(room.config("x", {"tier": "front"}))
    await room.client.patch(CONFIG_MAP, room.key("x"), {"metadata": {"labels": {"tier": "back"}}})
    await room.client.patch(CONFIG_MAP, room.key("x"), {"metadata": {"labels": {"tier": "front"}}})
    await room.client.patch(CONFIG_MAP, room.key("x"), {"data": {"a": "b"}})
    await room.client.delete(CONFIG_MAP, room.key("x"))
    events = await watched(room, room.query(resource_version=start, labels="tier=front"), 5)
    assert [type_ for type_, _, _ in events] == ["ADDED", "DELETED", "ADDED", "MODIFIED", "DELETED"]
    versions = [int(version) for _, _, version in events]
    assert versions == sorted(set(versions))


async def test_a_watch_follows_pods_of_one_node(room: Room) -> None:
    start = (await room.client.list(POD, room.query())).resource_version
    await room.create(room.pod("here"), POD)
    await room.create(room.pod("there", nodeName="n2"), POD)
    await bind(room, "here", "n1")
    query = room.query(resource_version=start, fields="spec.nodeName=n1")
    assert [(type_, name) for type_, name, _ in await watched(room, query, 1, POD)] == [("ADDED", "here")]


async def test_a_watch_without_a_version_begins_with_what_is_there(room: Room) -> None:
    await room.create(room.config("one"))
    await room.create(room.config("two"))
    watching = asyncio.create_task(watched(room, room.query(), 3))
    await asyncio.sleep(0.05)
    await room.create(room.config("three"))
    events = await watching
    assert [type_ for type_, _, _ in events] == ["ADDED"] * 3
    assert sorted(name for _, name, _ in events[:2]) == ["one", "two"]
    assert events[2][1] == "three"


async def test_a_streamed_list_ends_with_a_bookmark(room: Room) -> None:
    await room.create(room.config("one"))
    query = room.query(send_initial_events=True, resource_version_match="NotOlderThan", timeout_seconds=10)
    names = []
    async for event in room.client.watch(CONFIG_MAP, query):
        if event.type is EventType.BOOKMARK:
            annotations = event.object["metadata"].get("annotations") or {}
            assert annotations.get("k8s.io/initial-events-end") == "true"
            assert int(event.object["metadata"]["resourceVersion"]) > 0
            break
        names.append(event.object["metadata"]["name"])
    assert [name for name in names if name != "kube-root-ca.crt"] == ["one"]


async def test_a_watch_ends_when_its_time_is_over(room: Room) -> None:
    start = (await room.client.list(CONFIG_MAP, room.query())).resource_version
    query = room.query(resource_version=start, timeout_seconds=1)
    events = await asyncio.wait_for(_collected(room, query), 5)
    assert all(event.type is EventType.BOOKMARK for event in events)


async def _collected(room: Room, query: Query) -> list[Any]:
    return [event async for event in room.client.watch(CONFIG_MAP, query)]


# Subresources


async def bind(room: Room, name: str, node: str) -> Manifest:
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": room.namespace},
        "target": {"kind": "Node", "name": node},
    }
    return await room.client.create(POD, binding, subresource="binding")


async def test_binding_puts_a_pod_on_a_node_once(room: Room) -> None:
    await room.create(room.pod(), POD)
    await bind(room, "web", "n1")
    pod = await room.client.get(POD, room.key("web"))
    assert pod["spec"]["nodeName"] == "n1"
    (scheduled,) = [c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled"]
    assert scheduled["status"] == "True"
    with pytest.raises(Conflict) as refused:
        await bind(room, "web", "n2")
    assert refused.value.message == (
        'Operation cannot be fulfilled on pods/binding "web": pod web is already assigned to node "n1"'
    )


async def test_a_gated_pod_cannot_be_bound(room: Room) -> None:
    await room.create(room.pod(schedulingGates=[{"name": "example.com/wait"}]), POD)
    with pytest.raises(Conflict, match=r"has non-empty .spec.schedulingGates"):
        await bind(room, "web", "n1")


async def test_status_and_spec_are_written_apart(room: Room) -> None:
    pod = await room.create(room.pod(), POD)
    pod["status"] = {"phase": "Running", "message": "hello"}
    pod["spec"]["activeDeadlineSeconds"] = 5
    told = await room.client.update(POD, pod, subresource="status")
    assert told["status"]["message"] == "hello"
    assert "activeDeadlineSeconds" not in told["spec"]
    told["status"]["message"] = "changed"
    told["spec"]["activeDeadlineSeconds"] = 5
    asked = await room.client.update(POD, told)
    assert asked["status"]["message"] == "hello"
    assert asked["spec"]["activeDeadlineSeconds"] == 5


async def test_a_status_patch_touches_the_status_only(room: Room) -> None:
    await room.create(room.deployment(replicas=2), DEPLOYMENT)
    patch = {"status": {"replicas": 1, "observedGeneration": 1}, "spec": {"replicas": 9}}
    patched = await room.client.patch(DEPLOYMENT, room.key("web"), patch, subresource="status")
    assert (patched["spec"]["replicas"], patched["status"]["replicas"]) == (2, 1)
    assert patched["metadata"]["generation"] == 1


async def test_a_workload_is_scaled_through_its_scale(room: Room) -> None:
    await room.create(room.deployment(replicas=2), DEPLOYMENT)
    scale = await room.client.get(DEPLOYMENT, room.key("web"), subresource="scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 0, "selector": "app=web"})
    scale["spec"]["replicas"] = 4
    updated = await room.client.update(DEPLOYMENT, scale, subresource="scale")
    assert updated["spec"]["replicas"] == 4
    patched = await room.client.patch(
        DEPLOYMENT, room.key("web"), {"spec": {"replicas": 7}}, subresource="scale"
    )
    assert patched["spec"]["replicas"] == 7
    deployment = await room.client.get(DEPLOYMENT, room.key("web"))
    assert (deployment["spec"]["replicas"], deployment["metadata"]["generation"]) == (7, 3)


async def test_a_negative_scale_is_refused(room: Room) -> None:
    await room.create(room.deployment(), DEPLOYMENT)
    with pytest.raises(Invalid, match="must be greater than or equal to 0"):
        await room.client.patch(DEPLOYMENT, room.key("web"), {"spec": {"replicas": -1}}, subresource="scale")


async def test_a_pod_without_a_budget_can_be_evicted(room: Room) -> None:
    await room.create(room.pod(), POD)
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web", "namespace": room.namespace},
    }
    await room.client.create(POD, eviction, subresource="eviction")
    assert await room.names(POD) == []


# Events in two forms


async def test_an_event_has_two_faces(room: Room) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e1", "namespace": room.namespace},
        "involvedObject": {"kind": "Pod", "name": "web", "namespace": room.namespace, "uid": "u1"},
        "reason": "Started",
        "message": "hello",
        "type": "Normal",
    }
    await room.client.create(kinds.EVENT, event)
    other = await room.client.get(kinds.EVENTS_EVENT, room.key("e1"))
    assert (other["apiVersion"], other["note"], other["regarding"]["name"]) == (
        "events.k8s.io/v1",
        "hello",
        "web",
    )
    assert await room.names(kinds.EVENTS_EVENT, fields="regarding.uid=u1") == ["e1"]
    assert await room.names(kinds.EVENT, fields="involvedObject.uid=u1,reason=Started") == ["e1"]
    assert await room.names(kinds.EVENT, fields="involvedObject.uid=u2") == []


# What exactly is answered


async def test_a_deletion_answers_with_what_was_deleted(room: Room) -> None:
    created = await room.create(room.config())
    status = await room.client.delete(CONFIG_MAP, room.key("settings"))
    assert (status["kind"], status["status"]) == ("Status", "Success")
    assert status["details"] == {"name": "settings", "kind": "configmaps", "uid": uid_of(created)}
    deployment = await room.create(room.deployment(), DEPLOYMENT)
    status = await room.client.delete(DEPLOYMENT, room.key("web"))
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
async def test_a_policy_is_kept_as_a_finalizer(room: Room, propagation: str, finalizers: list[str]) -> None:
    await room.create(room.deployment(), DEPLOYMENT)
    await room.client.delete(DEPLOYMENT, room.key("web"), options=Options(propagation=propagation))
    going = await room.client.get(DEPLOYMENT, room.key("web"))
    assert going["metadata"]["finalizers"] == finalizers
    assert going["metadata"]["deletionGracePeriodSeconds"] == 0
    assert going["metadata"]["generation"] == 2


async def test_batch_jobs_leave_their_pods_behind_unless_told_otherwise(room: Room) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1"}]}}
    job = {"metadata": {"name": "sum", "namespace": room.namespace}, "spec": {"template": template}}
    await room.client.create(kinds.BATCH_JOB, {"apiVersion": "batch/v1", "kind": "Job", **job})
    await room.client.delete(kinds.BATCH_JOB, room.key("sum"))
    going = await room.client.get(kinds.BATCH_JOB, room.key("sum"))
    assert going["metadata"]["finalizers"] == ["orphan"]


async def test_a_namespace_ends_when_its_finalizer_is_taken_off(room: Room) -> None:
    ending = await room.client.delete(NAMESPACE, Key("", room.namespace))
    assert ending["spec"]["finalizers"] == ["kubernetes"]
    ending["spec"]["finalizers"] = []
    await room.client.update(NAMESPACE, ending, subresource="finalize")
    with pytest.raises(NotFound):
        await room.client.get(NAMESPACE, Key("", room.namespace))


async def test_finalizers_of_a_namespace_change_only_by_finalizing(room: Room) -> None:
    key = Key("", room.namespace)
    patched = await room.client.patch(NAMESPACE, key, {"spec": {"finalizers": ["example.com/mine"]}})
    assert patched["spec"]["finalizers"] == ["kubernetes"]


async def test_a_binding_may_say_which_pod_it_means(room: Room) -> None:
    await room.create(room.pod(), POD)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web", "namespace": room.namespace, "uid": "not-this-one"},
        "target": {"kind": "Node", "name": "n1"},
    }
    with pytest.raises(Conflict, match="UID in precondition: not-this-one"):
        await room.client.create(POD, binding, subresource="binding")
    del binding["metadata"]["uid"]  # type: ignore[attr-defined]
    binding["metadata"] |= {"annotations": {"why": "because"}, "labels": {"zone": "a"}}  # type: ignore[operator]
    await room.client.create(POD, binding, subresource="binding")
    pod = await room.client.get(POD, room.key("web"))
    assert pod["metadata"]["annotations"]["why"] == "because"
    assert pod["metadata"]["labels"]["zone"] == "a"


async def test_a_binding_needs_a_target(room: Room) -> None:
    await room.create(room.pod(), POD)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web", "namespace": room.namespace},
    }
    with pytest.raises(ApiError):
        await room.client.create(POD, {**binding, "target": {"name": ""}}, subresource="binding")
    with pytest.raises(NotFound, match='pods "ghost" not found'):
        await bind(room, "ghost", "n1")


async def test_a_running_pod_gets_a_container_for_debugging(room: Room) -> None:
    await room.create(room.pod(), POD)
    debugger = {"name": "debug", "image": "busybox:1"}
    patch = {"spec": {"ephemeralContainers": [debugger], "nodeSelector": {"a": "b"}}}
    options = Options(patch_type=PatchType.STRATEGIC)
    patched = await room.client.patch(
        POD, room.key("web"), patch, subresource="ephemeralcontainers", options=options
    )
    assert [container["name"] for container in patched["spec"]["ephemeralContainers"]] == ["debug"]
    assert "nodeSelector" not in patched["spec"]


async def test_a_running_pod_is_resized_and_nothing_else(room: Room) -> None:
    await room.create(room.pod(), POD)
    sized = room.pod("sized")
    sized["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}
    created = await room.create(sized, POD)
    created["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "150m"
    created["spec"]["containers"][0]["image"] = "busybox:2"
    created["spec"]["activeDeadlineSeconds"] = 5
    created["metadata"]["annotations"] = {"a": "b"}
    resized = await room.client.update(POD, created, subresource="resize")
    assert resized["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "150m"}
    assert resized["spec"]["containers"][0]["image"] == "busybox:1"
    assert "activeDeadlineSeconds" not in resized["spec"]
    assert "annotations" not in resized["metadata"]
    assert resized["metadata"]["generation"] == 2


async def test_a_stale_scale_conflicts(room: Room) -> None:
    await room.create(room.deployment(), DEPLOYMENT)
    scale = await room.client.get(DEPLOYMENT, room.key("web"), subresource="scale")
    await room.client.patch(DEPLOYMENT, room.key("web"), {"metadata": {"labels": {"a": "b"}}})
    scale["spec"]["replicas"] = 9
    with pytest.raises(Conflict):
        await room.client.update(DEPLOYMENT, scale, subresource="scale")
    del scale["metadata"]["resourceVersion"]
    assert (await room.client.update(DEPLOYMENT, scale, subresource="scale"))["spec"]["replicas"] == 9


async def test_strictness_names_the_field(room: Room) -> None:
    manifest = {**room.config(), "colour": "blue"}
    with pytest.raises(BadRequest, match='strict decoding error: unknown field "colour"'):
        await room.client.create(CONFIG_MAP, manifest, options=Options(field_validation="Strict"))


async def test_a_patch_cannot_rename_an_object(room: Room) -> None:
    await room.create(room.config())
    with pytest.raises(ApiError) as refused:
        await room.client.patch(CONFIG_MAP, room.key("settings"), {"metadata": {"name": "other"}})
    assert refused.value.code in (400, 422)
    assert await room.names() == ["settings"]


async def test_a_token_that_is_none_is_refused(room: Room) -> None:
    with pytest.raises(BadRequest, match="continue key is not valid"):
        await room.client.list(CONFIG_MAP, room.query(limit=1, continue_token="bm9uc2Vuc2U"))


async def test_every_write_is_seen_by_the_reader_that_comes_after(room: Room) -> None:
    for number in range(10):
        name = f"c{number}"
        await room.create(room.config(name))
        assert name in await room.names()
        await room.client.delete(CONFIG_MAP, room.key(name))
        assert name not in await room.names()


async def test_writers_who_retry_on_conflict_lose_nothing(room: Room) -> None:
    await room.create(room.config(count="0"))

    async def increment() -> None:
        while True:
            present = await room.client.get(CONFIG_MAP, room.key("settings"))
            present["data"]["count"] = str(int(present["data"]["count"]) + 1)
            try:
                await room.client.update(CONFIG_MAP, present)
                return
            except Conflict:
                continue

    await asyncio.gather(*(increment() for _ in range(8)))
    assert (await room.client.get(CONFIG_MAP, room.key("settings")))["data"] == {"count": "8"}


# Custom kinds


WIDGET = Kind("example.com", "v1", "Widget", "widgets")


async def widgets(room: Room) -> None:
    """Has Widgets served, and waits until they are."""
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
        await room.client.create(kinds.CRD, crd)
    for _ in range(100):
        with contextlib.suppress(NotFound):
            await room.client.list(WIDGET, room.query())
            await room.client.create(WIDGET, widget(room, "probe"), options=Options(dry_run=True))
            return
        await asyncio.sleep(0.1)
    raise AssertionError("Widgets were not served within ten seconds")


def widget(room: Room, name: str = "w", **spec: Any) -> Manifest:
    metadata = {"name": name, "namespace": room.namespace}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": spec}


async def test_custom_objects_are_defaulted_pruned_and_validated(room: Room) -> None:
    await widgets(room)
    created = await room.create(widget(room, colour="blue"), WIDGET)
    assert created["spec"] == {"size": 1}
    assert created["metadata"]["generation"] == 1
    with pytest.raises(Invalid) as refused:
        await room.create(widget(room, "wrong", weight=-1), WIDGET)
    assert refused.value.message == (
        'Widget.example.com "wrong" is invalid: spec.weight: Invalid value: -1: '
        "spec.weight in body should be greater than or equal to 0"
    )


async def test_custom_objects_are_patched_but_not_strategically(room: Room) -> None:
    await widgets(room)
    await room.create(widget(room, size=1), WIDGET)
    patched = await room.client.patch(WIDGET, room.key("w"), {"spec": {"size": 5}})
    assert (patched["spec"]["size"], patched["metadata"]["generation"]) == (5, 2)
    with pytest.raises(UnsupportedMediaType):
        await room.client.patch(
            WIDGET, room.key("w"), {"spec": {"size": 6}}, options=Options(patch_type=PatchType.STRATEGIC)
        )
    applied = await room.client.patch(WIDGET, room.key("w"), widget(room, size=5), options=APPLY)
    assert applied["spec"]["size"] == 5


async def test_custom_objects_are_updated_only_on_a_version(room: Room) -> None:
    await widgets(room)
    created = await room.create(widget(room), WIDGET)
    with pytest.raises(Invalid, match=r"metadata\.resourceVersion: Invalid value: .*: must be specified"):
        await room.client.update(WIDGET, widget(room, size=3))
    created["spec"]["size"] = 3
    created["status"] = {"size": 7}
    updated = await room.client.update(WIDGET, created)
    assert (updated["spec"], updated.get("status")) == ({"size": 3}, None)
    updated["status"] = {"size": 7}
    told = await room.client.update(WIDGET, updated, subresource="status")
    assert (told["status"], told["metadata"]["generation"]) == ({"size": 7}, 2)


async def test_custom_objects_are_scaled(room: Room) -> None:
    await widgets(room)
    await room.create(widget(room, size=2), WIDGET)
    scaled = await room.client.patch(WIDGET, room.key("w"), {"spec": {"replicas": 4}}, subresource="scale")
    assert scaled["spec"] == {"replicas": 4}
    assert (await room.client.get(WIDGET, room.key("w")))["spec"] == {"size": 4}
