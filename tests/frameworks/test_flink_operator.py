"""Flink's operator: a session cluster as a gang, and a job that runs a query on it."""

from pathlib import Path

import pytest

from tests.frameworks.operators import run_example

pytestmark = pytest.mark.frameworks


def test_a_query_runs_on_both_task_managers_of_a_session(tmp_path: Path) -> None:
    outcome = run_example("flink-operator/session", tmp_path, timeout="8m")
    assert outcome.code == 0, outcome.output
    assert "sum of squares: 72018001000 from 2 task managers" in outcome.output


def test_the_session_does_not_start_without_one_of_its_task_managers(tmp_path: Path) -> None:
    change = {"taskManager:\n    replicas: 2": "taskManager:\n    replicas: 1"}
    outcome = run_example("flink-operator/session", tmp_path, change=change, timeout="60s")
    assert outcome.code != 0
    assert not outcome.jobs["query"]["completed"], outcome.output
