"""LeaderWorkerSet: a leader and its workers as one gang, and a job that asks them."""

from pathlib import Path

import pytest

from tests.frameworks.operators import run_example

pytestmark = pytest.mark.frameworks


def test_a_job_gets_the_sum_that_the_workers_have_computed(tmp_path: Path) -> None:
    outcome = run_example("lws/leaderworkerset", tmp_path)
    assert outcome.code == 0, outcome.output
    assert "sum of squares: 332833500" in outcome.output


def test_the_set_does_not_start_without_one_of_its_workers(tmp_path: Path) -> None:
    outcome = run_example("lws/leaderworkerset", tmp_path, change={"size: 3": "size: 2"}, timeout="60s")
    assert outcome.code != 0
    assert not outcome.jobs["squares-client"]["completed"], outcome.output
