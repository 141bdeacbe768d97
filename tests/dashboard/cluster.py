"""A cluster of `volcano up` with its dashboard, as a user starts it, and the programs of that user."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")
WITHIN = 60.0
SOURCE = Path(__file__).parents[2] / "src"


class UserCluster:
    """The programs of a user whose only cluster is this one."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("KUBE", "XDG"))},
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(home),
            "PYTHONPATH": str(SOURCE),
        }

    def run(self, program: str, *words: str, stdin: str = "") -> str:
        """Output of `volcano` or `vcctl`; fails with its errors if it fails."""
        module = {"volcano": "volcano.cmd.volcano", "vcctl": "volcano.cmd.vcctl"}[program]
        done = subprocess.run(
            [sys.executable, "-m", module, *words],
            input=stdin, capture_output=True, text=True, timeout=WITHIN, env=self._environment, cwd=self.home,
        )  # fmt: skip
        assert done.returncode == 0, f"{program} {' '.join(words)}: {done.stderr or done.stdout}"
        return done.stdout

    def link(self) -> str:
        return self.run("volcano", "dashboard", "--link").strip()

    @property
    def kubeconfig(self) -> Path:
        return next(self.home.rglob("kubeconfig"))

    def objects(self, *words: str) -> Any:
        """What `vcctl ... -o json` prints."""
        return json.loads(self.run("vcctl", *words, "-o", "json"))

    def submit(self, name: str, *, replicas: int = 1, minimum: int = 0, requests: str = "cpu=1") -> None:
        count = str(replicas)
        self.run(
            "vcctl", "job", "run", "-N", name, "-r", count, "-m", str(minimum or replicas), "-R", requests
        )

    def phase(self, job: str) -> str:
        return self.run("vcctl", "job", "view", "-N", job, "-o", "jsonpath={.status.state.phase}").strip()


@contextmanager
def user_cluster(home: Path, *flags: str) -> Iterator[UserCluster]:
    """Runs `volcano up` with these flags in the background."""
    user = UserCluster(home)
    local = () if "--local-nodes" in flags else ("--no-local-node",)
    user.run("volcano", "up", "--in-memory", *local, "--dashboard-port", "0", "--detach", *flags)
    try:
        yield user
    finally:
        user.run("volcano", "down")


def eventually(found: Callable[[], bool], what: str, within: float = WITHIN) -> None:
    """Waits until something is true."""
    deadline = time.monotonic() + within
    while not found():
        assert time.monotonic() < deadline, f"not within {within:.0f} s: {what}"
        time.sleep(0.1)


def in_thread(work: Coroutine[Any, Any, Result]) -> Result:
    """Result of a coroutine, run in a thread: the browser's library has an event loop in this one."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, work).result()
