"""Pods on this host through a whole cluster: how soon one runs, how many a second, and what idle ones cost."""

import asyncio
import gc
import multiprocessing
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

from bench.case import Case
from volcano.kube.client import Event, EventType
from volcano.kube.controller import Watch
from volcano.kube.kinds import POD
from volcano.kube.manifest import Manifest
from volcano.kube.reflector import Reflector, each_event
from volcano.local.cluster import LocalCluster
from volcano.local.options import ClusterOptions, LocalNodeOptions
from volcano.nodes.runtimes.probe import probe
from volcano.nodes.runtimes.shim_launch import living
from volcano.nodes.shim import processes
from volcano.nodes.shim.specs import Mode

IDLE = 50
SINGLES = 15
SETTLE = 3.0
LOOK = 5.0  # seconds over which idleness is measured


Measure = Callable[[LocalCluster, "Phases", int], Coroutine[Any, Any, dict[str, float]]]


def cases(scale: float) -> Iterator[Case]:
    """Two cases for each runtime that this machine allows, each in a process of its own."""
    count = max(int(100 * scale), 10)
    for mode in Mode:
        if probe(mode).possible:
            yield Case("pods", f"{mode}, {count} pods at once", _alone(mode, starts, count))
            yield Case("pods", f"{mode}, {IDLE} idle pods", _alone(mode, idle, IDLE))


def _alone(mode: Mode, measure: Measure, count: int) -> dict[str, float]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_run, (str(mode), measure, count))


def _run(runtime: str, measure: Measure, count: int) -> dict[str, float]:
    return asyncio.run(_on_a_cluster(runtime, measure, count))


async def _on_a_cluster(runtime: str, measure: Measure, count: int) -> dict[str, float]:
    directory = Path(tempfile.mkdtemp(prefix="volcano-bench-"))
    settings = ClusterOptions(directory, durable=False, local=LocalNodeOptions(nodes=1, runtime=runtime))
    try:
        async with LocalCluster(settings) as cluster:
            phases = Phases(cluster)
            watching = asyncio.create_task(phases.run())
            try:
                return await measure(cluster, phases, count)
            finally:
                watching.cancel()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


async def starts(cluster: LocalCluster, phases: "Phases", count: int) -> dict[str, float]:
    """One pod after the other, then many at once from their creation to the end of the last."""
    single = [
        await _create(cluster, phases, [f"single{number}"], "Running", "sleep", "2")
        for number in range(SINGLES)
    ]
    together = await _create(cluster, phases, [f"many{n}" for n in range(count)], "Succeeded", "true")
    return {"submit_to_running_ms": statistics.median(single) * 1e3, "pods_per_second": count / together}


async def idle(cluster: LocalCluster, phases: "Phases", count: int) -> dict[str, float]:
    """What pods cost that do nothing, beside a cluster that has started a few before."""
    await _create(cluster, phases, [f"first{n}" for n in range(5)], "Succeeded", "true")
    without = await _idleness(cluster.options.directory)
    await _create(cluster, phases, [f"idle{n}" for n in range(count)], "Running", "sleep", "3600")
    with_them = await _idleness(cluster.options.directory)
    return {
        **without,
        "kib_each": (with_them["mib"] - without["mib"]) * 1024 / count,
        "cpu_percent_each": (with_them["cpu_percent"] - without["cpu_percent"]) / count,
    }


class Phases:
    """Where every pod stands, as whoever watches the API server sees it."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._seen: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._mirror = Reflector(cluster.client, Watch(POD), each_event(self._handle), cluster.clock)

    async def run(self) -> None:
        await self._mirror.run()

    def _handle(self, event: Event) -> None:
        pod: Manifest = event.object
        if event.type is not EventType.BOOKMARK:
            self._seen[pod["metadata"]["name"]] = (pod.get("status") or {}).get("phase") or ""
            self._changed.set()

    async def until(self, true: Callable[[dict[str, str]], bool]) -> None:
        while not true(self._seen):
            self._changed.clear()
            await self._changed.wait()


async def _create(
    cluster: LocalCluster, phases: Phases, names: list[str], phase: str, *command: str
) -> float:
    """Creates pods and waits until all have got so far; the seconds that took."""
    begun = time.perf_counter()
    await asyncio.gather(*(cluster.client.create(POD, _pod(name, command)) for name in names))
    await phases.until(lambda seen: all(seen.get(name) == phase for name in names))
    return time.perf_counter() - begun


def _pod(name: str, command: tuple[str, ...]) -> Manifest:
    container = {"name": "main", "image": "none", "command": list(command)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [container]},
    }


async def _idleness(directory: Path) -> dict[str, float]:
    """What the cluster and its keeper use while nothing happens: percent of one processor, and memory of their own."""
    await asyncio.sleep(SETTLE)
    gc.collect()
    keeper = living(directory)
    before = time.process_time() + _seconds_of(keeper)
    await asyncio.sleep(LOOK)
    used = time.process_time() + _seconds_of(keeper) - before
    own = sum(processes.private_memory(pid) for pid in (multiprocessing.current_process().pid or 0, keeper))
    return {"cpu_percent": 100 * used / LOOK, "mib": own / (1 << 20)}


def _seconds_of(pid: int) -> float:
    """Processor time of another process, in the kernel's ticks of a hundredth."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
