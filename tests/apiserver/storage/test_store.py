"""The store: versions, conflicts, order, indexes, history."""

import pytest

from tests.apiserver.registries import config_map, pod
from volcano.apiserver.storage.history import Change
from volcano.apiserver.storage.store import Stale, Store
from volcano.kube.api.errors import BadRequest, TooLarge
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import EventType


def stored(store: Store, manifest: Manifest, name: str = "configmaps", uid: str = "") -> Manifest:
    manifest["metadata"].setdefault("uid", uid or f"uid-{manifest['metadata']['name']}")
    store.put(name, manifest, store.get(name, key_of(manifest)))
    return manifest


def key_of(manifest: Manifest) -> Key:
    return Key(manifest["metadata"]["namespace"], manifest["metadata"]["name"])


def test_versions_grow_over_all_kinds() -> None:
    store = Store()
    first = stored(store, config_map("a"))
    second = stored(store, pod("b"), "pods")
    third = stored(store, config_map("a", x="1"))
    versions = [manifest["metadata"]["resourceVersion"] for manifest in (first, second, third)]
    assert versions == ["1", "2", "3"]
    assert store.version == store.committed_version == 3


def test_a_write_on_an_old_state_is_refused_and_leaves_no_trace() -> None:
    store = Store()
    stored(store, config_map("a"))
    old = store.get("configmaps", Key("default", "a"))
    stored(store, config_map("a", x="1"))
    newest = store.get("configmaps", Key("default", "a"))
    assert old is not None
    with pytest.raises(Stale):
        store.put("configmaps", config_map("a", x="2"), old)
    with pytest.raises(Stale):
        store.put("configmaps", config_map("a", x="2"), None)
    with pytest.raises(Stale):
        store.remove("configmaps", config_map("a"), old)
    assert store.version == 2
    assert store.get("configmaps", Key("default", "a")) is newest


def test_what_cannot_be_encoded_is_refused_and_leaves_no_trace() -> None:
    store = Store()
    with pytest.raises(BadRequest):
        stored(store, config_map("a", x="\ud800"))
    with pytest.raises(TooLarge, match="limit is"):
        stored(store, config_map("a", x="y" * 4_000_000))
    assert store.version == 0
    assert store.collection("configmaps").keys == []


def test_keys_are_kept_in_order_by_namespace() -> None:
    store = Store()
    for namespace, name in (("b", "1"), ("a", "2"), ("a-b", "1"), ("a", "1")):
        stored(store, config_map(name, namespace), uid=f"{namespace}{name}")
    collection = store.collection("configmaps")
    assert collection.range() == [("a", "1"), ("a", "2"), ("a-b", "1"), ("b", "1")]
    assert collection.range("a") == [("a", "1"), ("a", "2")]
    assert collection.range("a", Key("a", "2")) == [("a", "2")]
    assert collection.range("missing") == []


def test_pods_are_indexed_by_node_as_they_move() -> None:
    store = Store()
    stored(store, pod("x"), "pods")
    index = store.collection("pods").indexes["spec.nodeName"][1]
    assert index == {"": {Key("default", "x"): None}}
    moved = stored(store, pod("x", nodeName="n1"), "pods")
    assert index == {"n1": {Key("default", "x"): None}}
    record = store.get("pods", Key("default", "x"))
    assert record is not None
    store.remove("pods", moved, record)
    assert index == {}


def test_listeners_receive_every_change() -> None:
    store = Store()
    heard: list[tuple[str, EventType]] = []
    store.listeners.add("heard", lambda name, change: heard.append((name, change.type)), lambda: None)
    manifest = stored(store, config_map("a"))
    stored(store, manifest)
    record = store.get("configmaps", Key("default", "a"))
    assert record is not None
    store.remove("configmaps", manifest, record)
    assert heard == [
        ("configmaps", EventType.ADDED),
        ("configmaps", EventType.MODIFIED),
        ("configmaps", EventType.DELETED),
    ]


def test_objects_are_known_as_they_were_at_a_version() -> None:
    store = Store()
    stored(store, config_map("a", x="1"))
    stored(store, config_map("b"))
    stored(store, config_map("a", x="2"))
    collection = store.collection("configmaps")
    first = collection.at(Key("default", "a"), 1)
    assert first is not None
    assert b'"x":"1"' in first.data
    assert collection.at(Key("default", "b"), 1) is None
    assert collection.at(Key("default", "a"), 3) is store.get("configmaps", Key("default", "a"))


def test_history_is_limited_and_says_how_far_it_reaches() -> None:
    store = Store(history=10)
    for number in range(200):
        stored(store, config_map("a", x=str(number)))
    history = store.collection("configmaps").history
    assert 10 <= history.end - history.start < 10 + 64
    assert history.at(history.start).version == history.horizon + 1
    assert history.after(199) == history.end - 1
    assert history.end == 200


def test_a_change_can_be_inverted() -> None:
    store = Store()
    stored(store, config_map("a"))
    change = store.collection("configmaps").history.at(0)
    assert (change.type, change.inverse().type) == (EventType.ADDED, EventType.DELETED)
    assert change.inverse().inverse() == Change(1, change.key, None, change.new, change.data)
