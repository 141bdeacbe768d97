"""The dashboard of a cluster with 1,000 nodes and 10,000 pods: first paint, the preview of a job, the cost of a viewer.

Viewers are pages of a real browser. The cost is the CPU time of the dashboard while a job is created or deleted every
second: the difference between five viewers and one over 60 seconds, divided by four, as a part of one core.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.case import Case
from volcano.clients.connect import connect
from volcano.clients.kubeconfig import load_client_config
from volcano.clock import SystemClock
from volcano.kube.client import Query
from volcano.kube.kinds import JOB, POD
from volcano.kube.manifest import Key, Manifest

PODS_OF_A_JOB = 50
VIEWERS = 5
WATCHED_SECONDS = 60.0
STARTED_WITHIN = 300.0
CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
# Pages of one object, beside those of the navigation.
OBJECT_PAGES = ("/queues/default", "/jobs/default/job-0000", "/nodes/node-0")
QUIET = 0.15  # seconds of CPU time in a second: the pages are complete
QUIET_WITHIN = 60
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"


def cases(scale: float) -> Iterator[Case]:
    """First paint and cost of viewers of each page, and the preview of a job."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("dashboard: skipped, Playwright is not installed (make test-slow installs it)", file=sys.stderr)
        return
    if not Path(CHROMIUM).exists():
        print(f"dashboard: skipped, there is no {CHROMIUM}", file=sys.stderr)
        return
    nodes, pods = max(int(1000 * scale), 10), max(int(10_000 * scale), PODS_OF_A_JOB)
    with tempfile.TemporaryDirectory() as home:
        cluster = _Cluster(Path(home), nodes)
        try:
            _in_thread(_fill(cluster.kubeconfig, pods))
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
                size = f"{nodes} nodes, {pods} pods"
                yield from _first_paints(browser, cluster, size)
                yield _preview(browser, cluster, size)
                for path in (*(page.paths[0] for page in _navigation()), *OBJECT_PAGES):
                    yield _viewers(browser, cluster, path, WATCHED_SECONDS * min(scale, 1.0))
                browser.close()
        finally:
            cluster.stop()


class _Cluster:
    """`volcano up` in the background."""

    def __init__(self, home: Path, nodes: int) -> None:
        self._environment = {**os.environ, "HOME": str(home), "XDG_RUNTIME_DIR": str(home)}
        for name in ("KUBECONFIG", "XDG_DATA_HOME"):
            self._environment.pop(name, None)
        size = ("--nodes", str(nodes), "--node", "cpu=32,memory=128Gi,nvidia.com/gpu=8")
        self._volcano("up", "--in-memory", "--no-local-node", *size, "--dashboard-port", "0", "--detach")
        self.kubeconfig = next(home.rglob("kubeconfig"))
        self._pid = int(json.loads(next(home.rglob("cluster.json")).read_text())["pid"])

    def stop(self) -> None:
        self._volcano("down")

    def link(self) -> str:
        return self._volcano("dashboard", "--link").strip()

    def dashboard_seconds(self) -> float:
        """Processor time that the dashboard's process has used."""
        children = Path(f"/proc/{self._pid}/task").glob("*/children")
        pids = [pid for file in children for pid in file.read_text().split()]
        dashboard = next(pid for pid in pids if b"dashboard" in Path(f"/proc/{pid}/cmdline").read_bytes())
        fields = Path(f"/proc/{dashboard}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _volcano(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "volcano.entry.local", *words],
            env=self._environment, capture_output=True, text=True, check=True, timeout=STARTED_WITHIN,
        )  # fmt: skip
        return done.stdout


