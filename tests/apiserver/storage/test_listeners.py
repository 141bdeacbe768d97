"""Listeners of the store: one that fails is isolated, counted and brought up to date from the store."""

from typing import Any

import pytest

from tests.apiserver.registries import config_map, pod
from tests.apiserver.servers import TestServer
from tests.apiserver.storage.test_store import stored
from volcano.apiserver.endpoints.health import Health
from volcano.apiserver.registry.kind_table import KindTable
from volcano.apiserver.registry.strategies import built_in_kinds
from volcano.apiserver.schema.crds import served
from volcano.apiserver.storage.history import Change
from volcano.apiserver.storage.metrics import StoreMetrics
from volcano.apiserver.storage.store import Store
from volcano.base.http.messages import Request
from volcano.base.metrics import CollectorRegistry, render
from volcano.kube.api.kinds import CRD
from volcano.kube.api.manifest import Key, Manifest


class Names:
    """A listener that keeps the names in the store; it fails as often as it is told to."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.names: set[str] = set()
        self.calls = self.failures = self.failing_resyncs = self.resyncs = 0
        store.listeners.add("names", self.on_change, self.resync)

    def on_change(self, collection: str, change: Change) -> None:
        self.calls += 1
        if self.failures:
            self.failures -= 1
            raise KeyError("spec")
        if change.new is None:
            self.names.discard(change.key.name)
        else:
            self.names.add(change.key.name)

    def resync(self) -> None:
        self.resyncs += 1
        if self.failing_resyncs:
            self.failing_resyncs -= 1
            raise ValueError("still broken")
        self.names = {key.name for each in self._store.collections() for key in each.records}


def test_a_failing_listener_does_not_fail_the_write_and_is_resynchronized() -> None:
    store = Store()
    first, second = Names(store), Names(store)
    first.failures = 1
    stored(store, config_map("a"))
    assert store.get("configmaps", Key("default", "a")) is not None
    assert first.resyncs == 1
    assert first.names == second.names == {"a"}
    assert store.listeners.problem() == ""
    assert store.listeners.failures == {"names": 1}
    stored(store, config_map("b"))
    assert first.names == second.names == {"a", "b"}


def test_a_listener_that_cannot_be_resynchronized_is_reported_until_it_can() -> None:
    store = Store()
    listener = Names(store)
    listener.failures, listener.failing_resyncs = 1, 3
    ready = Health(ready={"store-listeners": store.listeners.problem})
    stored(store, config_map("a"))
    assert "names is out of date: ValueError: still broken" in store.listeners.problem()
    answer = ready.handle(Request("GET", "/readyz"))
    assert answer is not None
    assert answer.status == 500
    assert b"[-]store-listeners failed: names is out of date" in answer.body
    for number in range(20):
        stored(store, config_map(f"b{number}"))
    assert listener.resyncs == 4
    assert store.listeners.problem() == ""
    assert listener.names == {"a", *(f"b{number}" for number in range(20))}
    answer = ready.handle(Request("GET", "/readyz"))
    assert answer is not None
    assert answer.status == 200


def test_attempts_to_resynchronize_become_rare() -> None:
    store = Store()
    listener = Names(store)
    listener.failures, listener.failing_resyncs = 1, 10**6
    for number in range(4000):
        stored(store, config_map("a", n=str(number)))
    assert listener.resyncs < 16


def test_failures_are_a_metric() -> None:
    store = Store()
    listener = Names(store)
    listener.failures = 1
    registry = CollectorRegistry()
    StoreMetrics(store, registry)
    stored(store, config_map("a"))
    stored(store, config_map("a", x="1"))
    text = render(registry).decode()
    assert 'volcano_store_listener_failures_total{listener="names"} 1.0' in text
    assert 'apiserver_resource_objects{resource="configmaps"} 1.0' in text
    assert 'volcano_store_history_changes{resource="configmaps"} 2.0' in text


def test_a_failing_cache_of_decoded_objects_does_not_fail_the_write() -> None:
    def broken(data: bytes, manifest: Manifest) -> None:
        raise RuntimeError("no cache today")

    store = Store(on_write=broken)
    stored(store, config_map("a"))
    assert store.get("configmaps", Key("default", "a")) is not None
    assert store.listeners.failures == {"decoded objects": 1}


def test_a_failing_watch_does_not_fail_the_write() -> None:
    store = Store()
    woken: list[str] = []

    def broken() -> None:
        raise RuntimeError("closed")

    watchers = store.collection("pods").watchers
    watchers[broken] = None
    watchers[lambda: woken.append("yes")] = None
    stored(store, pod("a"), "pods")
    assert woken == ["yes"]
    assert store.listeners.failures == {"watch": 1}


def crd(plural: str, **more: Any) -> Manifest:
    return {
        "apiVersion": CRD.api_version,
        "kind": CRD.kind,
        "metadata": {"name": f"{plural}.example.com", "namespace": ""},
        "spec": {
            "group": "example.com",
            "names": {"plural": plural, "singular": plural[:-1], "kind": plural[:-1].title()},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {}}],
        },
        "status": {"conditions": [{"type": "Established", "status": "True"}], **more},
    }


@pytest.mark.parametrize("order", ["before", "after"])
def test_a_crd_that_cannot_be_served_does_not_hide_the_others(order: str) -> None:
    def serve(manifest: Manifest) -> Any:
        if manifest["metadata"]["name"].startswith("broken"):
            raise RecursionError("schema too deep")
        return served(manifest)

    store, table = Store(), KindTable(built_in_kinds())
    if order == "after":
        table.follow(store, serve)
    stored(store, crd("brokens"), CRD.resource)
    stored(store, crd("rings"), CRD.resource)
    if order == "before":
        table.follow(store, serve)
    assert table.find("example.com", "v1", "rings") is not None
    assert table.find("example.com", "v1", "brokens") is None
    assert store.listeners.problem() == ""


async def test_a_request_succeeds_when_a_listener_fails() -> None:
    server = await TestServer().start()
    listener = Names(server.registry.store)
    listener.failures = 1
    answer = await server.post("/api/v1/namespaces/default/configmaps", config_map("a"))
    assert answer.code == 201
    assert "a" in listener.names
