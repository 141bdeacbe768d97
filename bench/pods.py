"""Pods on this host in a whole cluster: start latency, starts per second, and cost of idle pods."""

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
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.options import ClusterOptions, LocalNodeOptions
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Event, EventType, Watch
from volcano.kube.informers.reflector import Reflector, each_event
from volcano.nodes.runtimes.probe import probe
from volcano.nodes.runtimes.shim_launch import shim_pid
from volcano.nodes.shim import processes
from volcano.nodes.shim.specs import Mode

IDLE = 50
SINGLES = 15
SETTLE = 3.0
IDLE_SECONDS = 5.0  # of the idle measurement


Measure = Callable[[LocalCluster, "Phases", int], Coroutine[Any, Any, dict[str, float]]]


def cases(scale: float) -> Iterator[Case]:
    """Two cases for each runtime available here, each in its own process."""
    count = max(int(100 * scale), 10)
    for mode in Mode:
        if probe(mode).available:
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
    """Pods one after the other, then many at once, from creation to the end of the last."""
    single = [
        await _create(cluster, phases, [f"single{number}"], "Running", "sleep", "2")
        for number in range(SINGLES)
    ]
    together = await _create(cluster, phases, [f"many{n}" for n in range(count)], "Succeeded", "true")
    return {"submit_to_running_ms": statistics.median(single) * 1e3, "pods_per_second": count / together}


async def idle(cluster: LocalCluster, phases: "Phases", count: int) -> dict[str, float]:
    """Cost of idle pods, relative to a cluster that has run a few before."""
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
    """Phase of every pod, from a watch."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._seen: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._reflector = Reflector(cluster.client, Watch(POD), each_event(self._handle), cluster.clock)

    async def run(self) -> None:
        await self._reflector.run()

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
    """Creates pods and waits until all have reached a phase; returns the seconds."""
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
    """CPU (percent of one core) and private memory of the cluster and its shim while nothing happens."""
    await asyncio.sleep(SETTLE)
    gc.collect()
    shim = shim_pid(directory)
    before = time.process_time() + _seconds_of(shim)
    await asyncio.sleep(IDLE_SECONDS)
    used = time.process_time() + _seconds_of(shim) - before
    own = sum(processes.private_memory(pid) for pid in (multiprocessing.current_process().pid or 0, shim))
    return {"cpu_percent": 100 * used / IDLE_SECONDS, "mib": own / (1 << 20)}


def _seconds_of(pid: int) -> float:
    """CPU time of another process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
