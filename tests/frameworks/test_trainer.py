"""Kubeflow's trainer: a TrainJob whose pods are one gang."""

from pathlib import Path

import pytest

from tests.frameworks.operators import run_example

pytestmark = pytest.mark.frameworks


def test_a_train_job_sums_over_two_nodes(tmp_path: Path) -> None:
    outcome = run_example("trainer/trainjob", tmp_path)
    assert outcome.code == 0, outcome.output
    for rank in range(2):
        assert f"rank {rank} of 2: the sum is 11" in outcome.output


def test_the_train_job_does_not_start_with_one_node(tmp_path: Path) -> None:
    outcome = run_example("trainer/trainjob", tmp_path, change={"numNodes: 2": "numNodes: 1"}, timeout="60s")
    assert outcome.code != 0
    assert not outcome.jobs["torch"]["completed"], outcome.output
