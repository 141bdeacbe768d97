"""Recording: each run is one row, however often and in whatever order its versions are written."""

from itertools import permutations

import pytest
from msgspec.structs import replace

from tests.accounting.builders import HOUR, START, run
from volcano.accounting.api import Batch, JobRecord, Outcome, Progress, Run
from volcano.accounting.errors import DatabaseError
from volcano.accounting.store.database import Database
from volcano.accounting.store.queries import JobsQuery, RunsQuery, jobs, runs
from volcano.accounting.store.recording import Recording

ALL = RunsQuery(0, 1e12)


def stored(database: Database) -> list[Run]:
    return runs(database, ALL)


def test_a_run_is_read_as_it_was_written(database: Database) -> None:
    written = [run("a"), run("b", hours=2, user="bob", reason="done")]
    Recording(database).write(Batch(written, progress=Progress(START)))
    assert sorted(stored(database), key=lambda each: each.uid) == written


def test_a_run_that_is_written_again_stays_one_row(database: Database) -> None:
    for _ in range(2):  # two recorders, as after a crash between commit and acknowledgement
        recording = Recording(database)
        for version in (run(), run(), run(hours=1), run(hours=1)):
            recording.write(Batch([version]))
    assert stored(database) == [run(hours=1)]


@pytest.mark.parametrize(
    "order", list(permutations(["open", "estimated", "exact"])), ids=lambda order: " then ".join(order)
)
def test_an_exact_end_prevails_in_any_order(database: Database, order: tuple[str, ...]) -> None:
    versions = {
        "open": run(),
        "estimated": replace(run(hours=1), outcome=Outcome.UNKNOWN, estimated=True),
        "exact": run(hours=3),
    }
    for name in order:
        Recording(database).write(Batch([versions[name]]))
    assert stored(database) == [run(hours=3)]


def test_runs_whose_pods_are_gone_end_when_they_were_last_seen(database: Database) -> None:
    recording = Recording(database)
    recording.write(
        Batch([run("kept"), run("gone"), run("ended", hours=1)], progress=Progress(START + 5 * HOUR))
    )
    assert recording.close_missing({"kept"}, set()) == 1
    found = {each.uid: each for each in stored(database)}
    assert found["kept"].ended is None
    assert found["ended"] == run("ended", hours=1)
    gone = found["gone"]
    assert (gone.ended, gone.outcome, gone.estimated) == (START + 5 * HOUR, Outcome.UNKNOWN, True)
    assert recording.close_missing({"kept"}, set()) == 0


def test_a_lost_run_that_started_after_the_last_sight_lasts_no_time(database: Database) -> None:
    recording = Recording(database)
    recording.write(Batch([run("gone")], progress=Progress(START - HOUR)))
    recording.close_missing(set(), set())
    assert [each.ended for each in stored(database)] == [START]


def test_a_batch_is_written_as_a_whole_or_not_at_all(database: Database) -> None:
    recording = Recording(database)
    bad = replace(run("bad"), started=None)
    with pytest.raises(DatabaseError):
        recording.write(Batch([run("good", job="other"), bad]))
    assert stored(database) == []
    recording.write(Batch([run("good", job="other")]))
    assert [each.uid for each in stored(database)] == ["good"]


def record(uid: str, phase: str = "Running", deleted: float | None = None) -> JobRecord:
    return JobRecord(
        uid, "team", f"job-{uid}", "research", "jane", START, phase, deleted=deleted, tasks={"w": 2}
    )


def test_a_job_is_updated_until_it_is_deleted(database: Database) -> None:
    recording = Recording(database)
    for version in (record("1"), record("1", "Completed", deleted=START + 9), record("1", "Running")):
        recording.write(Batch(jobs=[version]))
    ((found, _),) = jobs(database, JobsQuery(0, 1e12), START)
    assert found == record("1", "Completed", deleted=START + 9)


def test_jobs_that_are_gone_were_deleted_when_they_were_last_seen(database: Database) -> None:
    recording = Recording(database)
    recording.write(Batch(jobs=[record("1"), record("2")], progress=Progress(START + HOUR)))
    recording.close_missing(set(), {"2"})
    found = {job.uid: job.deleted for job, _ in jobs(database, JobsQuery(0, 1e12), START)}
    assert found == {"1": START + HOUR, "2": None}


def test_progress_is_written_with_the_rows_or_not_at_all(database: Database) -> None:
    recording = Recording(database)
    assert recording.progress() is None
    first = Progress(START, {"pods": 2**53 - 1, "jobs.batch.volcano.sh": 12})
    recording.write(Batch([run("a")], progress=first))
    recording.write(Batch([run("b")]))
    with pytest.raises(DatabaseError):
        recording.write(Batch([replace(run("bad"), started=None)], progress=Progress(START + 1, {"pods": 1})))
    assert Recording(database).progress() == first
