"""The cost of recording pod runs: CPU of `vc-controller-manager` with and without accounting, for the same jobs.

Each pair of rounds runs the same gangs in the same cluster, one after the other, with a new controller process each;
the order changes from pair to pair. The cost is the median of the differences within pairs: the speed of a machine that
others use changes more from minute to minute than recording costs. The interval contains the true median in at least
95 of 100 runs of the benchmark, whatever the distribution of the differences.
"""

import asyncio
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.case import Case
from volcano.accounting.service.service import FLUSH_SECONDS
from volcano.accounting.store.database import Database
from volcano.accounting.store.queries import RunsQuery, runs
from volcano.embedded import components
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.composition import ControlPlane
from volcano.embedded.options import ClusterOptions
from volcano.kube.api.kinds import JOB, POD
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Query
from volcano.nodes.pools import parse_pools

GANGS, MEMBERS, NODES = 60, 50, 100
WARM_UP = 4  # gangs before the measured ones: code paths are loaded, connections are open
PAIRS = 12
INTERVAL = 0.2  # seconds between the creations of two gangs
WITHIN = 300.0  # seconds
# Run times in seconds. Runs that end before the next write are written once, others twice.
SHORT, LONG = 2.0, FLUSH_SECONDS + 5


@dataclass(frozen=True, slots=True)
class Pair:
    """CPU of the controllers in milliseconds per pod, of two rounds."""

    without: float
    recorded: float

    @property
    def percent(self) -> float:
        """The part of the CPU that recording takes."""
        return 100 * (self.recorded - self.without) / self.recorded


def cases(scale: float) -> Iterator[Case]:
    gangs, pairs = max(int(GANGS * scale), 2), max(round(PAIRS * min(scale, 1.0)), 2)
    for duration in (SHORT, LONG):
        found = asyncio.run(_measure_pairs(gangs, duration, pairs))
        percents = [pair.percent for pair in found]
        low, high = median_interval(percents)
        metrics = {
            "cpu_ms_per_pod": statistics.median(pair.without for pair in found),
            "recorded_cpu_ms_per_pod": statistics.median(pair.recorded for pair in found),
            "recording_percent": statistics.median(percents),
            "interval_low": low,
            "interval_high": high,
        }
        title = f"{gangs} gangs of {MEMBERS} pods that run for {duration:g} s"
        yield Case("recording", title, metrics, {"max:recording_percent": 5.0})


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Bounds of the median, by the sign test: both ends of the values when there are too few of them."""
    ordered, number = sorted(values), len(values)
    outside, skipped = 0.0, 0  # values beyond each bound
    while skipped < number // 2:
        outside += 2 * math.comb(number, skipped) / 2**number
        if outside > 1 - confidence:
            break
        skipped += 1
    skipped = max(skipped - 1, 0)
    return ordered[skipped], ordered[number - 1 - skipped]


class _WithoutControllers(LocalCluster):
    """A cluster whose Volcano controllers run in another process."""

    def _start_controllers(self, plane: ControlPlane) -> None:
        made = components.controllers(
            self.options,
            self.nodes(),
            self._random,
            plane.credentials.authority,
            lambda user, subresource: False,
            self._component_metrics,
            plane.dialer.dial,
        )
        for make in made[components.KUBERNETES]:
            self._start_controller(plane, components.KUBERNETES, make)


async def _measure_pairs(gangs: int, duration: float, pairs: int) -> list[Pair]:
    found = []
    with tempfile.TemporaryDirectory() as directory:
        pools = parse_pools([NODES], ["cpu=32,memory=128Gi"])
        options = ClusterOptions(Path(directory) / "data", pools=pools, accounting_database="none")
        async with _WithoutControllers(options) as cluster:
            for number in range(pairs):
                order = (False, True) if number % 2 else (True, False)
                used = {recorded: await _round(cluster, gangs, duration, recorded) for recorded in order}
                found.append(Pair(used[False], used[True]))
    return found


async def _round(cluster: LocalCluster, gangs: int, duration: float, recorded: bool) -> float:
    """CPU of the controllers in milliseconds per pod, from the creation of jobs until they are gone and recorded."""
    with tempfile.TemporaryDirectory() as directory:
        url = f"sqlite:///{directory}/accounting.db"
        command = [sys.executable, "-m", "volcano.cmd.controllers", "--leader-elect=false"]
        command += ["--kubeconfig", str(cluster.kubeconfig)]
        command += ["--accounting-database", url] if recorded else []
        with open(Path(directory) / "log", "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            await _complete(cluster, "first", WARM_UP, duration)
            await asyncio.sleep(FLUSH_SECONDS + 1)
            before = _cpu_seconds(process.pid)
            await _complete(cluster, "gang", gangs, duration)
            await asyncio.sleep(FLUSH_SECONDS + 1)  # the last runs are written
            used = _cpu_seconds(process.pid) - before
        finally:
            process.terminate()
            process.wait()
        if recorded:
            _check(url, (gangs + WARM_UP) * MEMBERS)
    return used * 1000 / (gangs * MEMBERS)


def _check(url: str, count: int) -> None:
    """Every run must be recorded, with its end."""
    database = Database(url)
    found = runs(database, RunsQuery(0, 1e12, limit=1_000_000))
    database.close()
    ended = sum(run.ended is not None and not run.estimated for run in found)
    assert len(found) == ended == count, f"{count} runs: {len(found)} were recorded, {ended} with their ends"


async def _complete(cluster: LocalCluster, prefix: str, gangs: int, duration: float) -> None:
    """Runs jobs from creation to completion; finished ones are deleted while others run."""
    for number in range(gangs):
        await cluster.client.create(JOB, _job(f"{prefix}-{number}", duration))
        await asyncio.sleep(INTERVAL)
    async with asyncio.timeout(WITHIN):
        for kind in (JOB, POD):
            while (await cluster.client.list(kind, Query(namespace="default"))).items:
                await asyncio.sleep(0.5)


def _job(name: str, duration: float) -> Manifest:
    requests = {"cpu": "1", "memory": "1Gi"}
    template = {
        "metadata": {"annotations": {"volcano.sh/sim-duration": f"{duration:g}s"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}],
        },
    }
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "ttlSecondsAfterFinished": 1,
            "tasks": [{"name": "w", "replicas": MEMBERS, "template": template}],
        },
    }


def _cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process, exactly; /proc has it in hundredths of a second."""
    return time.clock_gettime((~pid << 3) | 2)  # what clock_getcpuclockid(3) returns
