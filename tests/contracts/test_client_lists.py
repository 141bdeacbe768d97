"""The contract of every client for deletions, lists and watches."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.contracts.namespace_client import NamespaceClient, bind, in_every_namespace
from volcano.kube.api.errors import (
    ApiError,
    BadRequest,
    Conflict,
    Invalid,
    NotFound,
    Timeout,
)
from volcano.kube.api.kinds import CONFIG_MAP, NAMESPACE, POD, SECRET, Kind
from volcano.kube.api.manifest import Key, uid_of
from volcano.kube.client.protocol import EventType, Options, Query

# Delete


async def test_a_deleted_object_is_not_found(ns: NamespaceClient) -> None:
    await ns.create(ns.config())
    await ns.client.delete(CONFIG_MAP, ns.key("settings"))
    with pytest.raises(NotFound):
        await ns.client.get(CONFIG_MAP, ns.key("settings"))


async def test_a_deletion_may_have_preconditions(ns: NamespaceClient) -> None:
    created = await ns.create(ns.config())
    wrong = Options(uid="11111111-2222-3333-4444-555555555555")
    with pytest.raises(Conflict, match="does not match the UID in record"):
        await ns.client.delete(CONFIG_MAP, ns.key("settings"), options=wrong)
    stale = Options(resource_version="1")
    with pytest.raises(Conflict, match="does not match the ResourceVersion in record"):
        await ns.client.delete(CONFIG_MAP, ns.key("settings"), options=stale)
    await ns.client.delete(CONFIG_MAP, ns.key("settings"), options=Options(uid=uid_of(created)))
    assert await ns.names() == []


async def test_an_object_with_a_finalizer_is_kept_until_it_is_removed(ns: NamespaceClient) -> None:
    manifest = ns.config()
    manifest["metadata"]["finalizers"] = ["example.com/hold"]
    await ns.create(manifest)
    await ns.client.delete(CONFIG_MAP, ns.key("settings"))
    held = await ns.client.get(CONFIG_MAP, ns.key("settings"))
    assert held["metadata"]["deletionTimestamp"]
    with pytest.raises(Invalid, match="no new finalizers can be added if the object is being deleted"):
        await ns.client.patch(
            CONFIG_MAP,
            ns.key("settings"),
            {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}},
        )
    await ns.client.patch(CONFIG_MAP, ns.key("settings"), {"metadata": {"finalizers": None}})
    with pytest.raises(NotFound):
        await ns.client.get(CONFIG_MAP, ns.key("settings"))


async def test_an_unbound_pod_is_deleted_at_once(ns: NamespaceClient) -> None:
    await ns.create(ns.pod(), POD)
    deleted = await ns.client.delete(POD, ns.key("web"))
    assert deleted["metadata"]["name"] == "web"
    assert await ns.names(POD) == []


async def test_a_bound_pod_gets_its_grace_period_which_can_be_shortened(ns: NamespaceClient) -> None:
    await ns.create(ns.pod(nodeName="n1"), POD)
    terminating = await ns.client.delete(POD, ns.key("web"))
    assert terminating["metadata"]["deletionGracePeriodSeconds"] == 30
    assert terminating["metadata"]["generation"] == 2
    again = await ns.client.delete(POD, ns.key("web"), options=Options(grace_seconds=60))
    assert again["metadata"]["deletionGracePeriodSeconds"] == 30
    sooner = await ns.client.delete(POD, ns.key("web"), options=Options(grace_seconds=5))
    assert sooner["metadata"]["deletionGracePeriodSeconds"] == 5
    await ns.client.delete(POD, ns.key("web"), options=Options(grace_seconds=0))
    assert await ns.names(POD) == []


async def test_the_first_namespaces_cannot_be_deleted(ns: NamespaceClient) -> None:
    with pytest.raises(
        ApiError, match='namespaces "default" is forbidden: this namespace may not be deleted'
    ):
        await ns.client.delete(NAMESPACE, Key("", "default"))


async def test_nothing_is_created_in_a_terminating_namespace(ns: NamespaceClient) -> None:
    await ns.create(ns.config())
    await ns.client.patch(CONFIG_MAP, ns.key("settings"), {"metadata": {"finalizers": ["example.com/hold"]}})
    ended = await ns.client.delete(NAMESPACE, Key("", ns.namespace))
    assert ended["status"]["phase"] == "Terminating"
    with pytest.raises(ApiError) as caught:
        await ns.create(ns.config("late"))
    assert caught.value.code == 403
    assert "because it is being terminated" in caught.value.message


# List


async def test_lists_are_in_order_and_selected_by_labels_and_fields(ns: NamespaceClient) -> None:
    for name, tier in (("c", "front"), ("a", "back"), ("b", "front")):
        await ns.create(ns.config(name, {"tier": tier}))
    assert await ns.names() == ["a", "b", "c"]
    assert await ns.names(labels="tier=front") == ["b", "c"]
    assert await ns.names(labels="tier in (back),!missing") == ["a"]
    assert await ns.names(fields="metadata.name=b") == ["b"]
    assert await ns.names(fields=f"metadata.name!=b,metadata.namespace={ns.namespace}") == ["a", "c"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param("spec.nodeName=n1", ["bound"], id="the node"),
        pytest.param("spec.nodeName=", ["free"], id="no node"),
        pytest.param("spec.nodeName!=n1", ["free"], id="another node"),
        pytest.param("status.phase=Pending", ["bound", "free"], id="the phase"),
        pytest.param("spec.restartPolicy=Never", ["free"], id="the restart policy"),
        pytest.param("spec.schedulerName=volcano,spec.nodeName=n1", ["bound"], id="both"),
        pytest.param("spec.hostNetwork=false", ["bound", "free"], id="a flag that is not set"),
    ],
)
async def test_pods_are_selected_by_field(ns: NamespaceClient, fields: str, expected: list[str]) -> None:
    await ns.create(ns.pod("bound", nodeName="n1", schedulerName="volcano"), POD)
    await ns.create(ns.pod("free", restartPolicy="Never"), POD)
    assert await ns.names(POD, fields=fields) == expected


async def test_secrets_are_selected_by_type(ns: NamespaceClient) -> None:
    for name, kind in (("plain", "Opaque"), ("other", "example.com/other")):
        secret = {"metadata": {"name": name, "namespace": ns.namespace}, "type": kind}
        await ns.client.create(SECRET, {"apiVersion": "v1", "kind": "Secret", **secret})
    assert await ns.names(SECRET, fields="type=example.com/other") == ["other"]


async def test_unknown_fields_are_rejected(ns: NamespaceClient) -> None:
    with pytest.raises(BadRequest, match=r"field label not supported: spec.colour"):
        await ns.names(POD, fields="spec.colour=blue")
    with pytest.raises(BadRequest, match=r'"data.a" is not a known field selector'):
        await ns.names(CONFIG_MAP, fields="data.a=b")
    with pytest.raises(BadRequest):
        await ns.names(CONFIG_MAP, labels="a in (")


async def test_pages_are_of_one_resource_version(ns: NamespaceClient) -> None:
    for number in range(5):
        await ns.create(ns.config(f"c{number}", {"set": "x"}))
    query = ns.query(labels="set=x", limit=2)
    first = await ns.client.list(CONFIG_MAP, query)
    await ns.client.delete(CONFIG_MAP, ns.key("c3"))
    await ns.create(ns.config("c25", {"set": "x"}))
    await ns.client.patch(CONFIG_MAP, ns.key("c4"), {"data": {"late": "yes"}})
    seen, page = list(first.items), first
    while page.continue_token:
        page = await ns.client.list(CONFIG_MAP, replace(query, continue_token=page.continue_token))
        seen += page.items
        assert page.resource_version == first.resource_version
    assert [item["metadata"]["name"] for item in seen] == ["c0", "c1", "c2", "c3", "c4"]
    assert not any((item.get("data") or {}).get("late") for item in seen)


async def test_a_page_has_the_remaining_item_count(ns: NamespaceClient) -> None:
    for number in range(5):
        await ns.create(ns.pod(f"p{number}"), POD)
    page = await ns.client.list(POD, ns.query(limit=2))
    assert page.remaining == 3
    selected = await ns.client.list(POD, ns.query(limit=2, fields="status.phase=Pending"))
    assert selected.remaining is None


async def test_a_list_can_be_of_an_exact_version(ns: NamespaceClient) -> None:
    created = await ns.create(ns.config("one"))
    await ns.create(ns.config("two"))
    version = created["metadata"]["resourceVersion"]
    assert await ns.names(resource_version=version, resource_version_match="Exact") == ["one"]
    assert await ns.names(resource_version=version, resource_version_match="NotOlderThan") == ["one", "two"]
    assert await ns.names(resource_version="0") == ["one", "two"]


async def test_a_list_of_a_future_version_is_rejected(ns: NamespaceClient) -> None:
    listing = await ns.client.list(CONFIG_MAP, ns.query())
    future = str(int(listing.resource_version) + 1_000_000)
    with pytest.raises(Timeout, match="Too large resource version"):
        await ns.names(resource_version=future, resource_version_match="NotOlderThan")


# Watch


async def watched(
    ns: NamespaceClient, query: Query, count: int, kind: Kind = CONFIG_MAP
) -> list[tuple[str, str, str]]:
    """The next `count` events as (type, name, version), bookmarks left out."""
    seen: list[tuple[str, str, str]] = []

    async def follow() -> None:
        async for event in ns.client.watch(kind, query):
            metadata = event.object["metadata"]
            if event.type is not EventType.BOOKMARK and not in_every_namespace(event.object):
                seen.append((event.type.value, metadata["name"], metadata["resourceVersion"]))
            if len(seen) == count:
                return

    await asyncio.wait_for(follow(), 10)
    return seen


async def test_a_watch_sends_the_events_since_a_version(ns: NamespaceClient) -> None:
    start = (await ns.client.list(CONFIG_MAP, ns.query())).resource_version
    created = await ns.create(ns.config(a="1"))
    changed = await ns.client.patch(CONFIG_MAP, ns.key("settings"), {"data": {"a": "2"}})
    await ns.client.delete(CONFIG_MAP, ns.key("settings"))
    events = await watched(ns, ns.query(resource_version=start), 3)
    versions = [int(version) for _, _, version in events]
    assert [type_ for type_, _, _ in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert versions[0] == int(created["metadata"]["resourceVersion"])
    assert versions[1] == int(changed["metadata"]["resourceVersion"])
    assert versions[2] > versions[1]


async def test_a_watch_continues_with_new_events(ns: NamespaceClient) -> None:
    start = (await ns.client.list(CONFIG_MAP, ns.query())).resource_version
    watching = asyncio.create_task(watched(ns, ns.query(resource_version=start), 2))
    await asyncio.sleep(0.05)
    await ns.create(ns.config("one"))
    await ns.create(ns.config("two"))
    assert [name for _, name, _ in await watching] == ["one", "two"]


async def test_an_object_that_stops_matching_is_deleted_for_the_watch(ns: NamespaceClient) -> None:
    start = (await ns.client.list(CONFIG_MAP, ns.query())).resource_version
    await ns.create(ns.config("x", {"tier": "front"}))
    await ns.client.patch(CONFIG_MAP, ns.key("x"), {"metadata": {"labels": {"tier": "back"}}})
    await ns.client.patch(CONFIG_MAP, ns.key("x"), {"metadata": {"labels": {"tier": "front"}}})
    await ns.client.patch(CONFIG_MAP, ns.key("x"), {"data": {"a": "b"}})
    await ns.client.delete(CONFIG_MAP, ns.key("x"))
    events = await watched(ns, ns.query(resource_version=start, labels="tier=front"), 5)
    assert [type_ for type_, _, _ in events] == ["ADDED", "DELETED", "ADDED", "MODIFIED", "DELETED"]
    versions = [int(version) for _, _, version in events]
    assert versions == sorted(set(versions))


async def test_a_watch_selects_the_pods_of_one_node(ns: NamespaceClient) -> None:
    start = (await ns.client.list(POD, ns.query())).resource_version
    await ns.create(ns.pod("here"), POD)
    await ns.create(ns.pod("there", nodeName="n2"), POD)
    await bind(ns, "here", "n1")
    query = ns.query(resource_version=start, fields="spec.nodeName=n1")
    assert [(type_, name) for type_, name, _ in await watched(ns, query, 1, POD)] == [("ADDED", "here")]


async def test_a_watch_without_a_version_starts_with_existing_objects(ns: NamespaceClient) -> None:
    await ns.create(ns.config("one"))
    await ns.create(ns.config("two"))
    watching = asyncio.create_task(watched(ns, ns.query(), 3))
    await asyncio.sleep(0.05)
    await ns.create(ns.config("three"))
    events = await watching
    assert [type_ for type_, _, _ in events] == ["ADDED"] * 3
    assert sorted(name for _, name, _ in events[:2]) == ["one", "two"]
    assert events[2][1] == "three"


async def test_a_streamed_list_ends_with_a_bookmark(ns: NamespaceClient) -> None:
    await ns.create(ns.config("one"))
    query = ns.query(send_initial_events=True, resource_version_match="NotOlderThan", timeout_seconds=10)
    names = []
    async for event in ns.client.watch(CONFIG_MAP, query):
        if event.type is EventType.BOOKMARK:
            annotations = event.object["metadata"].get("annotations") or {}
            assert annotations.get("k8s.io/initial-events-end") == "true"
            assert int(event.object["metadata"]["resourceVersion"]) > 0
            break
        names.append(event.object["metadata"]["name"])
    assert [name for name in names if name != "kube-root-ca.crt"] == ["one"]


async def test_a_watch_ends_after_its_timeout(ns: NamespaceClient) -> None:
    start = (await ns.client.list(CONFIG_MAP, ns.query())).resource_version
    query = ns.query(resource_version=start, timeout_seconds=1)
    events = await asyncio.wait_for(_collected(ns, query), 5)
    assert all(event.type is EventType.BOOKMARK for event in events)


async def _collected(ns: NamespaceClient, query: Query) -> list[Any]:
    return [event async for event in ns.client.watch(CONFIG_MAP, query)]
