"""tdm: revocable nodes with a daily time window."""

import math
from typing import Any

import pytest

from tests.builders import JobManifests, job, node, pod, podgroup
from tests.scenario import Result, config, schedule, session
from volcano.scheduler.engine.answers import EvictionContext, Purpose
from volcano.scheduler.engine.config import ConfigError
from volcano.scheduler.plugins.tdm import Tdm, Window, parse_budget, parse_window

ZONE = {"volcano.sh/revocable-zone": "rz1"}
ANYWHERE = {"volcano.sh/revocable-zone": "*"}
MIDNIGHT = 1_800_057_600.0  # 2027-01-16T00:00:00Z
HOUR = 3600.0
OPEN, CLOSED = MIDNIGHT + 12 * HOUR, MIDNIGHT + 2 * HOUR  # with the window 08:00-20:00


def tdm(window: str = "08:00-20:00", **more: Any) -> dict[str, Any]:
    return {"name": "tdm", "arguments": {"tdm.revocable-zone.rz1": window, **more}}


@pytest.mark.parametrize(
    ("text", "start", "length"),
    [
        pytest.param("0:00-0:00", 0, 24, id="a whole day"),
        pytest.param("1:00-0:00", 1, 23, id="until midnight"),
        pytest.param(" 08:00-20:30 ", 8, 12.5, id="blanks around it"),
        pytest.param("22:00-06:00", 22, 8, id="over midnight"),
    ],
)
def test_windows_are_parsed(text: str, start: float, length: float) -> None:
    assert parse_window(text) == Window(start * HOUR, length * HOUR)


@pytest.mark.parametrize("text", ["00:00_01:00", "1:0-0:0", "63:59-23:59", "", "8-20"])
def test_malformed_windows_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="HH:MM-HH:MM"):
        parse_window(text)
    with pytest.raises(ConfigError, match="time of the day"):
        config([tdm(text)])


def test_a_window_begins_on_the_day_it_is_asked_about() -> None:
    night = parse_window("22:00-06:00")
    assert night.is_open(MIDNIGHT + 23 * HOUR)
    assert not night.is_open(MIDNIGHT + 3 * HOUR), "it begins at 22:00 of the same day"


REVOCABLE, OWN = node("revocable", labels=ZONE), node("own")


def place(now: float, *pods: Any) -> Result:
    return schedule(
        nodes=[REVOCABLE, OWN],
        pods=pods,
        podgroups=[podgroup("g", min_member=0)],
        plugins=["gang", "predicates", tdm()],
        now=now,
    )


def test_revocable_nodes_accept_revocable_pods_only() -> None:
    assert place(OPEN, pod("r", group="g", annotations=ANYWHERE)).bound() == {"r": "revocable"}
    assert place(OPEN, pod("p", group="g")).bound() == {"p": "own"}
    assert place(CLOSED, pod("r", group="g", annotations=ANYWHERE)).bound() == {"r": "own"}


def test_revocable_nodes_score_higher_for_revocable_pods() -> None:
    made = session(
        nodes=[REVOCABLE, OWN],
        pods=[pod("r", group="g", annotations=ANYWHERE)],
        podgroups=[podgroup("g")],
        plugins=[tdm()],
        now=OPEN,
    )
    task = next(iter(made.snapshot.jobs["default/g"].tasks.values()))
    assert made.policy.plugins[0].score_nodes(task, made.nodes).tolist() == [100, 0]


def five(budget: dict[str, str]) -> list[Any]:
    """Five running pods on the revocable node, three of them preemptable."""
    return [
        podgroup("g", annotations=budget, phase="Running"),
        *(pod(f"p{i}", group="g", node="revocable", preemptable=i < 3) for i in range(5)),
    ]


def shuffled(now: float, budget: dict[str, str], memory: dict[str, Any] | None = None) -> int:
    return len(shuffle(now, budget, memory).evicted())


