"""The history of a kind is bounded in number and in bytes; the memory of stored objects is that of their JSON."""

import asyncio
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.apiserver.registries import config_map, namespace, registry
from tests.apiserver.storage.test_store import stored
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.storage.compaction import INTERVAL, Compactor
from volcano.apiserver.storage.decoded_cache import KEPT_BYTES, DecodedCache
from volcano.apiserver.storage.history import Change, History, HistoryBudget, StoredObject
from volcano.apiserver.storage.journal import DurableStore
from volcano.apiserver.storage.store import Store
from volcano.base.clock import VirtualClock
from volcano.kube.api.errors import Gone
from volcano.kube.api.kinds import CONFIG_MAP, NAMESPACE
from volcano.kube.api.manifest import Key
from volcano.kube.client.protocol import Query
from volcano.kube.informers.shared_informers import DECODE_CACHE_BYTES, SharedDecodeCache

KEY = Key("default", "a")
MEGABYTE = 1 << 20


def record(version: int, size: int) -> StoredObject:
    return StoredObject(KEY, version, "uid", b"x" * size, {}, ())


@given(
    sizes=st.lists(st.integers(0, 50), max_size=60),
    limit=st.integers(1, 30),
    limit_bytes=st.integers(1, 400),
    lag=st.integers(0, 10),
)
def test_a_history_stays_within_its_limits_and_counts_its_bytes(
    sizes: list[int], limit: int, limit_bytes: int, lag: int
) -> None:
    budget = HistoryBudget()
    history = History(limit, limit_bytes=limit_bytes, budget=budget)
    old: StoredObject | None = None
    appended: list[Change] = []
    for version, size in enumerate(sizes, 1):
        new = None if old is not None and size % 5 == 0 else record(version, size)
        change = Change(version, KEY, old, new, b"x" * size)
        history.append(change)
        appended.append(change)
        history.trim(version - lag)
        old = new
        kept = [history.at(position) for position in range(history.start, history.end)]
        assert kept == appended[history.start :]
        assert history.size == budget.used == sum(change.size for change in kept)
        committed = [change for change in kept if change.version <= version - lag]
        if committed:  # uncommitted changes are never removed
            assert len(kept) <= limit + min(64, limit)
            assert history.size <= limit_bytes or not any(change.size for change in committed[: -lag or None])
        assert history.horizon == (appended[history.start - 1].version if history.start else 0)


def test_large_objects_do_not_fill_the_memory() -> None:
    store = Store()
    text = "x" * MEGABYTE
    tracemalloc.start()
    try:
        for number in range(400):
            stored(store, config_map("a", x=text, n=str(number)))
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert used < 80 * MEGABYTE  # 400 MB when the history is bounded by number only


@pytest.mark.parametrize("labels", [0, 3, 60, 5000])
@pytest.mark.parametrize("size", [10, 10_000])
def test_a_history_counts_about_what_it_holds(labels: int, size: int) -> None:
    store = Store()
    stored(store, config_map("a"))
    tracemalloc.start()
    try:
        for number in range(100):
            manifest = config_map("a", x="x" * size)
            manifest["metadata"]["labels"] = {f"label-{each}": f"value-{number}" for each in range(labels)}
            stored(store, manifest)
        store._decoded = DecodedCache()
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    counted = store.collection("configmaps").history.size

    assert 0.6 * held < counted < 1.5 * held


def test_the_kinds_share_one_budget() -> None:
    store = Store()
    text = "x" * MEGABYTE
    for number in range(60):
        for kind in range(8):
            stored(store, config_map("a", x=text, n=str(number)), f"kind{kind}")
    sizes = [store.collection(f"kind{kind}").history.size for kind in range(8)]
    assert sum(sizes) <= 257 * MEGABYTE
    assert min(sizes) > 16 * MEGABYTE  # no kind loses its history to another


async def test_a_watch_from_a_version_that_was_removed_for_its_size_gets_gone() -> None:
    client = DirectClient(registry())
    await client.create(NAMESPACE, namespace("default"))
    first = await client.create(CONFIG_MAP, config_map("a", x="x" * (MEGABYTE - 100)))
    for number in range(100):
        await client.update(CONFIG_MAP, config_map("a", x="x" * (MEGABYTE - 100), n=str(number)))
    with pytest.raises(Gone, match="too old resource version"):
        async for _ in client.watch(CONFIG_MAP, Query(resource_version=first["metadata"]["resourceVersion"])):
            pass


async def test_rows_that_the_history_dropped_are_deleted_from_the_file(tmp_path: Path) -> None:
    durable = DurableStore(tmp_path / "store")
    for number in range(150):
        stored(durable.store, config_map("a", x="x" * MEGABYTE, n=str(number)))
        await durable.store.durable(durable.store.version)
    durable.close()
    assert (tmp_path / "store" / "store.db").stat().st_size < 100 * MEGABYTE
    opened = DurableStore(tmp_path / "store")
    history = opened.store.collection("configmaps").history
    assert history.size <= 64 * MEGABYTE
    assert opened.store.version == 150
    opened.close()


def test_a_small_object_occupies_little_memory() -> None:
    store = Store()
    tracemalloc.start()
    try:
        for number in range(1000):
            stored(store, config_map(f"a{number}"))
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert used / 1000 < 4096  # the encoder's own result occupies 8 KiB however short it is


def test_caches_of_decoded_objects_are_bounded_in_bytes() -> None:
    cache = SharedDecodeCache()
    for number in range(40):
        cache.remember(b"%d" % number + b"x" * MEGABYTE, {"metadata": {"name": str(number)}})
    assert sum(map(len, cache._manifests)) == cache._bytes <= DECODE_CACHE_BYTES
    assert cache._manifests
    decoded = DecodedCache()
    for version in range(1, 2000):
        decoded.keep(record(version, 15_000), {"metadata": {"name": str(version)}})
        assert decoded._bytes == sum(size for _, _, size in decoded._places) <= KEPT_BYTES
    assert decoded.manifest(record(1999, 15_000)) == {"metadata": {"name": "1999"}}


async def test_changes_older_than_the_interval_are_compacted_and_the_objects_stay() -> None:
    clock, store = VirtualClock(), Store()
    compacting = asyncio.create_task(Compactor(store, clock).run())
    await asyncio.sleep(0)
    for number in range(5):
        stored(store, config_map("a", n=str(number)))
    clock.advance(INTERVAL)
    await asyncio.sleep(0.01)
    history = store.collection("configmaps").history
    assert len(history) == 5, "they are at most as old as the interval"
    stored(store, config_map("a", n="5"))
    newer = store.version
    clock.advance(INTERVAL)
    await asyncio.sleep(0.01)
    assert [change.version for change in history.newest_first(0)] == [newer]
    assert history.horizon == newer - 1
    assert history.size > 0
    assert store.get("configmaps", KEY) is not None
    compacting.cancel()
