"""Retention: runs are replaced by the sums of their months, and every total stays the same."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.accounting.builders import HOUR, run
from volcano.accounting.api import Batch, JobRecord
from volcano.accounting.store.database import Database
from volcano.accounting.store.file_check import sqlite_url
from volcano.accounting.store.queries import JobsQuery, RunsQuery, UsageQuery, jobs, runs, usage
from volcano.accounting.store.recording import Recording
from volcano.accounting.store.retention import remove_leftovers, roll_up

DAY = 24 * HOUR


def moment(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


JANUARY, FEBRUARY, MARCH = moment("2027-01-01"), moment("2027-02-01"), moment("2027-03-01")


def gpu_hours(database: Database, start: float, end: float) -> float:
    rows = usage(database, UsageQuery(start, end, ("queue",)), end).rows
    return sum(row.resources["gpu"] for row in rows) / HOUR


def test_a_run_across_months_counts_in_each_and_no_run_is_lost(database: Database) -> None:
    recording = Recording(database)
    recording.write(Batch([run("a", at=FEBRUARY - 2 * HOUR, hours=5), run("b", at=FEBRUARY + DAY, hours=1)]))
    assert roll_up(database, MARCH, part=1) == 1
    assert roll_up(database, MARCH) == 1
    assert roll_up(database, MARCH) == 0
    assert runs(database, RunsQuery(0, 1e12)) == []
    assert gpu_hours(database, JANUARY, FEBRUARY) == pytest.approx(2)
    assert gpu_hours(database, FEBRUARY, MARCH) == pytest.approx(4)


def test_runs_that_are_open_or_young_stay(database: Database) -> None:
    Recording(database).write(
        Batch([run("old", at=JANUARY, hours=1), run("young", at=MARCH, hours=1), run("open", at=JANUARY)])
    )
    roll_up(database, FEBRUARY)
    assert sorted(each.uid for each in runs(database, RunsQuery(0, 1e12))) == ["open", "young"]


def test_a_part_of_a_month_that_was_summed_up_is_said_to_be_missing(database: Database) -> None:
    Recording(database).write(Batch([run("a", at=JANUARY, hours=1)]))
    roll_up(database, MARCH)
    answer = usage(database, UsageQuery(JANUARY + DAY, MARCH), MARCH)
    assert answer.rows == ()
    assert answer.warnings == (
        "of 2027-01, runs that were summed up by month are not included: begin with 2027-01-01",
    )
    by_job = usage(database, UsageQuery(JANUARY, MARCH, ("job",)), MARCH)
    assert by_job.warnings == ("runs that were summed up by month have no job",)


def test_recording_goes_on_after_unused_workloads_were_removed(database: Database) -> None:
    recording = Recording(database)
    recording.write(
        Batch(
            [run("a", at=JANUARY, hours=1)],
            [JobRecord("j", "n", "x", "q", "u", JANUARY, "Completed", deleted=JANUARY)],
        )
    )
    roll_up(database, MARCH)
    remove_leftovers(database, MARCH)
    recording.forget_workloads()
    assert jobs(database, JobsQuery(0, 1e12), MARCH) == []
    recording.write(Batch([run("b", at=MARCH, hours=1)]))
    assert [each.uid for each in runs(database, RunsQuery(0, 1e12))] == ["b"]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 80), st.floats(0, 50), st.sampled_from("ab")), min_size=1, max_size=8),
    st.floats(0, 150),
)
def test_totals_of_whole_months_do_not_depend_on_the_retention(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[float, float, str]], kept: float
) -> None:
    database = Database(sqlite_url(tmp_path_factory.mktemp("db") / "a.db"))
    made = [
        run(f"u{number}", at=JANUARY + days * DAY, hours=lasted * 24, queue=queue)
        for number, (days, lasted, queue) in enumerate(drawn)
    ]
    Recording(database).write(Batch(made))
    end = moment("2027-08-01")
    bounds = [(JANUARY, FEBRUARY), (FEBRUARY, MARCH), (JANUARY, end)]
    before = [gpu_hours(database, *each) for each in bounds]
    while roll_up(database, JANUARY + kept * DAY, part=3):
        pass
    assert [gpu_hours(database, *each) for each in bounds] == pytest.approx(before, abs=1e-6)
    database.close()
