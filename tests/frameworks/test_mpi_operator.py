"""The MPI operator with gangs of Volcano: the launcher reaches its workers over ssh."""

from pathlib import Path

import pytest

from tests.frameworks.operators import run_example

pytestmark = pytest.mark.frameworks


def test_an_mpi_job_sums_over_two_workers(tmp_path: Path) -> None:
    outcome = run_example("mpi-operator/mpijob", tmp_path)
    assert outcome.code == 0, outcome.output
    assert outcome.jobs["mpi"]["completed"]
    for rank in range(2):
        assert f"rank {rank} of 2 on mpi-worker-{rank}: the sum is 11" in outcome.output


def test_the_mpi_job_does_not_complete_with_one_worker(tmp_path: Path) -> None:
    change = {"Worker:\n      replicas: 2": "Worker:\n      replicas: 1"}
    outcome = run_example("mpi-operator/mpijob", tmp_path, change=change, timeout="60s")
    assert outcome.code != 0
    assert not outcome.jobs["mpi"]["completed"], outcome.output
