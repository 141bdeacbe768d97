"""overcommit: how many jobs are admitted."""

from typing import Any

import pytest

from tests.builders import job, node, podgroup, resources
from tests.scenario import config, schedule
from volcano.kube.api.manifest import Manifest
from volcano.scheduler.engine.config import ConfigError


def admitted(*groups: Manifest, factor: float | None = None, **more: Any) -> list[str]:
    """The PodGroups that were admitted on a cluster of ten cpus."""
    plugin = {"name": "overcommit", "arguments": {} if factor is None else {"overcommit-factor": factor}}
    result = schedule(
        nodes=[node("n1", cpu=10)], podgroups=groups, plugins=[plugin], actions=["enqueue"], **more
    )
    names = [group["metadata"]["name"] for group in groups]
    return [name for name in names if result.phase(name) == "Inqueue"]


def waiting(name: str, cpus: int | None, age: float = 0) -> Manifest:
    return podgroup(
        name, phase="Pending", min_resources=None if cpus is None else resources(cpu=cpus), age=age
    )


def test_jobs_are_admitted_up_to_the_factor() -> None:
    groups = [waiting("a", 6, 3), waiting("b", 6, 2), waiting("c", 1, 1)]
    assert admitted(*groups) == ["a", "b"], "1.2 times ten"
    assert admitted(*groups, factor=1.3) == ["a", "b", "c"]
    assert admitted(*groups, factor=1.0) == ["a", "c"], "a rejected job does not block those behind it"


def test_jobs_without_minimum_resources_are_admitted() -> None:
    assert admitted(waiting("a", None)) == ["a"]


def test_what_runs_and_what_was_promised_is_counted() -> None:
    running = job("r", 8, on="n1", phase="Running")
    promised = podgroup("p", min_resources=resources(cpu=3))
    assert admitted(waiting("a", 2), jobs=[running]) == ["a"]
    assert admitted(promised, waiting("a", 2), jobs=[running]) == ["p"]


def test_the_refusal_names_what_lacks() -> None:
    result = schedule(
        nodes=[node("n1", cpu=10)],
        podgroups=[waiting("a", 9), waiting("b", 9)],
        plugins=["overcommit"],
        actions=["enqueue"],
    )
    assert "resource in cluster is overused: overused cpu" in result.events("b")


@pytest.mark.parametrize("factor", [0.8, "1.2"])
def test_a_factor_below_one_is_rejected(factor: object) -> None:
    with pytest.raises(ConfigError, match="overcommit-factor"):
        config([{"name": "overcommit", "arguments": {"overcommit-factor": factor}}])
