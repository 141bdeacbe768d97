"""Samples of the hour before the dashboard started, from the records of accounting and of the scheduler's cycles."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from volcano.accounting.api import JobRecord, Run
from volcano.dashboard.objects import Objects
from volcano.dashboard.samples import (
    COMPLETED,
    FAILED,
    KEPT,
    STEP,
    CycleTimes,
    QueueSample,
    Sample,
    ended_at,
    ended_phase,
)
from volcano.kube.api.fields import at, wall_time
from volcano.kube.api.kinds import JOB
from volcano.scheduler.history.queries import Summary

Steps = list[float]  # a value for each step


def past_samples(
    runs: Sequence[Run],
    jobs: Sequence[JobRecord],
    cycles: Iterable[Summary] | None,
    objects: Objects,
    now: float,
) -> list[Sample]:
    """Samples of the steps before `now`, from the first that a record tells of. The nodes and the shares of the queues
    are those of now: neither is recorded."""
    board = objects.board
    begun = [run.started for run in runs] + [end for _, end in _endings(jobs, objects) if end]
    if not begun:
        return []
    steps = min(int((now - min(begun)) // STEP) + 1, KEPT - 1)
    ends = [now - STEP * (steps - index) for index in range(steps)]  # wall time of each sample
    paths = {share.name: share.path for share in board.queues}
    used: dict[str, _Series] = defaultdict(lambda: _Series(ends))
    held: dict[tuple[str, str], _Series] = defaultdict(lambda: _Series(ends))
    first: dict[tuple[str, str], tuple[float, float]] = {}  # begin and end of the runs of each job
    for run in runs:
        work, end = run.workload, run.ended if run.ended is not None else now + STEP
        for name, amount in work.requests.items():
            if name in board.total:
                used[name].add(run.started, end, amount)
                for queue in paths.get(work.queue, ()):
                    held[queue, name].add(run.started, end, amount)
        key = (work.namespace, work.job)
        begin, last = first.get(key, (run.started, end))
        first[key] = (min(begin, run.started), max(last, end))
    running, pending = _Series(ends), _Series(ends)
    for begin, end in first.values():
        running.add(begin, end, 1)
    for created, started in _waits(jobs, objects, first, now):
        pending.add(created, started, 1)
    endings = _ended_in(ends, _endings(jobs, objects))
    timed = _cycles_in(ends, cycles) if cycles is not None else [None] * steps
    amounts = {name: series.values() for name, series in used.items()}
    by_queue: dict[str, dict[str, Steps]] = defaultdict(dict)
    for (queue, name), series in held.items():
        by_queue[queue][name] = series.values()
    return [
        Sample(
            ends[index],
            {name: values[index] for name, values in amounts.items()},
            board.total,
            {
                share.name: QueueSample(
                    {name: values[index] for name, values in by_queue[share.name].items()}, share.deserved
                )
                for share in board.queues
            },
            int(running.values()[index]),
            int(pending.values()[index]),
            endings[index][0],
            endings[index][1],
            timed[index],
            reconstructed=True,
        )
        for index in range(steps)
    ]


class _Series:
    """Sum of amounts that each apply from one time to another, at the times of the samples."""

    def __init__(self, times: Sequence[float]) -> None:
        self._first = times[0]
        self._changes = [0.0] * (len(times) + 1)
        self._values: Steps | None = None

    def add(self, begin: float, end: float, amount: float) -> None:
        start, stop = self._step(begin), self._step(end)
        if stop > start:
            self._changes[start] += amount
            self._changes[stop] -= amount
            self._values = None

    def values(self) -> Steps:
        if self._values is None:
            self._values = [max(value, 0.0) for value in accumulate(self._changes[:-1])]
        return self._values

    def _step(self, moment: float) -> int:
        """The first sample at or after a time."""
        return min(max(int(-((self._first - moment) // STEP)), 0), len(self._changes) - 1)


def _endings(jobs: Sequence[JobRecord], objects: Objects) -> list[tuple[str, float]]:
    """Phase and time of jobs that ended: those that exist, and recorded ones that were deleted."""
    found = {
        job.uid: (COMPLETED if job.phase == COMPLETED else FAILED, job.finished)
        for job in jobs
        if job.finished is not None and job.phase in (COMPLETED, FAILED, "Terminated")
    }
    for job in objects.of(JOB):
        if phase := ended_phase(job):
            found[str(job["metadata"].get("uid", ""))] = (phase, ended_at(job))
    return list(found.values())


def _ended_in(times: Sequence[float], endings: Iterable[tuple[str, float]]) -> list[tuple[int, int]]:
    counts = [[0, 0] for _ in times]
    for phase, moment in endings:
        index = _step_of(times, moment)
        if index is not None:
            counts[index][phase != COMPLETED] += 1
    return [(completed, failed) for completed, failed in counts]


def _waits(
    jobs: Sequence[JobRecord],
    objects: Objects,
    first: Mapping[tuple[str, str], tuple[float, float]],
    now: float,
) -> Iterable[tuple[float, float]]:
    """Creation and start of each job; jobs that did not start wait until they ended, or still."""
    known = {
        (job.namespace, job.name): (job.created, job.finished or job.deleted or now + STEP) for job in jobs
    }
    for job in objects.of(JOB):
        created = wall_time(at(job, "metadata", "creationTimestamp"))
        if created is not None:
            metadata = job["metadata"]
            end = ended_at(job) if ended_phase(job) else now + STEP
            known[str(metadata.get("namespace", "")), str(metadata.get("name", ""))] = (created, end)
    for key, (created, end) in known.items():
        yield created, first[key][0] if key in first else end


def _cycles_in(times: Sequence[float], cycles: Iterable[Summary]) -> list[CycleTimes | None]:
    """Cycle times of each step; None before the oldest cycle that is given."""
    by_step: dict[int, list[Summary]] = defaultdict(list)
    oldest = len(times)
    for cycle in cycles:
        index = _step_of(times, cycle.at)
        if index is not None:
            by_step[index].append(cycle)
            oldest = min(oldest, index)
    return [cycle_times(by_step[index]) if index >= oldest else None for index in range(len(times))]


def cycle_times(cycles: Sequence[Summary]) -> CycleTimes:
    """Sum of the summaries of cycles that the scheduler serves."""
    seconds = [cycle.seconds for cycle in cycles]
    return CycleTimes(
        len(cycles),
        sum(seconds),
        max(seconds, default=0.0),
        sum(cycle.placed for cycle in cycles),
        sum(cycle.evicted for cycle in cycles),
    )


def _step_of(times: Sequence[float], moment: float) -> int | None:
    """The sample whose step contains a time."""
    index = int(-((times[0] - moment) // STEP))
    return index if 0 <= index < len(times) else None
