"""Recorder: turns what happens in a simulation into figures, in bounded memory; rows per job go to a file at once."""

import csv
from collections import Counter
from dataclasses import dataclass
from typing import IO

import numpy as np

from volcano.model.resources import Vector
from volcano.model.shares.division import weighted_shares
from volcano.model.snapshot import Snapshot
from volcano.scheduler.engine.session import Outcome
from volcano.simulate.jobs import LiveJob, LivePod, Result
from volcano.simulate.results.distribution import Distribution
from volcano.simulate.results.fragmentation import fragmentation
from volcano.simulate.results.timeline import Timeline
from volcano.simulate.workload import Requests, Workload

RESOURCES = ("cpu", "memory", "gpu")
SLOWDOWN_BOUND = 10.0  # seconds: shorter run times count as this
MOST_UNPLACED = 1000  # that are listed; further ones are counted
MOST_BARS = 4000  # of the Gantt chart
GANTT_NODES = 40
SAMPLES = 128  # of the fragmentation
JOB_COLUMNS = (
    "job", "queue", "user", "priority", "pods", "cpu", "memory_bytes", "gpus", "arrival_s", "start_s", "end_s",
    "wait_s", "completion_s", "bounded_slowdown", "result", "evictions", "restarts", "lost_pod_s", "reason",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bar:
    """A pod on a node, for the Gantt chart."""

    node: int
    start: float
    end: float
    queue: str
    job: str


class Recorder:
    """Observer of one simulation."""

    def __init__(self, workload: Workload, job_file: IO[str] | None = None) -> None:
        nodes = workload.nodes
        sums = [(node.cpu, node.memory, float(node.gpus)) for node in nodes]
        self.capacity: Vector = np.array(sums).sum(axis=0) if sums else np.zeros(3)
        self.queues = tuple(queue.name for queue in workload.queues)
        self.weights: Vector = np.array([float(queue.weight) for queue in workload.queues])
        self._row = {name: row for row, name in enumerate(self.queues)}
        count = len(self.queues)
        self._held: Vector = np.zeros((count, 3))  # by running pods, by queue
        self._demand: Vector = np.zeros((count, 3))  # of all pods that have not ended
        self._used: Vector = np.zeros(3)  # by the share of the requests that is used
        self._waiting = 0  # pods
        # Levels: allocation by resource, use by resource, waiting pods, then share and deserved share by queue.
        self.timeline = Timeline(7 + 2 * count)
        self._level: Vector | None = None
        self._now = 0.0
        self.wait, self.completion, self.slowdown = Distribution(), Distribution(), Distribution()
        self.results: Counter[Result] = Counter()
        self.arrivals = 0
        self.placements = 0
        self.evictions: Counter[str] = Counter()
        self.lost: Vector = np.zeros(3)  # resource seconds
        self.lost_seconds = 0.0
        self.reasons: Counter[str] = Counter()  # of jobs that were never placed
        self.unplaced: list[tuple[str, int, str]] = []
        self._gantt_row: dict[str, int] = {}  # the first nodes that got pods
        self.bars: list[Bar] = []
        self.fragmentation: list[tuple[float, float]] = []
        self._sample_every, self._next_sample = 1.0, 0.0
        self._kinds: Counter[Requests] = Counter()  # of the pods that were placed
        self._free: Vector = np.array(sums, dtype=np.float64).reshape(len(sums), 3)
        self._node_row = {node.name: row for row, node in enumerate(nodes)}
        self._writer = csv.writer(job_file) if job_file is not None else None
        if self._writer is not None:
            self._writer.writerow(JOB_COLUMNS)

    # -- what happens ------------------------------------------------------------------------------

    def arrived(self, job: LiveJob, now: float) -> None:
        self._advance(now)
        self.arrivals += 1
        self._demand[self._queue(job)] += total(job)
        self._waiting += len(job.pods)

    def started(self, pod: LivePod, now: float) -> None:
        self._advance(now)
        self.placements += 1
        self._hold(pod, 1.0)
        self._waiting -= 1
        if len(self._gantt_row) < GANTT_NODES:
            self._gantt_row.setdefault(pod.node, len(self._gantt_row))
        self._kinds[pod.spec.requests] += 1

    def stopped(self, pod: LivePod, now: float, *, lost: bool) -> None:
        self._advance(now)
        self._hold(pod, -1.0)
        row = self._gantt_row.get(pod.node)
        if row is not None and len(self.bars) < MOST_BARS:
            self.bars.append(Bar(row, pod.started, now, pod.job.trace.queue, pod.job.trace.name))
        if lost:
            seconds = now - pod.started
            self.lost += amounts(pod.spec.requests) * seconds
            self.lost_seconds += seconds
            self._waiting += 1
        else:
            self._demand[self._queue(pod.job)] -= amounts(pod.spec.requests)

    def requeued(self, pod: LivePod, now: float) -> None:
        """A pod that had ended is created again, for the next attempt of its job."""
        self._advance(now)
        self._demand[self._queue(pod.job)] += amounts(pod.spec.requests)
        self._waiting += 1

    def evicted(self, pod: LivePod, now: float, reason: str) -> None:
        self.evictions[reason] += 1

    def finished(self, job: LiveJob, now: float, result: Result, reason: str) -> None:
        self._advance(now)
        for pod in job.pods:
            if not pod.done:
                self._demand[self._queue(job)] -= amounts(pod.spec.requests)
                self._waiting -= not pod.running
                if pod.running:
                    self._hold(pod, -1.0)
        self.results[result] += 1
        if job.first_start is not None:
            wait, completion = job.first_start - job.trace.arrival, now - job.trace.arrival
            self.wait.add(wait)
            if result in (Result.COMPLETED, Result.FAILED):
                self.completion.add(completion)
                self.slowdown.add(bounded_slowdown(wait, completion))
        else:
            why = reason or "it was not considered before it was withdrawn"
            self.reasons[why] += 1
            if len(self.unplaced) < MOST_UNPLACED:
                self.unplaced.append((job.trace.name, len(job.pods), why))
        self._write(job, now, result, reason)

    def cycled(self, snapshot: Snapshot, outcome: Outcome, now: float) -> None:
        self._advance(now)
        if now < self._next_sample:
            return
        self.fragmentation.append((now, fragmentation(self._free, self._kinds)))
        if len(self.fragmentation) > SAMPLES:
            del self.fragmentation[::2]
            self._sample_every *= 2
        self._next_sample = now + self._sample_every

    def close(self, now: float) -> None:
        self._advance(now)

    @property
    def gantt_nodes(self) -> tuple[str, ...]:
        """Nodes of the Gantt chart."""
        return tuple(self._gantt_row)

    # -- levels ------------------------------------------------------------------------------------

    def _advance(self, now: float) -> None:
        if now > self._now:
            if self._level is None:
                self._level = self._levels()
            self.timeline.add(self._now, now, self._level)
            self._now = now
        self._level = None

    def _levels(self) -> Vector:
        capacity = np.maximum(self.capacity, 1e-9)
        held = self._held.sum(axis=0)
        shares = (self._held / capacity).max(axis=1) if len(self.queues) else np.zeros(0)
        if len(self.queues) > 1:
            fair = fair_shares(self.weights, np.maximum((self._demand / capacity).max(axis=1), 0.0))
        else:
            fair = np.minimum((self._demand / capacity).max(axis=1), 1.0)
        return np.concatenate((held / capacity, self._used / capacity, [float(self._waiting)], shares, fair))

    def _hold(self, pod: LivePod, sign: float) -> None:
        asked = amounts(pod.spec.requests) * sign
        self._held[self._queue(pod.job)] += asked
        self._used += asked * pod.spec.usage
        self._free[self._node_row[pod.node]] -= asked

    def _queue(self, job: LiveJob) -> int:
        return self._row[job.trace.queue]

    def _write(self, job: LiveJob, now: float, result: Result, reason: str) -> None:
        if self._writer is None:
            return
        trace, started = job.trace, job.first_start
        ended = result in (Result.COMPLETED, Result.FAILED)
        wait = None if started is None else started - trace.arrival
        cpu, memory, gpus = total(job)
        self._writer.writerow(
            (
                trace.name, trace.queue, trace.user, trace.priority, len(job.pods), f"{cpu:g}", f"{memory:.0f}",
                f"{gpus:g}", f"{trace.arrival:.3f}", shown(started), shown(now if ended else None), shown(wait),
                shown(now - trace.arrival if ended else None),
                f"{bounded_slowdown(wait, now - trace.arrival):.4f}" if ended and wait is not None else "",
                result.value, job.evictions, job.restarts, f"{job.lost:.3f}", reason if started is None else "",
            )
        )  # fmt: skip


def amounts(requests: Requests) -> Vector:
    """CPU, memory and GPUs of a pod."""
    return np.array((requests.cpu, requests.memory, requests.gpu))


def total(job: LiveJob) -> Vector:
    """CPU, memory and GPUs of all pods of a job."""
    found = np.zeros(3)
    for task in job.trace.tasks:
        found += amounts(task.requests) * task.replicas
    return found


def bounded_slowdown(wait: float, completion: float) -> float:
    """Completion time as a multiple of the run time, where short run times count as ten seconds."""
    return max(completion / max(completion - wait, SLOWDOWN_BOUND), 1.0)


def shown(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.3f}"


def fair_shares(weights: Vector, demand: Vector) -> Vector:
    """Share of the cluster that each queue deserves: by weight, at most its demand; the rest goes to the others."""
    least = np.zeros((len(weights), 1))
    return weighted_shares(np.ones(1), weights, least, demand[:, None])[:, 0]
