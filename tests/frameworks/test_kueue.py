"""Kueue admits jobs by its quotas, and our scheduler places their pods."""

from pathlib import Path

import pytest

from tests.frameworks.operators import run_example

pytestmark = pytest.mark.frameworks


def test_jobs_run_one_after_the_other_as_the_quota_allows(tmp_path: Path) -> None:
    outcome = run_example("kueue/job", tmp_path)
    assert outcome.code == 0, outcome.output
    for name in ("pair-a", "pair-b"):
        assert outcome.jobs[name]["pods"] == {"Succeeded": 2}
        assert f"{name}: the sum is 42" in outcome.output


def test_a_job_larger_than_the_quota_is_not_admitted(tmp_path: Path) -> None:
    outcome = run_example(
        "kueue/job", tmp_path, change={"nominalQuota: 200m": "nominalQuota: 100m"}, timeout="30s"
    )
    assert outcome.code != 0
    assert outcome.jobs["pair-a"]["pods"] == {}, outcome.output
