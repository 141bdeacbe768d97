"""Takes the screenshots of the dashboard for the documentation: `python -m tools.docs.screenshots [DIR] [PATH ...]`.

Starts a cluster with simulated nodes, queues and jobs, and opens its dashboard in Chromium. With paths, these pages are
taken in both themes and on a narrow screen, for a review.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

IMAGES = Path(__file__).parents[2] / "docs" / "images"
CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
SIZE = {"width": 1400, "height": 900}
NARROW = {"width": 400, "height": 850}
# Pages in the documentation, and the theme of each.
PICTURES = {
    "overview": ("/", "light"),
    "job": ("/jobs/research/pretrain?tab=diagnosis", "dark"),
    "nodes": ("/nodes", "light"),
}
SETTLED = 4.0  # seconds until charts and an explanation are drawn
NODES = ("--nodes", "32", "--node", "cpu=64,memory=512Gi,nvidia.com/gpu=8", "--topology", "rack=8,spine=3")
QUEUES = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: NAME}
spec: {weight: WEIGHT, parent: PARENT, CAPABILITY reclaimable: true}
"""
JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: NAME, namespace: NAMESPACE, annotations: {volcano.sh/user: USER, volcano.sh/sim-duration: DURATION}}
spec:
  queue: QUEUE
  minAvailable: COUNT
  schedulerName: volcano
  tasks:
  - name: worker
    replicas: COUNT
    template:
      metadata: {annotations: {volcano.sh/sim-duration: DURATION, volcano.sh/sim-exit-code: "EXIT"}}
      spec:
        restartPolicy: Never
        containers:
        - name: main
          image: train
          resources: {requests: {cpu: "8", memory: 32Gi}, limits: {nvidia.com/gpu: GPUS}}
"""


def main() -> int:
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    directory.mkdir(parents=True, exist_ok=True)
    paths = sys.argv[2:]
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "HOME": home, "XDG_RUNTIME_DIR": home}
        environment.pop("KUBECONFIG", None)
        environment.pop("XDG_DATA_HOME", None)
        manifests = Path(home) / "manifests.yaml"
        manifests.write_text(_manifests())
        up = ("up", "--in-memory", "--no-local-node", *NODES, "--dashboard-port", "0", "--detach")
        _volcano(environment, *up, "-f", str(manifests))
        try:
            time.sleep(15.0)  # several samples of the charts
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
                _take(browser, _volcano(environment, "dashboard", "--link").strip(), directory, paths)
                browser.close()
        finally:
            _volcano(environment, "down")
    return 0


def _manifests() -> str:
    """Two teams with jobs that run, wait, fail and end."""
    parts = [
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: research}\n",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: production}\n",
    ]
    for name, weight, parent in (
        ("research", 2, "root"), ("vision", 1, "research"), ("language", 3, "research"), ("production", 1, "root"),
    ):  # fmt: skip
        texts = {"NAME": name, "WEIGHT": str(weight), "PARENT": parent, "CAPABILITY ": ""}
        parts.append(_replaced(QUEUES, texts))
    jobs = [
        ("detector", "research", "vision", "ada", 8, 4, "forever", 0),
        ("segmenter", "research", "vision", "grace", 4, 8, "forever", 0),
        ("tokenizer", "research", "language", "alan", 2, 1, "20s", 0),
        ("finetune", "research", "language", "alan", 6, 8, "forever", 0),
        ("ranking", "production", "production", "edsger", 5, 8, "forever", 0),
        ("export", "production", "production", "edsger", 1, 1, "5s", 1),
        ("pretrain", "research", "language", "barbara", 16, 8, "forever", 0),
        ("huge", "research", "vision", "ada", 2, 16, "forever", 0),
    ]
    for name, namespace, queue, user, count, gpus, duration, code in jobs:
        texts = {
            "NAMESPACE": namespace, "NAME": name, "USER": user, "DURATION": duration, "QUEUE": queue,
            "COUNT": str(count), "EXIT": str(code), "GPUS": str(gpus),
        }  # fmt: skip
        parts.append(_replaced(JOB, texts))
    return "---\n".join(parts)


def _replaced(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def _take(browser: Browser, link: str, directory: Path, paths: list[str]) -> None:
    base = link.partition("/login")[0]
    first = browser.new_context(base_url=base)
    page = first.new_page()
    page.goto(link)
    page.wait_for_url(lambda url: "/login" not in url)
    state = first.storage_state()
    wanted: list[tuple[str, str, Any, Any]] = (
        [(name, path, theme, SIZE) for name, (path, theme) in PICTURES.items()] if not paths else []
    )
    for path in paths:
        name = path.strip("/").replace("/", "-").partition("?")[0] or "overview"
        wanted += [(f"{name}-{theme}", path, theme, SIZE) for theme in ("light", "dark")]
        wanted.append((f"{name}-narrow", path, "light", NARROW))
    for name, path, theme, size in wanted:
        context = browser.new_context(base_url=base, storage_state=state, color_scheme=theme, viewport=size)
        page = context.new_page()
        page.goto(path)
        page.locator("h1").first.wait_for()
        time.sleep(SETTLED)
        page.screenshot(path=directory / f"dashboard-{name}.png", full_page=bool(paths))
        print(f"{directory / f'dashboard-{name}.png'}: {path}")
        context.close()


def _volcano(environment: dict[str, str], *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "volcano.cmd.volcano", *words],
        env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"volcano {' '.join(words)}: {done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
