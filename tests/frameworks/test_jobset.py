"""JobSet: two Jobs as one gang, through the annotation of a PodGroup."""

from pathlib import Path

import pytest

from tests.frameworks.operators import run_example

pytestmark = pytest.mark.frameworks


def test_a_job_set_computes_with_a_leader_and_two_workers(tmp_path: Path) -> None:
    outcome = run_example("jobset/jobset", tmp_path)
    assert outcome.code == 0, outcome.output
    assert outcome.jobs["pi"]["pods"] == {"Succeeded": 3}
    assert "pi is 3.141593 from 2 workers" in outcome.output


def test_the_job_set_does_not_start_without_one_of_its_workers(tmp_path: Path) -> None:
    change = {"parallelism: 2\n        completions: 2": "parallelism: 1\n        completions: 1"}
    outcome = run_example("jobset/jobset", tmp_path, change=change, timeout="60s")
    assert outcome.code != 0
    assert outcome.jobs["pi"]["pods"] == {"Pending": 2}, outcome.output