async def _fill(kubeconfig: Path, pods: int) -> None:
    """Creates jobs with this many pods and waits until they run."""
    client = connect(load_client_config({}, kubeconfig=str(kubeconfig)), SystemClock())
    try:
        for number in range(pods // PODS_OF_A_JOB):
            await client.create(JOB, _job(f"job-{number:04}", PODS_OF_A_JOB))
        deadline = time.monotonic() + STARTED_WITHIN
        while time.monotonic() < deadline:
            running = await client.list(POD, Query(namespace="default", fields="status.phase=Running"))
            if len(running.items) >= pods // PODS_OF_A_JOB * PODS_OF_A_JOB:
                return
            await asyncio.sleep(1.0)
        raise TimeoutError("the pods did not start")
    finally:
        await client.close()


async def _change(kubeconfig: Path, seconds: float) -> None:
    """Creates or deletes a job every second."""
    client = connect(load_client_config({}, kubeconfig=str(kubeconfig)), SystemClock())
    try:
        for number in range(max(int(seconds) // 2, 1) * 2):
            name = f"changing-{number // 2}"
            if number % 2 == 0:
                await client.create(JOB, _job(name, 2, gpus=1))
            else:
                await client.delete(JOB, Key("default", name))
            await asyncio.sleep(1.0)
    finally:
        await client.close()


def _job(name: str, replicas: int, gpus: int = 0) -> Manifest:
    """A job; with GPUs, it changes also the heat map of the nodes."""
    resources = {
        "requests": {"cpu": "2", "memory": "4Gi"},
        "limits": {"nvidia.com/gpu": str(gpus)} if gpus else {},
    }
    container = {"name": "main", "image": "busybox", "resources": resources}
    task = {"name": "worker", "replicas": replicas, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": replicas, "tasks": [task]},
    }


def _first_paints(browser: Any, cluster: _Cluster, size: str) -> Iterator[Case]:
    """First paint of each page in a browser without a cache; the dashboard is running."""
    state = _logged_in(browser, cluster)
    for page in _navigation():
        milliseconds = []
        for _ in range(3):
            context = browser.new_context(**state)
            opened = context.new_page()
            opened.goto(page.paths[0])
            opened.locator("h1").wait_for(timeout=60_000)
            milliseconds.append(float(opened.evaluate(PAINT)))
            context.close()
        best = min(milliseconds) / 1000
        yield Case("dashboard", f"{page.title}: {size}", {"first_paint_s": best}, {"max:first_paint_s": 2.0})


def _navigation() -> list[Any]:
    """Pages of the navigation."""
    from volcano.dashboard.pages.registry import PAGES

    return [page for page in PAGES if page.navigation]


def _preview(browser: Any, cluster: _Cluster, size: str) -> Case:
    """Preview of a new job on the page Submit, with reading the cluster: the least of three."""
    context = browser.new_context(**_logged_in(browser, cluster))
    page = context.new_page()
    page.goto("/submit")
    processor, elapsed = [], []
    for _ in range(3):
        _settle(page, cluster)
        before, began = cluster.dashboard_seconds(), time.monotonic()
        page.get_by_role("button", name="Preview", exact=True).click()
        page.locator("[data-testid=outcome]").wait_for(timeout=120_000)
        elapsed.append(time.monotonic() - began)
        processor.append(cluster.dashboard_seconds() - before)
        page.reload()
    context.close()
    metrics = {"cpu_s": min(processor), "elapsed_s": min(elapsed)}
    return Case("dashboard", f"preview of a job: {size}", metrics, {"max:cpu_s": 3.0})


def _settle(page: Any, cluster: _Cluster) -> None:
    """Waits until the dashboard has computed what the open pages show."""
    page.locator("h1").wait_for(timeout=60_000)
    for _ in range(QUIET_WITHIN):
        before = cluster.dashboard_seconds()
        page.wait_for_timeout(1000)
        if cluster.dashboard_seconds() - before < QUIET:
            return


def _viewers(browser: Any, cluster: _Cluster, path: str, seconds: float) -> Case:
    state = _logged_in(browser, cluster)
    used, frames = {}, {}
    for viewers in (1, VIEWERS):
        contexts = [browser.new_context(**state) for _ in range(viewers)]
        received = [0] * viewers
        for number, context in enumerate(contexts):
            page = context.new_page()
            page.on("websocket", _counter(received, number))
            page.goto(path)
        _settle(contexts[-1].pages[0], cluster)
        received[:] = [0] * viewers
        before, began = cluster.dashboard_seconds(), time.monotonic()
        with ThreadPoolExecutor(1) as threads:
            changes = threads.submit(asyncio.run, _change(cluster.kubeconfig, seconds))
            while not changes.done():
                contexts[0].pages[0].wait_for_timeout(500)
            changes.result()
        used[viewers] = (cluster.dashboard_seconds() - before) / (time.monotonic() - began)
        frames[viewers] = min(received) / seconds
        for context in contexts:
            context.close()
    metrics = {
        "percent_per_viewer": 100 * (used[VIEWERS] - used[1]) / (VIEWERS - 1),
        "percent_with_one_viewer": 100 * used[1],
        "messages_per_second": frames[VIEWERS],  # to the viewer that got the fewest
    }
    return Case("dashboard", f"{path}: a change every second", metrics, {"max:percent_per_viewer": 5.0})


def _counter(received: list[int], number: int) -> Callable[[Any], None]:
    """Counts the messages of a page's WebSocket."""

    def on_websocket(websocket: Any) -> None:
        def on_frame(_frame: object) -> None:
            received[number] += 1

        websocket.on("framereceived", on_frame)

    return on_websocket


def _logged_in(browser: Any, cluster: _Cluster) -> dict[str, Any]:
    """What a new context needs to be logged in."""
    link = cluster.link()
    base = link.partition("/login")[0]
    context = browser.new_context(base_url=base)
    page = context.new_page()
    page.goto(link)
    page.wait_for_url(lambda url: "/login" not in url)
    state = {"base_url": base, "storage_state": context.storage_state()}
    context.close()
    return state


def _in_thread(work: Any) -> None:
    with ThreadPoolExecutor(1) as threads:
        threads.submit(asyncio.run, work).result()
