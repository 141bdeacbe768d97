"""How long jobs run at most."""

import pytest

from tests.builders import job
from tests.scenario import cluster_of
from volcano.model.job import Job
from volcano.model.walltime import is_enforced, parse, walltime


def known_job(annotation: str | None = None, *deadlines: int | None) -> Job:
    annotations = {} if annotation is None else {"volcano.sh/walltime": annotation}
    made = job("j", len(deadlines) or 1, group={"annotations": annotations})
    for manifest, deadline in zip(made.pods, deadlines, strict=False):
        if deadline is not None:
            manifest["spec"]["activeDeadlineSeconds"] = deadline
    return cluster_of(jobs=[made]).snapshot().jobs["default/j"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2h", 7200),
        ("90", 5400),
        ("30:15", 1815),
        ("1:00:00", 3600),
        ("1-12", 129600),
        ("1-12:30:05", 131405),
    ],
)
def test_a_walltime_is_written_as_in_go_or_as_in_slurm(text: str, seconds: float) -> None:
    assert parse(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1h", "0", "0s", "1-", "1:2:3:4", "٣"])
def test_a_walltime_that_cannot_be_understood_is_an_error_that_shows_what_is_right(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"must be (a duration such as 2h|more than 0)|'.*' must be a duration"
    ):
        parse(text)


def test_the_annotation_of_the_pod_group_limits_its_pods() -> None:
    assert walltime(known_job("90m")) == 5400
    assert walltime(known_job()) is None
    assert walltime(known_job("tomorrow")) is None


def test_deadlines_limit_a_job_only_if_every_pod_has_one() -> None:
    assert walltime(known_job(None, 60, 120)) == 120
    assert walltime(known_job(None, 60, None)) is None
    assert walltime(known_job("1m30s", 60, 120)) == 90


def test_a_queue_enforces_walltimes_only_if_it_says_so() -> None:
    assert is_enforced({"volcano.sh/enforce-walltime": "true"})
    assert not is_enforced({"volcano.sh/enforce-walltime": "false"})
    assert not is_enforced({})
