"""Examples of frameworks on the embedded cluster, as `volcano run` runs them, whole or with a worker less."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.embedded.program import NETNS, USERNS, Setting, Volcano, obstacle, used
from volcano.frameworks.cache import cache_directory
from volcano.frameworks.install import NotAvailable, installed
from volcano.kube.api.manifest import Manifest

EXAMPLES = Path(__file__).parents[2] / "examples"
WITHIN = 420  # seconds; two minutes are enough on an idle machine
SHORT = 45  # seconds: an example that waits for a missing worker never ends
Change = Callable[[list[Manifest]], None]


def needs(framework: str) -> None:
    """Installs a framework, or skips the test with the reason."""
    try:
        installed(framework)
    except NotAvailable as error:
        pytest.skip(str(error))


def own_network() -> Setting:
    """The best runtime whose pods have names and ports of their own."""
    for setting in (NETNS, USERNS):
        if not obstacle(setting):
            return setting
    pytest.skip(f"no runtime with pod networking is available here: {obstacle(NETNS)}")


def run(
    example: str,
    *options: str,
    setting: Setting | None = None,
    change: Change | None = None,
    within: int = WITHIN,
) -> "subprocess.CompletedProcess[str]":
    """`volcano run` with a file below examples/, changed first if `change` is given."""
    with used(setting or own_network()) as volcano:
        use_cache(volcano)
        documents = list(yaml.safe_load_all((EXAMPLES / example).read_text()))
        if change is not None:
            change(documents)
        file = volcano.home / Path(example).name
        file.write_text(yaml.safe_dump_all(documents))
        return volcano.run("run", "--timeout", f"{within}s", *options, str(file), timeout=within + 60)


def completed(example: str, *options: str, setting: Setting | None = None) -> str:
    """Output of an example that has to complete."""
    shown = run(example, *options, setting=setting)
    assert shown.returncode == 0, f"{shown.stdout}\n{shown.stderr}"
    return shown.stdout


def fails_without(task: str, example: str, *options: str, setting: Setting | None = None) -> str:
    """Output of an example that lacks one pod of a task, and must not complete for that reason."""
    shown = run(example, *options, setting=setting, change=without_one(task), within=SHORT)
    assert shown.returncode != 0, f"completed without one pod of task {task}:\n{shown.stdout}"
    return shown.stdout


def two_workers_learn(example: str, word: str, setting: Setting) -> set[str]:
    """Names of the pods of an example whose workers, called `word` and a number, have to learn the same weights."""
    output = completed(example, setting=setting)
    assert sorted(log_lines(output, f"{word} .: weights .*")) == [
        f"{word} {n}: weights 2.000 -3.000" for n in range(2)
    ]
    return pods_that_print(output, f"{word} . of 2 is connected")


def one_worker_learns_nothing(example: str, word: str) -> None:
    """Fails if an example that lacks a worker has learned the weights."""
    assert not log_lines(fails_without("worker", example), f"{word} .: weights 2.000 -3.000")


def without_one(task: str) -> Change:
    """Removes one pod of a task, from a Job or the JobTemplate of a flow; its gang starts without it."""

    def change(documents: list[Manifest]) -> None:
        found = [
            (document["spec"], each)
            for document in documents
            for each in document.get("spec", {}).get("tasks", [])
            if each["name"] == task
        ]
        assert found, f"no task {task}"
        for spec, each in found:
            each["replicas"] -= 1
            if "minAvailable" in spec:
                spec["minAvailable"] -= 1

    return change


def log_lines(output: str, pattern: str) -> list[str]:
    """The matching log lines of pods, without the pod's name."""
    return re.findall(rf"^[\w-]+ \| ({pattern})\s*$", output, re.MULTILINE)


def pods_that_print(output: str, pattern: str) -> set[str]:
    """Names of the pods with a matching log line."""
    found: list[Any] = re.findall(rf"^([\w-]+) \| {pattern}\s*$", output, re.MULTILINE)
    return set(found)


def use_cache(volcano: Volcano) -> None:
    """Lets a program with a home of its own use the frameworks that are installed here."""
    volcano.environment["VOLCANO_FRAMEWORKS"] = str(cache_directory())