def shuffle(now: float, budget: dict[str, str], memory: dict[str, Any] | None = None) -> Result:
    group, *pods = five(budget)
    return schedule(
        nodes=[REVOCABLE, OWN],
        podgroups=[group],
        pods=pods,
        plugins=[tdm()],
        actions=["shuffle"],
        now=now,
        memory=memory,
    )


MAX_DOWN, MIN_UP = "volcano.sh/jdb-max-unavailable", "volcano.sh/jdb-min-available"


@pytest.mark.parametrize(
    ("budget", "evicted"),
    [
        pytest.param({MAX_DOWN: "30%"}, 2, id="30 % of five"),
        pytest.param({MAX_DOWN: "99%"}, 3, id="all that may go"),
        pytest.param({MIN_UP: "4"}, 1, id="a minimum stays"),
        pytest.param({}, 1, id="without a budget one at a time"),
    ],
)
def test_revocable_nodes_are_drained_when_the_window_closes(budget: dict[str, str], evicted: int) -> None:
    assert shuffled(CLOSED, budget) == evicted
    assert shuffled(OPEN, budget) == 0


def test_nodes_are_emptied_once_in_a_period() -> None:
    budget = {MAX_DOWN: "30%"}
    assert shuffled(CLOSED, budget, {"tdm": {"evicted": CLOSED - 59}}) == 0
    assert shuffled(CLOSED, budget, {"tdm": {"evicted": CLOSED - 61}}) == 2


def test_a_cycle_is_due_when_a_window_ends_and_a_period_after_evictions() -> None:
    assert shuffle(OPEN, {}).outcome.due == MIDNIGHT + 20 * HOUR
    assert shuffle(CLOSED, {}).outcome.due == CLOSED + 60
    assert shuffle(CLOSED, {}, {"tdm": {"evicted": CLOSED - 59}}).outcome.due == CLOSED + 1
    nothing = schedule(nodes=[OWN], plugins=[tdm()], actions=["shuffle"], now=CLOSED).outcome
    assert (nothing.memory["tdm"], nothing.due) == ({"evicted": CLOSED}, math.inf)


@pytest.mark.parametrize(("text", "count"), [("3", 3), ("30%", 2), ("100%", 5), ("all", 0), ("", 0)])
def test_budgets(text: str, count: int) -> None:
    assert parse_budget(text, 5) == count


def victims(preemptor: JobManifests) -> list[str]:
    made = session(
        nodes=[REVOCABLE, OWN],
        podgroups=[podgroup("v", annotations={MAX_DOWN: "100%"})],
        pods=[
            pod("here", group="v", node="own", preemptable=True),
            pod("revocable", group="v", node="revocable", preemptable=True),
            pod("firm", group="v", node="own", preemptable=False),
        ],
        jobs=[preemptor],
        plugins=[tdm()],
        now=OPEN,
    )
    taker = made.snapshot.jobs["default/taker"]
    context = EvictionContext(Purpose.PREEMPT, taker, next(iter(taker.tasks.values())))
    return [
        task.name
        for task in made.policy.victims(context, list(made.snapshot.jobs["default/v"].tasks.values()))
    ]


def test_who_cannot_be_taken_away_takes_from_who_can() -> None:
    assert victims(job("taker", 1, preemptable=False)) == ["here"]
    assert victims(job("taker", 1, preemptable=True)) == []


def test_jobs_that_cannot_be_taken_away_go_first_and_starve() -> None:
    soft = {"annotations": {"volcano.sh/preemptable": "true"}}
    made = session(nodes=[OWN], jobs=[job("soft", 1, group=soft), job("firm", 1)], plugins=[tdm()])
    plugin = made.policy.plugins[0]
    assert isinstance(plugin, Tdm)
    ordered = sorted(made.snapshot.jobs.values(), key=plugin.job_order)
    assert [each.name for each in ordered] == ["firm", "soft"]
    assert [plugin.job_starving(each) for each in ordered] == [True, False]
