"""Containers on the process runtimes: start latency, starts per second, and cost of an idle container."""

import asyncio
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.case import Case
from volcano.nodes.runtimes.probe import probe
from volcano.nodes.runtimes.process import ProcessRuntime
from volcano.nodes.shim import processes
from volcano.nodes.shim.specs import ContainerSpec, Mode, SandboxSpec

POD = "bench"


def cases(scale: float) -> Iterator[Case]:
    """One case for each runtime available here."""
    count = max(int(100 * scale), 10)
    for mode in Mode:
        if probe(mode).available:
            yield Case("shim", f"{mode}, {count} containers", asyncio.run(_measure(mode, count)))


async def _measure(mode: Mode, count: int) -> dict[str, float]:
    directory = Path(tempfile.mkdtemp(prefix="volcano-bench-"))
    runtime = ProcessRuntime(directory, mode, lifeline=True)
    ended = asyncio.Semaphore(0)
    runtime.on_change(lambda state: ended.release())
    begun = time.perf_counter()
    await runtime.open()
    metrics = {"open_ms": (time.perf_counter() - begun) * 1e3, "shim_kb": _own_kilobytes(runtime.pid)}
    try:
        pod = str(directory / "pods" / POD)
        await runtime.create_sandbox(SandboxSpec(POD, "default", POD, "local-0", pod, POD))
        metrics |= await _starts(runtime, count, ended)
        await asyncio.gather(*(runtime.start(_container(f"idle{n}", "sleep", "600")) for n in range(count)))
        tree = [runtime.pid, *processes.descendants(runtime.pid)]
        idle = [pid for pid in tree[1:] if processes.command_line(pid)[:1] != ["sleep"]]
        grown = _own_kilobytes(runtime.pid) - metrics["shim_kb"]
        metrics["idle_kb_each"] = (max(grown, 0) + sum(map(_own_kilobytes, idle))) / count
    finally:
        await runtime.close(keep=False)
        shutil.rmtree(directory, ignore_errors=True)
    return metrics


async def _starts(runtime: ProcessRuntime, count: int, ended: asyncio.Semaphore) -> dict[str, float]:
    started, finished = [], []
    for number in range(min(count, 30)):
        begun = time.perf_counter()
        await runtime.start(_container(f"single{number}", "true"))
        started.append(time.perf_counter() - begun)
        await ended.acquire()
        finished.append(time.perf_counter() - begun)
    begun = time.perf_counter()
    await asyncio.gather(*(runtime.start(_container(f"many{n}", "true")) for n in range(count)))
    for _ in range(count):
        await ended.acquire()
    return {
        "start_ms": statistics.median(started) * 1e3,
        "start_to_end_ms": statistics.median(finished) * 1e3,
        "per_second": count / (time.perf_counter() - begun),
    }


def _container(name: str, *command: str) -> ContainerSpec:
    return ContainerSpec(POD, name, 0, "none", command, environment={"PATH": os.environ["PATH"]})


def _own_kilobytes(pid: int) -> float:
    """Private memory of a process."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return float(sum(int(line.split()[1]) for line in lines if line.startswith("Private_")))
