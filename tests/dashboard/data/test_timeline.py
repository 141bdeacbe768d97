"""The lives of pods."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.dashboard.data.objects import NOW, pod
from volcano.dashboard.data.timeline import (
    FAILED,
    RUNNING,
    STARTING,
    SUCCEEDED,
    WAITING,
    Bar,
    line_prop,
    time_range,
    timeline,
)


def test_a_pod_waits_starts_runs_and_ends() -> None:
    life = pod(
        "j",
        "t",
        0,
        phase="Succeeded",
        created=NOW - 90,
        scheduled=NOW - 60,
        started=NOW - 50,
        finished=NOW - 10,
    )
    (line,) = timeline([life])
    assert line.bars == (
        Bar(WAITING, NOW - 90, NOW - 60),
        Bar(STARTING, NOW - 60, NOW - 50),
        Bar(RUNNING, NOW - 50, NOW - 10),
        Bar(SUCCEEDED, NOW - 10, NOW - 10),
    )


def test_a_part_that_lasts_has_no_end() -> None:
    (waiting,) = timeline([pod("j", "t", 0, phase="Pending", node="", created=NOW - 30)])
    assert waiting.bars == (Bar(WAITING, NOW - 30, None),)
    (running,) = timeline([pod("j", "t", 0, created=NOW - 30, scheduled=NOW - 20, started=NOW - 10)])
    assert running.bars[-1] == Bar(RUNNING, NOW - 10, None)
    assert time_range([waiting, running], NOW) == (NOW - 30, NOW)


def test_a_pod_that_failed_before_it_ran_ends_with_its_last_change() -> None:
    failed = pod("j", "t", 0, phase="Failed", created=NOW - 30, scheduled=NOW - 20)
    assert timeline([failed])[0].bars[-1] == Bar(FAILED, NOW - 20, NOW - 20)


moments = st.none() | st.integers(0, 1000).map(lambda seconds: NOW - 1000 + seconds)


@given(moments, moments, moments, moments, st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]))
def test_bars_follow_each_other_and_stay_on_the_axis(
    created: float | None, scheduled: float | None, started: float | None, finished: float | None, phase: str
) -> None:
    """Also when clocks disagree."""
    manifest = pod(
        "j", "t", 0, phase=phase, created=created or NOW - 1000, scheduled=scheduled, started=started, finished=finished
    )  # fmt: skip
    lines = timeline([manifest])
    bars = lines[0].bars
    for earlier, later in pairwise(bars):
        assert earlier.end is not None
        assert earlier.begin <= later.begin
        assert later.begin >= earlier.end or later.end == later.begin
    first, last = time_range(lines, NOW)
    for bar in line_prop(lines[0], "j", first, max(last, first + 1), NOW)["bars"]:
        assert 0 <= bar["left"] <= 100
        assert 0 <= bar["width"] <= 100.01


def test_a_line_is_named_without_its_job_and_tells_its_times_in_words() -> None:
    (line,) = timeline([pod("train", "worker", 3, created=NOW - 60, scheduled=NOW - 30, started=NOW - 20)])
    shown = line_prop(line, "train", NOW - 60, NOW, NOW)
    assert shown["name"] == "worker-3"
    assert shown["title"] == (
        "train-worker-3 on node-0, Running: Waiting for a node for 30s, Starting for 10s, Running for 20s until now"
    )
    assert [(bar["left"], bar["width"]) for bar in shown["bars"]] == [
        (0.0, 50.0),
        (50.0, 16.67),
        (66.67, 33.33),
    ]
