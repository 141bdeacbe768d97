"""Argo Workflows: steps as a gang, and a step that is a Volcano job."""

from pathlib import Path

import pytest

from tests.frameworks.operators import run_example

pytestmark = pytest.mark.frameworks


def test_a_workflow_with_a_gang_and_a_job_gives_the_right_sum(tmp_path: Path) -> None:
    outcome = run_example("argo/workflow", tmp_path)
    assert outcome.code == 0, outcome.output
    assert outcome.jobs["primes"]["completed"]
    assert outcome.jobs["primes"]["pods"] == {"Succeeded": 7}  # five steps, and two workers of the job
    assert "primes-train-worker-0 | total: 1229" in outcome.output


def test_a_workflow_fails_if_one_of_the_two_steps_is_missing(tmp_path: Path) -> None:
    # One pod does not make the gang of two: it waits for the other.
    outcome = run_example("argo/workflow", tmp_path, change={"[0, 5000]": "[0]"}, timeout="30s")
    assert outcome.code != 0
    assert not outcome.jobs["primes"]["completed"], outcome.output
