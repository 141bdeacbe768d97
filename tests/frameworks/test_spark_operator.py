"""The Spark operator with Volcano as batch scheduler."""

from pathlib import Path

import pytest

from tests.frameworks.operators import run_example

pytestmark = pytest.mark.frameworks


def test_an_application_uses_two_executors(tmp_path: Path) -> None:
    outcome = run_example("spark-operator/pi", tmp_path)
    assert outcome.code == 0, outcome.output
    assert outcome.jobs["pi"]["completed"]
    assert "from 2 executors" in outcome.output


def test_the_application_fails_with_one_executor(tmp_path: Path) -> None:
    outcome = run_example("spark-operator/pi", tmp_path, change={"instances: 2": "instances: 1"})
    assert outcome.code != 0
    assert outcome.jobs["pi"]["phase"] == "Failed", outcome.output
