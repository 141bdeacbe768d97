"""Store in process: creates and bindings with and without durability, fan-out, lists, memory."""

import asyncio
import gc
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random

import orjson

from bench.case import Case
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.registry.kind_table import KindTable
from volcano.apiserver.registry.registry import Registry
from volcano.apiserver.registry.strategies import built_in_kinds
from volcano.apiserver.storage.journal import DurableStore
from volcano.apiserver.storage.store import Store
from volcano.base.clock import SystemClock
from volcano.kube.api.kinds import NAMESPACE, POD
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Query

WRITERS = 32
WATCHERS = 10


def cases(scale: float) -> Iterator[Case]:
    """Every case, `scale` times the usual size."""
    yield asyncio.run(
        _memory(max(int(20_000 * scale), 200))
    )  # first: freed memory is not returned to the system
    count = max(int(5000 * scale), 200)
    yield asyncio.run(_writes("in memory", Store(), count))
    with tempfile.TemporaryDirectory() as directory:
        durable = DurableStore(Path(directory) / "data")
        yield asyncio.run(_writes("durable", durable.store, count, durable.close))
        started = time.perf_counter()
        DurableStore(Path(directory) / "data").close()
        yield Case("store", f"start-up with {count} pods", {"seconds": time.perf_counter() - started}, {})
    yield asyncio.run(_fan_out(count))
    yield asyncio.run(_list(max(int(10_000 * scale), 200)))


def example_pod(name: str) -> Manifest:
    """Pod of a usual size: about 2.5 KB when stored."""
    environment = [{"name": f"VARIABLE_{number}", "value": f"value-{number}"} for number in range(20)]
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}
    container = {
        "name": "main",
        "image": "busybox:1",
        "command": ["sleep", "3600"],
        "env": environment,
        "resources": resources,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "bench", "tier": "front"}},
        "spec": {"schedulerName": "volcano", "containers": [container]},
    }


def binding(name: str, node: str) -> Manifest:
    return {"metadata": {"name": name, "namespace": "default"}, "target": {"kind": "Node", "name": node}}


async def _client(store: Store) -> DirectClient:
    random = Random(1)
    registry = Registry(
        store,
        KindTable(built_in_kinds()),
        clock=SystemClock(),
        random=random,
        new_uid=lambda: f"{random.getrandbits(128):032x}",
    )
    client = DirectClient(registry)
    await client.create(NAMESPACE, {"metadata": {"name": "default"}})
    return client


async def _measured(count: int, write: Callable[[int], Awaitable[object]]) -> tuple[float, float]:
    """Writes per second, and CPU microseconds per write (all threads)."""

    async def writer(first: int) -> None:
        for number in range(first, count, WRITERS):
            await write(number)

    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(writer(first) for first in range(WRITERS)))
    return count / (time.perf_counter() - wall), (time.process_time() - cpu) / count * 1e6


async def _writes(case: str, store: Store, count: int, close: Callable[[], None] = lambda: None) -> Case:
    client = await _client(store)
    creates, create_cpu = await _measured(count, lambda n: client.create(POD, example_pod(f"p{n}")))
    binds, bind_cpu = await _measured(
        count, lambda n: client.create(POD, binding(f"p{n}", f"n{n % 100}"), subresource="binding")
    )
    close()
    metrics = {
        "creates/s": creates,
        "create_cpu_us": create_cpu,
        "binds/s": binds,
        "bind_cpu_us": bind_cpu,
    }
    return Case("store", f"{count} pods, {case}", metrics, {"min:creates/s": 2400.0, "min:binds/s": 2800.0})


async def _fan_out(count: int) -> Case:
    client = await _client(Store(history=count + 1000))
    registry = client._registry
    feeds = [
        registry.open_watcher(POD, Query(resource_version=str(registry.store.version)))
        for _ in range(WATCHERS)
    ]
    for number in range(count):
        await client.create(POD, example_pod(f"p{number}"))
    cpu = time.process_time()
    sent = 0
    for feed in feeds:
        while batch := feed.take():
            sent += sum(len(event.line()) > 0 for event in batch)
    seconds = time.process_time() - cpu
    assert sent == count * WATCHERS
    metrics = {"events/s": sent / seconds, "event_cpu_us": seconds / sent * 1e6}
    return Case("store", f"fan-out of {count} events to {WATCHERS} watchers", metrics, {})


async def _list(count: int) -> Case:
    client = await _client(Store())
    for number in range(count):
        await client.create(POD, example_pod(f"p{number}"))
    registry = client._registry
    started = time.perf_counter()
    encoded = (await registry.list(POD)).encode()
    listed = time.perf_counter() - started
    started = time.perf_counter()
    await registry.list(POD, Query(fields="spec.nodeName=n1"))
    by_node = time.perf_counter() - started
    started = time.perf_counter()
    await registry.list(POD, Query(labels="tier=back"))
    by_label = time.perf_counter() - started
    assert len(orjson.loads(encoded)["items"]) == count
    metrics = {
        "ms": listed * 1e3,
        "by_node_ms": by_node * 1e3,
        "by_label_ms": by_label * 1e3,
        "MB": len(encoded) / 1e6,
    }
    return Case("store", f"list of {count} pods, encoded", metrics, {})


async def _memory(count: int) -> Case:
    await (await _client(Store())).create(
        POD, example_pod("warm-up")
    )  # type information is loaded on first use
    gc.collect()
    before = _resident()
    client = await _client(Store())
    for number in range(count):
        await client.create(POD, example_pod(f"p{number}"))
    gc.collect()
    grown = _resident() - before
    records = client._registry.store.collection("pods").records.values()
    raw = sum(len(record.data) for record in records)
    return Case(
        "store",
        f"memory of {count} pods with history",
        {"MB": grown / 1e6, "bytes_a_pod": grown / count, "of_which_json": raw / count},
        {},
    )


def _resident() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
