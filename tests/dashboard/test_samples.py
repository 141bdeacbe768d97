"""Samples of the last hour: taken, kept, shown to those who may see them, and filled from records of the past."""

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.accounting.builders import run
from tests.dashboard.objects import ALL, objects_of
from tests.views.pictures import NOW, job, picture
from volcano.accounting.api import JobRecord, Run, job_manifest, run_manifest
from volcano.base.clock import VirtualClock, timestamp
from volcano.dashboard.data.past import past_samples
from volcano.dashboard.feed import Feed
from volcano.dashboard.objects import Objects
from volcano.dashboard.rights import Scopes
from volcano.dashboard.sampler import Sampler
from volcano.dashboard.samples import (
    KEPT,
    STEP,
    CycleTimes,
    EndedJobs,
    QueueSample,
    Sample,
    Samples,
    sample_of,
    visible,
)
from volcano.dashboard.viewer import connection_of
from volcano.kube.api.errors import Forbidden, NotFound
from volcano.kube.api.kinds import NODE, POD, QUEUE
from volcano.scheduler.history.queries import Summary

# what a sample holds


def test_a_sample_counts_what_the_board_shows() -> None:
    found = sample_of(objects_of(), NOW, completed=2)
    assert (found.used["cpu"], found.total["cpu"]) == (4.0, 16.0)
    assert (found.running, found.pending, found.completed) == (1, 1, 2)
    assert found.queues["vision"].allocated == {"cpu": 4.0}
    assert found.queues["vision"].share(found.total) == 0.25
    assert found.queues["research"].deserved["cpu"] == 4.0


def test_at_most_an_hour_is_kept() -> None:
    samples = Samples()
    for index in range(KEPT + 5):
        samples.add(Sample(index * STEP, {}, {}))
    kept = samples.all()
    assert len(kept) == KEPT
    assert kept[0].at == 5 * STEP
    assert samples.newest == kept[-1]


def test_what_does_not_change_is_kept_once() -> None:
    samples = Samples()
    first, second = sample_of(objects_of(), NOW), sample_of(objects_of(), NOW + STEP)
    changed = replace(second, queues={**second.queues, "vision": QueueSample({"cpu": 9.0}, {})})
    samples.add(first, second, changed)
    a, b, c = samples.all()
    assert a.used is b.used
    assert a.queues is b.queues
    assert c.queues["default"] is a.queues["default"]
    assert samples.of_queue("vision")[-1] == (NOW + STEP, QueueSample({"cpu": 9.0}, {}))


def test_jobs_that_end_are_counted_once() -> None:
    ended = EndedJobs()
    assert ended.count([job("old", phase="Completed"), job("a")]) == (0, 0), "ended before"
    after = [job("old", phase="Completed"), job("a", phase="Completed"), job("b", phase="Failed")]
    assert ended.count(after) == (1, 1)
    assert ended.count(after) == (0, 0)
    assert ended.count([job("c", phase="Terminated")]) == (0, 1)


def test_a_viewer_sees_the_parts_whose_kinds_the_viewer_may_list() -> None:
    whole = sample_of(objects_of(), NOW, completed=1, cycles=CycleTimes(1, 0.1, 0.1))
    assert visible(whole, ALL) == whole
    nothing = visible(whole, Scopes({}))
    assert (nothing.used, nothing.total, nothing.queues, nothing.running, nothing.cycles) == (
        {},
        {},
        {},
        0,
        None,
    )
    queues = visible(whole, Scopes.everything([QUEUE]))
    assert (queues.queues, queues.used) == (whole.queues, {})
    used = visible(whole, Scopes.everything([NODE, POD]))
    assert (used.used, used.total, used.completed, used.queues) == (whole.used, whole.total, 0, {})


# the past


