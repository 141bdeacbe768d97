"""The cost of recording pod runs: CPU of `vc-controller-manager` with and without accounting, for the same jobs."""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.case import Case
from volcano.accounting.database import Database
from volcano.accounting.queries import RunsQuery, runs
from volcano.controllers.accounting.service import FLUSH_SECONDS
from volcano.kube.client import Query
from volcano.kube.kinds import JOB
from volcano.kube.manifest import Manifest
from volcano.local import components
from volcano.local.cluster import LocalCluster
from volcano.local.composition import ControlPlane
from volcano.local.options import ClusterOptions
from volcano.nodes.pools import parse_pools

GANGS, MEMBERS, NODES = 40, 50, 100
ROUNDS = 5
WITHIN = 300.0  # seconds
# Run times in seconds. Runs that end before the next write are written once, others twice.
SHORT, LONG = 2, FLUSH_SECONDS + 5


def cases(scale: float) -> Iterator[Case]:
    gangs = max(int(GANGS * scale), 2)
    for duration in (SHORT, LONG):
        found: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(ROUNDS):
            for recorded in (False, True):  # alternating, because the machine's speed varies
                # The round that other processes disturbed least counts.
                found[recorded].append(asyncio.run(_measure(gangs, duration, recorded)))
        without, with_ = (min(found[recorded]) for recorded in (False, True))
        metrics = {
            "cpu_ms_per_pod": without,
            "recorded_cpu_ms_per_pod": with_,
            "recording_percent": 100 * (with_ - without) / with_,
        }
        title = f"{gangs} gangs of {MEMBERS} pods that run for {duration:g} s"
        yield Case("recording", title, metrics, {"max:recording_percent": 5.0})


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
        )
        for make in made[components.KUBERNETES]:
            self._start_controller(plane, components.KUBERNETES, make)


async def _measure(gangs: int, duration: float, recorded: bool) -> float:
    """CPU of the controllers in milliseconds per pod, from the creation of the jobs until their runs are written."""
    with tempfile.TemporaryDirectory() as directory:
        pools = parse_pools([NODES], ["cpu=32,memory=128Gi"])
        options = ClusterOptions(Path(directory) / "data", pools=pools, accounting_database="none")
        url = f"sqlite:///{directory}/accounting.db"
        async with _WithoutControllers(options) as cluster:
            command = [sys.executable, "-m", "volcano.entry.controllers", "--leader-elect=false"]
            command += ["--kubeconfig", str(cluster.kubeconfig)]
            command += ["--accounting-database", url] if recorded else []
            with open(Path(directory) / "log", "wb") as log:
                process = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                await _complete(cluster, "first", 1, duration)  # the controllers are ready
                await asyncio.sleep(FLUSH_SECONDS + 1)
                before = _cpu_seconds(process.pid)
                await _complete(cluster, "gang", gangs, duration)
                await asyncio.sleep(FLUSH_SECONDS + 1)  # the last runs are written
                used = _cpu_seconds(process.pid) - before
            finally:
                process.terminate()
                process.wait()
        if recorded:
            _check(url, (gangs + 1) * MEMBERS)
        return used * 1000 / (gangs * MEMBERS)


def _check(url: str, count: int) -> None:
    """Every run must be recorded, with its end."""
    database = Database(url)
    found = runs(database, RunsQuery(0, 1e12, limit=1_000_000))
    database.close()
    ended = sum(run.ended is not None for run in found)
    assert len(found) == ended == count, f"{count} runs: {len(found)} were recorded, {ended} with their ends"


async def _complete(cluster: LocalCluster, prefix: str, gangs: int, duration: float) -> None:
    """Runs jobs from creation to completion."""
    for number in range(gangs):
        await cluster.client.create(JOB, _job(f"{prefix}-{number}", duration))
    async with asyncio.timeout(WITHIN):
        while True:
            jobs = (await cluster.client.list(JOB, Query(namespace="default"))).items
            phases = [((job.get("status") or {}).get("state") or {}).get("phase") for job in jobs]
            if all(phase == "Completed" for phase in phases):
                return
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
        "spec": {"tasks": [{"name": "w", "replicas": MEMBERS, "template": template}]},
    }


def _cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process, exactly; /proc has it in hundredths of a second."""
    return time.clock_gettime((~pid << 3) | 2)  # what clock_getcpuclockid(3) returns
