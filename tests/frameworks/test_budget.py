"""Runs within a budget of time install what is missing beside the examples."""

import os
import threading
from pathlib import Path

import pytest

from tests.frameworks.budget import LONGEST, NICE, Budget, framework_of, plan
from volcano.frameworks.cache import Cache
from volcano.frameworks.errors import NotAvailable
from volcano.frameworks.install import recipe_of


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOLCANO_FRAMEWORKS", str(tmp_path))


def test_frameworks_are_installed_at_once_and_each_is_waited_for() -> None:
    both = threading.Barrier(2)
    budget = Budget(LONGEST + 60, lambda name, within: both.wait(30))  # one after the other would never end
    budget.begin(["argo", "ray"])
    assert [budget.wait("argo"), budget.wait("ray")] == ["", ""]


def test_installations_have_a_low_priority_and_the_time_that_is_left() -> None:
    seen: list[tuple[int, float]] = []

    def install(name: str, within: float) -> None:
        stat = Path(f"/proc/self/task/{threading.get_native_id()}/stat").read_text()
        seen.append((int(stat.rpartition(")")[2].split()[16]), within))

    budget = Budget(LONGEST + 60, install)
    budget.begin(["argo"])
    assert budget.wait("argo") == ""
    ((nice, within),) = seen
    assert nice == min(os.getpriority(os.PRIO_PROCESS, 0) + NICE, 19)
    assert 50 < within <= 60


def test_a_framework_that_is_not_available_is_named_with_the_reason() -> None:
    def install(name: str, within: float) -> None:
        raise NotAvailable(f"{name}: needs the program `go`")

    budget = Budget(LONGEST + 60, install)
    budget.begin(["argo"])
    assert budget.wait("argo") == "argo: needs the program `go`"


def test_an_installation_that_takes_too_long_is_not_waited_for() -> None:
    over = threading.Event()
    budget = Budget(LONGEST + 0.3, lambda name, within: over.wait(60))
    budget.begin(["argo"])
    assert budget.wait("argo") == "argo: not installed within the 120 s for frameworks"
    assert budget.wait("ray") == "ray: no time left of the 120 s for frameworks"
    over.set()


def test_frameworks_are_used_in_the_order_in_which_they_become_ready() -> None:
    over, built = threading.Event(), threading.Event()
    steps = {"ray": over, "argo": built}
    budget = Budget(LONGEST + 60, lambda name, within: steps[name].wait(60))
    budget.begin(["ray", "argo"])
    assert budget.first_ready(["ray", "spark", "argo"]) == "spark"  # nothing to wait for
    threading.Timer(0.2, built.set).start()
    assert budget.first_ready(["ray", "argo"]) == "argo"
    over.set()
    assert budget.first_ready(["ray"]) == "ray"


def test_the_first_framework_is_next_when_no_time_is_left() -> None:
    over = threading.Event()
    budget = Budget(LONGEST + 0.2, lambda name, within: over.wait(60))
    budget.begin(["ray", "argo"])
    assert budget.first_ready(["ray", "argo"]) == "ray"
    over.set()


def test_installed_frameworks_are_not_installed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = recipe_of("ray")
    Cache().path_of(recipe).mkdir(parents=True)
    Cache().complete(recipe)
    budget = Budget(LONGEST + 60, lambda name, within: pytest.fail("installed again"))
    budget.begin(["ray"])
    assert budget.wait("ray") == ""


def test_the_plan_names_what_is_installed_and_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = recipe_of("ray")
    Cache().path_of(recipe).mkdir(parents=True)
    Cache().complete(recipe)
    monkeypatch.setenv("PATH", "/nowhere")
    within, installed, missing = plan(["ray", "argo"], 480)
    assert within.startswith("frameworks: one example of each within 480 s, cache ")
    assert installed == "frameworks installed: ray 2.49.2"
    assert missing == (
        "frameworks to install meanwhile: argo 3.6.5 (about 200 MB, needs go and kubectl, not found in PATH)"
    )


@pytest.mark.parametrize(
    ("file", "framework"),
    [("test_ray.py", "ray"), ("test_flink_operator.py", "flink-operator"), ("x.py", None)],
)
def test_the_framework_of_a_test_file_is_in_its_name(file: str, framework: str | None) -> None:
    assert framework_of(Path(file)) == framework
