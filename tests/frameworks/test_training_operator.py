"""Kubeflow's training operator with gangs of Volcano and its webhook."""

from pathlib import Path

import pytest

from tests.frameworks.operators import run_example

pytestmark = pytest.mark.frameworks


def test_a_pytorch_job_sums_over_a_master_and_two_workers(tmp_path: Path) -> None:
    outcome = run_example("training-operator/pytorchjob", tmp_path)
    assert outcome.code == 0, outcome.output
    assert sum(outcome.jobs["allreduce"]["pods"].values()) == 3
    assert "rank 0 of 3: the sum is 111" in outcome.output  # the job ends with its master


def test_the_pytorch_job_fails_with_one_worker(tmp_path: Path) -> None:
    change = {"Worker:\n      replicas: 2": "Worker:\n      replicas: 1"}
    outcome = run_example("training-operator/pytorchjob", tmp_path, change=change, timeout="60s")
    assert outcome.code != 0
    assert not outcome.jobs["allreduce"]["completed"], outcome.output  # the gang of three never starts


def test_the_webhook_rejects_a_pytorch_job_without_its_container(tmp_path: Path) -> None:
    outcome = run_example("training-operator/pytorchjob", tmp_path, change={"name: pytorch": "name: other"})
    assert outcome.code != 0
    assert "must have at least one container with name pytorch" in outcome.output


def test_a_tf_job_reduces_over_two_workers(tmp_path: Path) -> None:
    outcome = run_example("training-operator/tfjob", tmp_path)
    assert outcome.code == 0, outcome.output
    assert outcome.jobs["mirrored"]["completed"]
    assert "worker 0 of 2: the sum is 11" in outcome.output


def test_the_tf_job_fails_with_one_worker_also_as_a_gang_of_one(tmp_path: Path) -> None:
    change = {
        "minAvailable: 2": "minAvailable: 1",
        "Worker:\n      replicas: 2": "Worker:\n      replicas: 1",
    }
    outcome = run_example("training-operator/tfjob", tmp_path, change=change)
    assert outcome.code != 0
    assert outcome.jobs["mirrored"]["phase"] == "Failed", outcome.output
    assert "the sum is 11" not in outcome.output


def test_an_mpi_job_sums_over_two_workers(tmp_path: Path) -> None:
    outcome = run_example("training-operator/mpijob", tmp_path)
    assert outcome.code == 0, outcome.output
    assert outcome.jobs["mpi"]["completed"]
    for rank in range(2):
        assert f"rank {rank} of 2 on mpi-worker-{rank}: the sum is 11" in outcome.output


def test_the_mpi_job_fails_with_one_worker_also_as_a_gang_of_two(tmp_path: Path) -> None:
    change = {
        "minAvailable: 3": "minAvailable: 2",
        "Worker:\n      replicas: 2": "Worker:\n      replicas: 1",
    }
    outcome = run_example("training-operator/mpijob", tmp_path, change=change)
    assert outcome.code != 0
    assert outcome.jobs["mpi"]["phase"] == "Failed", outcome.output
    assert "the sum is 11" not in outcome.output