def test_the_past_is_computed_from_runs_and_jobs() -> None:
    """A run of 8 cores in queue vision from minute 20 to minute 10 before now, and one that still runs."""
    runs = [
        running("a", begin=1200, end=600, cpu=8.0, queue="vision"),
        running("b", begin=300, end=None, cpu=2.0, queue="default"),
    ]
    jobs = [record("a", created=1500, finished=600), record("x", created=900, finished=450, phase="Failed")]
    cycles = [Summary(7, NOW - 1195, 0.25, placed=1, evicted=0, admitted=0, changed=0, waiting=0)]
    found = past_samples(runs, jobs, cycles, objects_of(), NOW)
    assert found[0].at <= NOW - 1195
    assert all(sample.reconstructed for sample in found)
    assert at_time(found, 900).used["cpu"] == 8.0
    assert at_time(found, 900).queues["vision"].allocated["cpu"] == 8.0
    assert at_time(found, 900).queues["research"].allocated["cpu"] == 8.0, (
        "a queue holds what its children hold"
    )
    assert at_time(found, 500).used["cpu"] == 0.0
    assert at_time(found, 100).used["cpu"] == 2.0
    assert at_time(found, 100).queues["default"].allocated["cpu"] == 2.0
    assert sum(sample.completed for sample in found) == 1
    assert sum(sample.failed for sample in found) == 1
    assert [sample.cycles for sample in found if sample.cycles and sample.cycles.count] == [
        CycleTimes(1, 0.25, 0.25, 1, 0)
    ]


def test_jobs_wait_from_their_creation_to_their_first_run() -> None:
    runs = [running("a", begin=600, end=None, cpu=1.0), running("z", begin=2000, end=1990, cpu=1.0)]
    objects = objects_of(replace(picture(), jobs=[existing("a", created=1200), existing("w", created=300)]))
    found = past_samples(runs, [], None, objects, NOW)
    assert [at_time(found, ago).pending for ago in (1300, 900, 400, 100)] == [0, 1, 0, 1]
    assert [at_time(found, ago).running for ago in (900, 400)] == [0, 1]
    assert {sample.cycles for sample in found} == {None}


def test_without_records_there_is_no_past() -> None:
    assert past_samples([], [], [], objects_of(), NOW) == []


@given(
    st.lists(st.tuples(st.floats(0, 7200), st.floats(0.1, 7200), st.integers(1, 64)), min_size=1, max_size=20)
)
def test_the_use_at_each_sample_is_the_sum_of_the_runs_at_that_time(
    spans: list[tuple[float, float, int]],
) -> None:
    runs = [
        running(f"r{index}", begin=ago, end=ago - length if length < ago else None, cpu=float(cpu))
        for index, (ago, length, cpu) in enumerate(spans)
    ]
    found = past_samples(runs, [], None, objects_of(), NOW)
    assert len(found) < KEPT
    for sample in found:
        expected = sum(
            each.workload.requests["cpu"]
            for each in runs
            if each.started <= sample.at and (each.ended is None or sample.at < each.ended)
        )
        assert sample.used["cpu"] == pytest.approx(expected)


# the sampler


def test_the_sampler_fills_the_past_and_adds_a_sample() -> None:
    answers = {
        "/runs": {"items": [run_manifest(running("a", begin=600, end=300, cpu=4.0))]},
        "/jobs": {"items": [job_manifest(record("a", created=700, finished=300))]},
        "/cycles": {"first": 1, "last": 3, "cycles": [cycle(3, ago=5), cycle(2, ago=400)]},
    }
    feed, sampler, clock = sampling(answers)

    async def flow() -> None:
        await sampler._fill()
        assert [sample.used["cpu"] for sample in feed.samples.all()][-1] == 0.0
        assert max(sample.used["cpu"] for sample in feed.samples.all()) == 4.0
        clock.advance(STEP)
        answers["/cycles"] = {
            "first": 1,
            "last": 5,
            "cycles": [cycle(5, ago=-8), cycle(4, ago=-6), cycle(3, ago=5)],
        }
        feed.shown = replace(feed.shown, jobs=[*feed.shown.jobs, job("new", phase="Failed")])
        await sampler.sample()

    asyncio.run(flow())
    newest = feed.samples.newest
    assert newest is not None
    assert (newest.at, newest.failed, newest.completed) == (NOW + STEP, 1, 0)
    assert newest.cycles == CycleTimes(2, 0.5, 0.25, 2, 0)


