"""Usage of a period equals the sum over its runs; pages of runs and jobs."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.accounting.builders import HOUR, START, run
from volcano.accounting.api import Batch, JobRecord, Outcome, Run
from volcano.accounting.store.database import Database
from volcano.accounting.store.decay import decayed_seconds, decayed_usage
from volcano.accounting.store.file_check import sqlite_url
from volcano.accounting.store.queries import JobsQuery, RunsQuery, UsageQuery, jobs, runs, usage
from volcano.accounting.store.recording import Recording

NOW = START + 10 * HOUR


def test_usage_is_summed_by_dimension_and_clipped_to_the_period(database: Database) -> None:
    Recording(database).write(
        Batch(
            [
                run("a", hours=4),
                run("b", hours=1, queue="prod", user="bob", gpus=0.5, gpu_type="T4", requests={"cpu": 1.0}),
                run("c", at=START + 9 * HOUR),  # still runs
                run("d", hours=1, at=START - 5 * HOUR),
            ]
        )
    )
    rows = {
        row.group["queue"]: row for row in usage(database, UsageQuery(START + HOUR / 2, NOW + HOUR), NOW).rows
    }
    research = rows["research"].resources
    assert research == pytest.approx({"cpu": 9 * HOUR, "nvidia.com/gpu": 4.5 * HOUR, "gpu": 4.5 * HOUR})
    assert rows["prod"].resources == pytest.approx({"cpu": HOUR / 2, "gpu": HOUR / 4})
    assert (rows["research"].runs, rows["research"].waiting) == (
        2,
        60.0,
    )  # of the run that started in the period


def test_filters_select_runs_and_several_dimensions_divide_them(database: Database) -> None:
    Recording(database).write(
        Batch([run("a", hours=1), run("b", hours=2, user="bob"), run("c", hours=4, namespace="other")])
    )
    query = UsageQuery(START, NOW, ("user", "job"), {"namespace": "team"})
    found = {
        (row.group["user"], row.group["job"]): row.resources["gpu"]
        for row in usage(database, query, NOW).rows
    }
    assert found == {("bob", "train"): 2 * HOUR, ("jane", "train"): HOUR}


def test_usage_is_divided_by_days(database: Database) -> None:
    Recording(database).write(Batch([run("a", hours=40)]))
    query = UsageQuery(START, START + 40 * HOUR, ("queue",), period="day")
    rows = usage(database, query, START + 100 * HOUR).rows
    assert [(row.period, row.resources["gpu"] / HOUR) for row in rows] == [
        ("2027-01-15", 16.0),
        ("2027-01-16", 24.0),
    ]


TIMES = st.floats(0, 100, allow_nan=False)
RUNS = st.lists(
    st.tuples(TIMES, st.none() | TIMES, st.sampled_from("ab"), st.sampled_from("xy")), max_size=12
)


@settings(max_examples=40, deadline=None)
@given(RUNS, TIMES, TIMES)
def test_usage_equals_the_sum_over_the_runs(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: list[tuple[float, float | None, str, str]],
    start: float,
    length: float,
) -> None:
    path: Path = tmp_path_factory.mktemp("db") / "a.db"
    database = Database(sqlite_url(path))
    made = [
        run(f"u{number}", at=begun, ended=None if lasted is None else begun + lasted, queue=queue, user=user)
        for number, (begun, lasted, queue, user) in enumerate(drawn)
    ]
    Recording(database).write(Batch(made))
    now, end = 150.0, start + length

    def seconds(each: Run) -> float:
        return max(
            min(each.ended if each.ended is not None else now, end, now) - max(each.started, start), 0.0
        )

    found = usage(database, UsageQuery(start, end, ("queue", "user")), now).rows
    for row in found:
        group = (row.group["queue"], row.group["user"])
        alike = [each for each in made if (each.workload.queue, each.workload.user) == group]
        assert row.resources["cpu"] == pytest.approx(2.0 * sum(map(seconds, alike)), abs=1e-6)
    total = sum(row.resources["cpu"] for row in found)
    assert total == pytest.approx(2.0 * sum(map(seconds, made)), abs=1e-6)
    database.close()


LASTED = st.none() | st.floats(-50, 100, allow_nan=False)  # negative: the clock was set back


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 300), LASTED), max_size=8),
    st.lists(st.floats(0, 400), min_size=2, max_size=6),
)
def test_usage_of_adjacent_times_adds_up_and_is_never_negative(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[float, float | None]], times: list[float]
) -> None:
    database = Database(sqlite_url(tmp_path_factory.mktemp("db") / "a.db"))
    made = [
        run(f"u{number}", at=begun, ended=None if lasted is None else begun + lasted)
        for number, (begun, lasted) in enumerate(drawn)
    ]
    Recording(database).write(Batch(made))

    def used(start: float, end: float) -> float:
        rows = usage(database, UsageQuery(start, end), now=150.0).rows
        assert all(amount >= 0 for row in rows for amount in row.resources.values())
        return sum(row.resources["cpu"] for row in rows)

    times = sorted(times)
    parts = [used(start, end) for start, end in pairwise(times)]
    assert sum(parts) == pytest.approx(used(times[0], times[-1]), abs=1e-6)
    assert used(150.0, 400.0) == 0  # nothing has been used in the future
    database.close()


@given(st.floats(0, 1e6), st.floats(0, 1e5), st.floats(1000, 1e6))
def test_decayed_seconds_equal_the_sum_over_small_steps(
    begun: float, lasted: float, half_life: float
) -> None:
    at = begun + lasted
    found = float(decayed_seconds(np.array([begun]), np.array([at]), at, half_life)[0])
    steps = 2000
    width = lasted / steps
    middles = [begun + (number + 0.5) * width for number in range(steps)]
    expected = sum(0.5 ** ((at - middle) / half_life) * width for middle in middles)
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-6)


def test_decayed_usage_halves_with_each_half_life(database: Database) -> None:
    Recording(database).write(Batch([run("a", hours=1), run("b", hours=1, user="bob", at=START - 24 * HOUR)]))
    found = {entry.user: entry.resources["gpu"] for entry in decayed_usage(database, 24 * HOUR, NOW).items}
    assert found["bob"] == pytest.approx(found["jane"] / 2)
    assert 0.7 * HOUR < found["jane"] < HOUR


def test_runs_come_in_pages_without_gaps_or_repetition(database: Database) -> None:
    made = [run(f"u{number}", hours=1, at=START + number // 3) for number in range(10)]
    Recording(database).write(Batch(made))
    seen: list[str] = []
    after: tuple[float, str] | None = None
    for _ in range(10):
        page = runs(database, RunsQuery(0, 1e12, limit=4, after=after))
        if not page:
            break
        seen += [each.uid for each in page]
        after = (page[-1].started, page[-1].uid)
    assert sorted(seen) == sorted(each.uid for each in made)
    assert len(seen) == 10


def test_a_job_has_the_sums_of_its_runs(database: Database) -> None:
    job = JobRecord("job-1", "team", "train", "research", "jane", START - 60, "Running")
    Recording(database).write(
        Batch([run("a", hours=1, evictions=1, outcome=Outcome.EVICTED), run("b", at=START + HOUR)], [job])
    )
    ((record, used),) = jobs(database, JobsQuery(0, 1e12, {"job": "train"}), START + 2 * HOUR)
    assert record == job
    assert (used.runs, used.running, used.evictions) == (2, 1, 1)
    assert (used.started, used.ended) == (START, None)
    assert used.resources["gpu"] == pytest.approx(2 * HOUR)
