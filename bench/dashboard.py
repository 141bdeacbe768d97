"""The dashboard of a cluster with 1,000 nodes and 10,000 pods: first paint, the preview of a job, the cost of a viewer.

Viewers are pages of a real browser. The cost is the CPU time of the dashboard while a job is created or deleted every
second: the difference between five viewers and one over 60 seconds, divided by four, as a part of one core.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench._local_cluster import UpCluster, job_manifest
from bench.case import Case
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Key

PODS_OF_A_JOB = 50
VIEWERS = 5
WATCHED_SECONDS = 60.0
SHAPE = "cpu=32,memory=128Gi,nvidia.com/gpu=8"
REQUESTS = {"cpu": "2", "memory": "4Gi"}
CHANGING = {**REQUESTS, "nvidia.com/gpu": "1"}  # changes also the heat map of the nodes
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
        cluster = _Cluster(Path(home), nodes, SHAPE, "--dashboard-port", "0")
        try:
            cluster.fill(pods, PODS_OF_A_JOB, REQUESTS)
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


class _Cluster(UpCluster):
    """A cluster with a dashboard."""

    def link(self) -> str:
        return self.volcano("dashboard", "--link").strip()

    def dashboard_seconds(self) -> float:
        """Processor time that the dashboard's process has used."""
        children = Path(f"/proc/{self.pid}/task").glob("*/children")
        pids = [pid for file in children for pid in file.read_text().split()]
        dashboard = next(pid for pid in pids if b"dashboard" in Path(f"/proc/{pid}/cmdline").read_bytes())
        fields = Path(f"/proc/{dashboard}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _change(cluster: _Cluster, seconds: float) -> None:
    """Creates or deletes a job every second."""
    client = cluster.client()
    try:
        for number in range(max(int(seconds) // 2, 1) * 2):
            name = f"changing-{number // 2}"
            if number % 2 == 0:
                await client.create(JOB, job_manifest(name, 2, CHANGING))
            else:
                await client.delete(JOB, Key("default", name))
            await asyncio.sleep(1.0)
    finally:
        await client.close()


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
            changes = threads.submit(asyncio.run, _change(cluster, seconds))
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
