"""A recorder that is killed again and again, as a process, records every pod run exactly once."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from volcano.accounting.api import Outcome, Run
from volcano.accounting.store.database import Database
from volcano.accounting.store.queries import RunsQuery, runs
from volcano.base.clock import parse_timestamp
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.options import ClusterOptions
from volcano.kube.api.errors import Conflict, NotFound
from volcano.kube.api.kinds import JOB, POD
from volcano.kube.api.manifest import Key, Manifest, uid_of
from volcano.kube.api.names import JOB_NAME
from volcano.kube.client.protocol import Client, Options, Query
from volcano.nodes.pools import parse_pools

pytestmark = pytest.mark.slow

CRASHES = 6
JOBS_A_ROUND = 4
PODS = 5


def job(name: str, seconds: float, **fields: object) -> Manifest:
    template = {
        "metadata": {"annotations": {"volcano.sh/sim-duration": f"{seconds:.2f}s"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}],
        },
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"tasks": [{"name": "w", "replicas": PODS, "template": template}], **fields},
    }


class Recorder:
    """`vc-controller-manager` with accounting, as a process."""

    def __init__(self, kubeconfig: Path, url: str, log: Path) -> None:
        self._command = [sys.executable, "-m", "volcano.cmd.controllers", "--kubeconfig", str(kubeconfig)]
        self._command += ["--leader-elect=false", "--controllers=jobtemplate-controller"]
        self._command += ["--accounting-database", url]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


@pytest.fixture
def cluster_options(tmp_path: Path) -> ClusterOptions:
    return ClusterOptions(
        tmp_path / "cluster", durable=False, pools=parse_pools([4], []), accounting_database="none"
    )


def ends_of(pod: Manifest) -> Iterator[float]:
    for status in (pod["status"].get("containerStatuses")) or ():
        yield parse_timestamp(status["state"]["terminated"]["finishedAt"])


async def wait_for_rows(database: Database, log: Path, condition: object) -> dict[str, Run]:
    for _ in range(300):
        found = {
            run.uid: run for run in await asyncio.to_thread(runs, database, RunsQuery(0, 1e12, limit=5000))
        }
        if callable(condition) and condition(found):
            return found
        await asyncio.sleep(0.2)
    raise AssertionError(f"rows did not appear: {log.read_text()[-3000:]}")


async def run_unseen(client: Client, name: str) -> dict[str, Manifest]:
    """Runs a job and deletes it; returns its pods as they were at the end."""
    await client.create(JOB, job(name, 0.2))
    for _ in range(300):
        found = (await client.list(POD, Query(namespace="default", labels=f"{JOB_NAME}={name}"))).items
        if len(found) == PODS and all(pod["status"]["phase"] == "Succeeded" for pod in found):
            break
        await asyncio.sleep(0.1)
    await client.delete(JOB, Key("default", name), options=Options(propagation="Background"))
    for pod in found:
        options = Options(grace_seconds=0, uid=uid_of(pod))
        with suppress(NotFound, Conflict):  # the garbage collector was faster
            await client.delete(POD, Key("default", pod["metadata"]["name"]), options=options)
    return {uid_of(pod): pod for pod in found}


async def test_every_run_is_recorded_once_however_often_the_recorder_is_killed(
    database: Database, database_url: str, cluster_options: ClusterOptions, tmp_path: Path
) -> None:
    random = Random(5)
    log = tmp_path / "log"
    vanished: dict[str, float] = {}  # pods deleted while nothing was recorded, and when
    unseen: dict[str, Manifest] = {}  # pods that started and were deleted while nothing was recorded
    async with LocalCluster(cluster_options) as cluster:
        recorder = Recorder(cluster.kubeconfig, database_url, log)
        try:
            for number in range(CRASHES):
                recorder.start()
                for each in range(JOBS_A_ROUND):
                    await cluster.client.create(
                        JOB, job(f"j{number}-{each}", random.choice((0.5, 2.0, 600.0)))
                    )
                started = f"j{number}-0-w-0"
                if number in (1, 3):  # the recorder is known to have seen this round
                    await wait_for_rows(
                        database,
                        log,
                        lambda rows: any(run.pod == started for run in rows.values()),  # noqa: B023
                    )
                await asyncio.sleep(random.uniform(0.0, 4.0))
                recorder.kill()
                listing = await cluster.client.list(POD)
                known = {
                    run.uid for run in await asyncio.to_thread(runs, database, RunsQuery(0, 1e12, limit=5000))
                }
                for pod in listing.items:  # while nothing is recorded
                    is_open = pod["status"]["phase"] == "Running" and uid_of(pod) in known
                    if is_open and len(vanished) < 3 * (number + 1):
                        vanished[uid_of(pod)] = time.time()
                        key = Key("default", pod["metadata"]["name"])
                        await cluster.client.delete(POD, key, options=Options(grace_seconds=0))
                if known:  # recording has begun once
                    unseen |= await run_unseen(cluster.client, f"unseen-{number}")
                await asyncio.sleep(random.uniform(0.0, 1.0))
            recorder.start()
            await asyncio.sleep(1.0)
            listed = (await cluster.client.list(POD, Query(namespace="default"))).items
            pods = {uid_of(pod): pod for pod in listed if pod["status"].get("startTime")}

            def complete(rows: dict[str, Run]) -> bool:
                finished = {uid for uid, pod in pods.items() if pod["status"]["phase"] == "Succeeded"}
                over = finished | vanished.keys() | unseen.keys()
                ended = all(uid in rows and rows[uid].ended is not None for uid in over)
                return ended and pods.keys() <= rows.keys()

            rows = await wait_for_rows(database, log, complete)
        finally:
            recorder.kill()
    assert len(vanished) > 0
    assert len(unseen) > 0
    assert any(pod["status"]["phase"] == "Succeeded" for pod in pods.values())
    for uid, at in vanished.items():
        assert rows[uid].ended == pytest.approx(at, abs=2.0)
        assert (rows[uid].outcome, rows[uid].estimated) == (Outcome.DELETED, False)
    for uid, pod in (pods | unseen).items():
        assert rows[uid].started == parse_timestamp(pod["status"]["startTime"])
        if pod["status"]["phase"] == "Succeeded":
            assert rows[uid].ended == max(rows[uid].started, *ends_of(pod))
            assert rows[uid].outcome is Outcome.COMPLETED
            assert not rows[uid].estimated
