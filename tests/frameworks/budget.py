"""A run of some frameworks within a budget of time: what is not installed is installed beside the examples.

A machine with an empty cache downloads and builds all frameworks of the run at once, with low priority, while the
examples of those that are ready run, in the order in which they become ready. What is not installed in time is skipped
with the reason.
"""

import os
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path

from volcano.frameworks.cache import Cache
from volcano.frameworks.errors import NotAvailable
from volcano.frameworks.install import recipe_names, recipe_of

LONGEST = 120.0  # seconds that an example may take once its framework is installed
NICE = 10  # installations yield to the examples


class Budget:
    """The seconds of a run, from its beginning, and the installations beside it."""

    def __init__(self, seconds: float, install: Callable[[str, float], object]) -> None:
        """`install` installs a framework by its name within some seconds, or raises NotAvailable."""
        self.seconds = seconds
        self._begun = time.monotonic()
        self._install = install
        self._installations: dict[str, Future[object]] = {}

    @property
    def left(self) -> float:
        """Seconds until the last moment at which an example may begin."""
        return self.seconds - (time.monotonic() - self._begun) - LONGEST

    def begin(self, frameworks: Sequence[str]) -> None:
        """Begins to install all frameworks that are not installed."""
        for name in frameworks:
            if not Cache().is_installed(recipe_of(name)):
                self._installations[name] = future = Future[object]()
                # No daemon: the end of the run waits until the commands of an installation have been ended.
                threading.Thread(target=self._run, args=(name, future)).start()

    def wait(self, framework: str) -> str:
        """Waits for a framework and the time of its example; returns why it cannot run, if so."""
        if self.left <= 0:
            return f"{framework}: no time left of the {self.seconds:.0f} s for frameworks"
        found = self._installations.get(framework)
        try:
            if found is not None:
                found.result(timeout=self.left)
        except NotAvailable as error:
            return str(error)
        except TimeoutError:
            return f"{framework}: not installed within the {self.seconds:.0f} s for frameworks"
        return ""

    def first_ready(self, frameworks: Sequence[str]) -> str:
        """The first framework that is installed or not available; waits for one, as long as there is time."""
        installing = {name: self._installations[name] for name in frameworks if name in self._installations}
        if len(installing) == len(set(frameworks)) and not any(each.done() for each in installing.values()):
            wait(installing.values(), timeout=max(self.left, 0.0), return_when=FIRST_COMPLETED)
        ready = [name for name in frameworks if name not in installing or installing[name].done()]
        return (ready or list(frameworks))[0]

    def _run(self, name: str, future: Future[object]) -> None:
        own = threading.get_native_id()  # the priority of this thread, and of what it starts
        os.setpriority(os.PRIO_PROCESS, own, os.getpriority(os.PRIO_PROCESS, own) + NICE)
        try:
            future.set_result(self._install(name, max(self.left, 0.0)))
        except BaseException as error:  # to be raised by the test that waits for it
            future.set_exception(error)


def framework_of(path: Path) -> str | None:
    """The framework of a test file: `test_flink_operator.py` is that of flink-operator."""
    name = path.stem.removeprefix("test_").replace("_", "-")
    return name if name in recipe_names() else None


def plan(frameworks: Sequence[str], seconds: float) -> list[str]:
    """Lines that say what a run with a budget uses and installs."""
    ready, missing = [], []
    for recipe in map(recipe_of, frameworks):
        if Cache().is_installed(recipe):
            ready.append(f"{recipe.name} {recipe.version}")
            continue
        lacking = [program for program in recipe.requires if shutil.which(program) is None]
        needs = f", needs {' and '.join(lacking)}, not found in PATH" if lacking else ""
        missing.append(f"{recipe.name} {recipe.version} (about {recipe.size}{needs})")
    return [
        f"frameworks: one example of each within {seconds:.0f} s, cache {Cache().directory}",
        f"frameworks installed: {', '.join(ready) or 'none'}",
        f"frameworks to install meanwhile: {', '.join(missing) or 'none'}",
    ]
