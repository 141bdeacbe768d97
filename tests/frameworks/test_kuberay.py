"""KubeRay with Volcano as its batch scheduler."""

from pathlib import Path

import pytest

from tests.frameworks.operators import run_example

pytestmark = pytest.mark.frameworks


def test_a_ray_job_runs_on_a_gang_of_a_head_and_two_workers(tmp_path: Path) -> None:
    outcome = run_example("kuberay/rayjob", tmp_path)
    assert outcome.code == 0, outcome.output
    assert outcome.jobs["squares"]["completed"]


def test_a_ray_job_uses_the_actors_of_a_cluster_that_stays(tmp_path: Path) -> None:
    outcome = run_example("kuberay/raycluster", tmp_path)
    assert outcome.code == 0, outcome.output
    assert outcome.jobs["actors"]["completed"]


def test_the_ray_job_fails_with_one_worker(tmp_path: Path) -> None:
    text = "replicas: 2\n      minReplicas: 2"
    outcome = run_example("kuberay/rayjob", tmp_path, change={text: text.replace("2", "1")})
    assert outcome.code != 0
    assert outcome.jobs["squares"]["phase"] == "Failed", outcome.output


def test_a_ray_job_fails_on_a_cluster_with_one_worker(tmp_path: Path) -> None:
    change = {"replicas: 2\n    minReplicas: 2": "replicas: 1\n    minReplicas: 1"}
    outcome = run_example("kuberay/raycluster", tmp_path, change=change)
    assert outcome.code != 0
    assert outcome.jobs["actors"]["phase"] == "Failed", outcome.output  # the second actor has no room
    assert "sum of the counters" not in outcome.output