def test_a_job_that_ended_just_before_the_start_is_counted_once() -> None:
    feed, sampler, _ = sampling({"": NotFound("not served")})
    ended = job("just-ended", phase="Completed")
    ended["status"]["state"]["lastTransitionTime"] = timestamp(NOW - STEP / 2)
    feed.shown = replace(feed.shown, jobs=[ended])

    async def flow() -> None:
        await sampler._fill()
        await sampler.sample()
        await sampler.sample()

    asyncio.run(flow())
    assert [sample.completed for sample in feed.samples.all()] == [1, 0]


@pytest.mark.parametrize("error", [NotFound("not served"), Forbidden("you may not")])
def test_without_accounting_and_record_of_cycles_the_charts_begin_now(error: Exception) -> None:
    feed, sampler, _ = sampling({"": error})

    async def flow() -> None:
        await sampler._fill()
        await sampler.sample()

    asyncio.run(flow())
    assert [sample.at for sample in feed.samples.all()] == [NOW]
    assert feed.samples.all()[0].cycles is None


def test_cycles_are_counted_after_a_restart_of_the_scheduler() -> None:
    answers: dict[str, Any] = {"/cycles": {"first": 1, "last": 90, "cycles": [cycle(90, ago=5)]}}
    feed, sampler, _ = sampling(answers)

    async def flow() -> None:
        await sampler.sample()
        answers["/cycles"] = {"first": 1, "last": 2, "cycles": [cycle(2, ago=1), cycle(1, ago=2)]}
        await sampler.sample()

    asyncio.run(flow())
    assert [sample.cycles.count if sample.cycles else None for sample in feed.samples.all()] == [None, 2]


def test_samples_go_on_after_one_that_failed() -> None:
    feed, sampler, clock = sampling({})
    good = feed.shown

    async def flow() -> None:
        running = asyncio.create_task(sampler.run())
        await settled()
        feed.shown = replace(good, jobs=[{"metadata": None}])
        clock.advance(STEP)
        await settled()
        feed.shown = good
        clock.advance(STEP)
        await settled()
        running.cancel()

    asyncio.run(flow())
    assert [sample.at - NOW for sample in feed.samples.all()] == [0, 2 * STEP]


async def settled() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


# builders


def running(name: str, *, begin: float, end: float | None, cpu: float, queue: str = "default") -> Run:
    """A run from `begin` to `end` seconds before NOW."""
    ended = NOW - end if end is not None else None
    return run(name, at=NOW - begin, ended=ended, requests={"cpu": cpu}, queue=queue, job=name, job_uid=name)


def record(name: str, *, created: float, finished: float, phase: str = "Completed") -> JobRecord:
    return JobRecord(name, "team", name, "default", "ann", NOW - created, phase, NOW - finished)


def existing(name: str, *, created: float) -> dict[str, Any]:
    found = job(name, phase="Pending")
    found["metadata"]["creationTimestamp"] = timestamp(NOW - created)
    return found


def cycle(number: int, *, ago: float) -> dict[str, Any]:
    summary = Summary(number, NOW - ago, 0.25, placed=1, evicted=0, admitted=0, changed=0, waiting=0)
    return dict(msgspec.to_builtins(summary))


def at_time(samples: list[Sample], ago: float) -> Sample:
    return min(samples, key=lambda sample: abs(sample.at - (NOW - ago)))


class FixedFeed(Feed):
    """A feed of one picture."""

    shown = picture()

    async def synced(self) -> None:
        return

    def visible(self, scopes: Scopes) -> Objects:
        return objects_of(self.shown, scopes=scopes)


class Answers:
    """Client that answers requests by the end of their path; "" stands for every path."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = answers

    async def raw(self, _method: str, target: str) -> Any:
        path = target.partition("?")[0]
        for end, answer in self._answers.items():
            if path.endswith(end):
                if isinstance(answer, Exception):
                    raise answer
                return SimpleNamespace(body=json.dumps(answer))
        raise NotFound("the server could not find the requested resource")

    async def list(self, _kind: Any, _query: Any) -> Any:
        return SimpleNamespace(items=[])


def sampling(answers: dict[str, Any]) -> tuple[FixedFeed, Sampler, VirtualClock]:
    clock = VirtualClock(NOW)
    client: Any = Answers(answers)
    session = connection_of(Any, clock)  # type: ignore[arg-type]
    session.client = client
    feed = FixedFeed(client, clock)
    return feed, Sampler(feed, session, clock), clock
