"""A cluster of `volcano up` in a process of its own, with simulated nodes, and jobs that fill it."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from volcano.base.clock import SystemClock
from volcano.kube.api.kinds import JOB, POD
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.connect import connect
from volcano.kube.client.http import HttpClient
from volcano.kube.client.kubeconfig import load_client_config
from volcano.kube.client.protocol import Query

STARTED_WITHIN = 300.0


class UpCluster:
    """`volcano up --detach` with its data below `home`."""

    def __init__(self, home: Path, nodes: int, shape: str, *options: str) -> None:
        self._environment = {**os.environ, "HOME": str(home), "XDG_RUNTIME_DIR": str(home)}
        for name in ("KUBECONFIG", "XDG_DATA_HOME"):
            self._environment.pop(name, None)
        size = ("--nodes", str(nodes), "--node", shape)
        self.volcano("up", "--in-memory", "--no-local-node", *size, *options, "--detach")
        self.kubeconfig = next(home.rglob("kubeconfig"))
        self.pid = int(json.loads(next(home.rglob("cluster.json")).read_text())["pid"])

    def stop(self) -> None:
        self.volcano("down")

    def volcano(self, *words: str) -> str:
        """Standard output of a `volcano` command for this cluster."""
        done = subprocess.run(
            [sys.executable, "-m", "volcano.cmd.volcano", *words],
            env=self._environment, capture_output=True, text=True, check=True, timeout=STARTED_WITHIN,
        )  # fmt: skip
        return done.stdout

    def client(self) -> HttpClient:
        return connect(load_client_config({}, kubeconfig=str(self.kubeconfig)), SystemClock())

    def fill(self, pods: int, per_job: int, requests: dict[str, str]) -> None:
        """Creates jobs with this many pods and waits until they run."""
        run_in_thread(self._fill(pods // per_job, per_job, requests))

    async def _fill(self, jobs: int, per_job: int, requests: dict[str, str]) -> None:
        client = self.client()
        try:
            for number in range(jobs):
                await client.create(JOB, job_manifest(f"job-{number:04}", per_job, requests))
            deadline = time.monotonic() + STARTED_WITHIN
            while time.monotonic() < deadline:
                running = await client.list(POD, Query(namespace="default", fields="status.phase=Running"))
                if len(running.items) >= jobs * per_job:
                    return
                await asyncio.sleep(1.0)
            raise TimeoutError("the pods did not start")
        finally:
            await client.close()


def job_manifest(name: str, replicas: int, requests: dict[str, str], queue: str = "default") -> Manifest:
    limits = {resource: amount for resource, amount in requests.items() if "/" in resource}
    resources = {"requests": requests, "limits": limits}
    container = {"name": "main", "image": "busybox", "resources": resources}
    task = {"name": "worker", "replicas": replicas, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": replicas, "queue": queue, "tasks": [task]},
    }


def run_in_thread(work: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine although this thread may have an event loop."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(asyncio.run, work).result()
