"""Recorded runs of deleted pods on the timeline."""

from tests.dashboard.data.objects import NOW, pod
from volcano.accounting.api import Outcome, Run, Workload
from volcano.dashboard.data.past_runs import with_past_runs
from volcano.dashboard.data.timeline import (
    EVICTED,
    FAILED,
    RUNNING,
    WAITING,
    Bar,
    line_prop,
    time_range,
    timeline,
)


def run(
    pod: str, uid: str, *, started: float, ended: float | None, outcome: Outcome = Outcome.FAILED, reason: str = ""
) -> Run:  # fmt: skip
    return Run(
        uid, pod, "node-7", Workload("default", "default"), started - 5, started, ended, outcome, reason
    )


def test_an_earlier_pod_of_the_same_name_is_on_the_same_line() -> None:
    now = pod("j", "t", 0, created=NOW - 30, scheduled=NOW - 20, started=NOW - 10)
    earlier = run("j-t-0", "old", started=NOW - 95, ended=NOW - 80)
    (line,) = with_past_runs(timeline([now]), [earlier], {"new"})
    assert line.past == (
        Bar(WAITING, NOW - 100, NOW - 95),
        Bar(RUNNING, NOW - 95, NOW - 80, "node-7"),
        Bar(FAILED, NOW - 80, NOW - 80, outcome="Failed after 15s on node-7"),
    )
    assert line.bars == timeline([now])[0].bars
    assert time_range([line], NOW) == (NOW - 100, NOW)
    shown = line_prop(line, "j", NOW - 100, NOW, NOW)
    assert not shown["gone"]
    assert shown["title"].endswith("; earlier: Failed after 15s on node-7")
    assert [bar["left"] for bar in shown["bars"]][:3] == [0.0, 5.0, 20.0]


def test_a_name_without_a_pod_has_a_line_of_its_own() -> None:
    runs = [
        run("j-t-1", "b", started=NOW - 50, ended=NOW - 40, outcome=Outcome.EVICTED, reason="preempted"),
        run("j-t-0", "a", started=NOW - 60, ended=NOW - 40, outcome=Outcome.DELETED),
    ]
    lines = with_past_runs((), runs, ())
    assert [line.pod for line in lines] == ["j-t-0", "j-t-1"]
    assert all(line.is_gone and line.past[-1].stage == EVICTED for line in lines)
    assert line_prop(lines[1], "j", NOW - 60, NOW, NOW)["title"] == (
        "j-t-1, deleted; earlier: Evicted after 10s on node-7: preempted"
    )


def test_runs_of_pods_that_exist_and_runs_without_an_end_are_not_added() -> None:
    existing = pod("j", "t", 0, started=NOW - 10)
    runs = [
        run("j-t-0", "here", started=NOW - 10, ended=None, outcome=Outcome.RUNNING),
        run("j-t-1", "not yet recorded", started=NOW - 10, ended=None, outcome=Outcome.RUNNING),
    ]
    lines = timeline([existing])
    assert with_past_runs(lines, runs, {"here"}) == lines
