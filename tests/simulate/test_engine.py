"""Simulations: run times, gangs, failures, evictions and node failures of a workload."""

import csv
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulate.traces import PREEMPTING, run, sim_node, trace_job, workload
from volcano.model.job import Job, PodGroup
from volcano.model.snapshot import Snapshot
from volcano.model.task import Task
from volcano.scheduler.engine.config import parse, shipped
from volcano.scheduler.engine.session import Outcome
from volcano.simulate.engine import Settings, Simulation
from volcano.simulate.faults import NodeFault
from volcano.simulate.jobs import LiveJob, LivePod, Result
from volcano.simulate.objects import GpuSharing
from volcano.simulate.results.recorder import Recorder
from volcano.simulate.runner import run_one
from volcano.simulate.workload import Attempt, SimQueue, TraceJob, Workload

SOON = 0.2  # seconds that a cycle may take after a change


class Journal(Recorder):
    """A recorder that also keeps what happened, in order."""

    def __init__(self, given: Workload) -> None:
        super().__init__(given)
        self.lines: list[tuple[float, str, str]] = []

    def started(self, pod: LivePod, now: float) -> None:
        self.lines.append((now, f"{pod.job.trace.name}-{pod.number}", pod.node))
        super().started(pod, now)

    def finished(self, job: LiveJob, now: float, result: Result, reason: str) -> None:
        self.lines.append((now, job.trace.name, result.value))
        super().finished(job, now, result, reason)


def journal(given: Workload, config: str | None = None, **more: Any) -> list[tuple[float, str, str]]:
    found = Journal(given)
    Simulation(given, Settings(parse(config or shipped(), "test"), **more), found).run()
    return found.lines


def ends(given: Workload, config: str | None = None, **more: Any) -> dict[str, tuple[float, str]]:
    """When and how each job ended."""
    names = {job.name for job in given.jobs}
    return {name: (at, how) for at, name, how in journal(given, config, **more) if name in names}


def test_a_job_runs_as_long_as_the_trace_says() -> None:
    at, how = ends(workload(trace_job("a", arrival=0, seconds=100)))["a"]
    assert how == "completed"
    assert at == pytest.approx(100, abs=SOON)


def test_a_job_waits_until_another_one_has_ended() -> None:
    given = workload(trace_job("a", seconds=100, cpu=4), trace_job("b", arrival=10, seconds=50, cpu=4))
    assert ends(given)["b"][0] == pytest.approx(150, abs=2 * SOON)
    summary = run(given).summary
    assert summary.wait.p99 == pytest.approx(90, abs=2 * SOON)
    assert summary.allocation["cpu"] == pytest.approx(1.0, abs=0.01)


def test_idle_time_is_skipped() -> None:
    year = 365 * 86400.0
    found = run(workload(trace_job("a"), trace_job("b", arrival=year)))
    assert found.summary.virtual_seconds > year
    assert found.summary.cycles < 10


def test_a_gang_starts_together_or_not_at_all() -> None:
    given = workload(
        trace_job("half", seconds=100, cpu=2), trace_job("gang", arrival=1, pods=4), nodes=[sim_node()]
    )
    starts = [at for at, name, _ in journal(given) if name.startswith("gang-")]
    assert len(starts) == 4
    assert starts == pytest.approx([100] * 4, abs=2 * SOON)


def test_a_job_that_fits_nowhere_is_reported_with_the_reason() -> None:
    found = run(workload(trace_job("huge", cpu=64), trace_job("small")))
    assert found.summary.results["unplaced"] == 1
    (reason,) = found.summary.reasons
    assert "nsufficient cpu" in reason or "cpu" in reason
    assert found.recorder.unplaced[0][:2] == ("huge", 1)


def test_a_job_that_the_trace_withdraws_does_not_start_later() -> None:
    given = workload(
        trace_job("first", seconds=100, cpu=4), trace_job("gives-up", arrival=1, cpu=4, longest_wait=20.0)
    )
    at, how = ends(given)["gives-up"]
    assert how == "withdrawn"
    assert at == pytest.approx(21)


def test_failed_attempts_are_repeated_as_in_the_trace() -> None:
    attempts = (Attempt(10, failed=True), Attempt(20, failed=True), Attempt(30))
    at, how = ends(workload(trace_job("a", attempts=attempts, pods=2)))["a"]
    assert how == "completed"
    assert at == pytest.approx(60, abs=4 * SOON)
    failing = (Attempt(10, failed=True),)
    assert ends(workload(trace_job("b", attempts=failing)))["b"][1] == "failed"


def test_preempted_pods_start_again_and_their_work_is_lost() -> None:
    given = workload(
        trace_job("low", seconds=100, cpu=4, min_available=0),
        trace_job("high", arrival=50, seconds=10, cpu=4, priority=100),
    )
    found = run(given, PREEMPTING)
    assert found.summary.evictions == {"preempt": 1}
    assert found.summary.lost["cpu_hours"] == pytest.approx(4 * 50 / 3600, rel=0.02)
    finished = ends(given, PREEMPTING)
    assert finished["high"][0] == pytest.approx(61, abs=1)
    assert finished["low"][0] == pytest.approx(161, abs=1), "it starts from the beginning"


def test_pods_of_a_failed_node_start_elsewhere_and_the_node_comes_back() -> None:
    given = workload(
        trace_job("a", seconds=100, cpu=4),
        trace_job("b", seconds=100, cpu=4),
        nodes=[sim_node("n1"), sim_node("n2")],
    )
    lines = journal(given, faults=(NodeFault(50.0, "n1", 30.0),))
    starts = [(round(at), where) for at, name, where in lines if name in ("a-0", "b-0")]
    assert sorted(starts) == [(0, "n1"), (0, "n2"), (80, "n1")]
    assert run(given, faults=(NodeFault(50.0, "n1", 30.0),)).summary.evictions == {"node failure": 1}


def test_a_gang_that_loses_a_member_to_a_failed_node_starts_again_as_a_whole() -> None:
    given = workload(trace_job("g", seconds=100, pods=2, cpu=3), nodes=[sim_node("n1"), sim_node("n2")])
    lines = journal(given, faults=(NodeFault(50.0, "n2", 10.0),))
    assert sorted(round(at) for at, name, _ in lines if name.startswith("g-")) == [0, 0, 60, 60]


def test_queues_share_by_weight() -> None:
    jobs = [trace_job(f"{queue}-{i}", queue=queue, seconds=1000) for i in range(40) for queue in ("a", "b")]
    found = run(
        workload(*jobs, nodes=[sim_node(cpu=30)], queues=[SimQueue("a", weight=2), SimQueue("b")]),
        until=900.0,
    )
    shares = {queue.name: queue for queue in found.summary.queues}
    assert shares["a"].share == pytest.approx(2 / 3, abs=0.05)
    assert shares["a"].deserved == pytest.approx(2 / 3, abs=0.05)
    assert found.summary.jain == pytest.approx(1.0, abs=0.01)


def test_fractions_of_cards_share_them_one_by_one_with_deviceshare() -> None:
    """0.6 + 0.6 + 0.6 of a card fit in two cards as a sum, but not on the cards."""
    config = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: deviceshare
    arguments:
      deviceshare.VGPUEnable: true
"""
    jobs = [trace_job(f"j{i}", seconds=100, gpus=1, gpu_share=0.6) for i in range(3)]
    given = workload(*jobs, nodes=[sim_node(gpus=2, gpu_model="A100")])
    by_sum = [at for at, _ in ends(given).values()]
    by_card = [at for at, _ in ends(given, config, sharing=GpuSharing.VGPU).values()]
    assert sorted(map(round, by_sum)) == [100, 100, 100][: len(by_sum)]
    assert sorted(map(round, by_card)) == [100, 100, 200]


def test_models_of_cards_are_respected() -> None:
    given = workload(
        trace_job("a", gpus=1, gpu_models=("A100",)),
        nodes=[sim_node("t4", gpus=1, gpu_model="T4"), sim_node("a100", gpus=1, gpu_model="A100")],
    )
    assert [where for _, name, where in journal(given) if name == "a-0"] == ["a100"]


WORKLOADS = st.lists(
    st.tuples(
        st.floats(0, 100),
        st.floats(1, 200),
        st.integers(1, 4),
        st.integers(1, 3),
        st.sampled_from((0, 0, 10)),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(WORKLOADS, st.integers(0, 3))
def test_every_job_ends_exactly_once_and_no_node_is_overcommitted(
    entries: list[tuple[float, float, int, int, int]], seed: int
) -> None:
    jobs = sorted(
        (
            trace_job(f"j{i}", at, seconds, cpu=cpu, pods=pods, priority=priority)
            for i, (at, seconds, cpu, pods, priority) in enumerate(entries)
        ),
        key=lambda job: job.arrival,
    )
    given_workload = workload(*jobs, nodes=[sim_node("n1"), sim_node("n2", cpu=8)])
    found = _Checked(given_workload)
    config = Settings(parse(PREEMPTING, "test"), seed=seed, faults=(NodeFault(30.0, "n1", 20.0),))
    Simulation(given_workload, config, found).run()
    names = [name for _, name, how in found.lines if how in {result.value for result in Result}]
    assert sorted(names) == sorted(job.name for job in jobs)
    assert found._waiting == 0
    assert abs(found._held).max() < 1e-6
    assert abs(found._demand).max() < 1e-3


class _Checked(Journal):
    """Checks that no node has more pods than fit."""

    def cycled(self, snapshot: Snapshot, outcome: Outcome, now: float) -> None:
        assert (snapshot.used <= snapshot.allocatable + 0.1).all()
        super().cycled(snapshot, outcome, now)


def test_the_same_inputs_give_the_same_simulation() -> None:
    jobs = [trace_job(f"j{i}", i * 3.0, 40 + i % 7, cpu=1 + i % 3) for i in range(40)]
    given = workload(*jobs, nodes=[sim_node(f"n{i}") for i in range(3)])
    assert journal(given, seed=5) == journal(given, seed=5)


def test_finished_jobs_are_forgotten() -> None:
    """However many jobs have ended, only those that wait or run are in memory."""

    def stream() -> Iterator[TraceJob]:
        for i in range(600):
            yield trace_job(f"j{i}", i * 1.0, 5.0)

    given = workload(nodes=[sim_node(cpu=16)])
    simulation = Simulation(given, Settings(parse(shipped(), "test")), Recorder(given), stream())
    gc.collect()
    before = _alive()
    while simulation.step():
        if simulation.finished == 500:
            break
    gc.collect()
    assert _alive() - before < 60


def _alive() -> int:
    """Jobs and pods in memory, those of the scheduler included."""
    return sum(isinstance(found, LiveJob | LivePod | Task | Job | PodGroup) for found in gc.get_objects())


def test_rows_per_job_are_written_as_jobs_end(tmp_path: Path) -> None:
    given = workload(trace_job("a", seconds=100, cpu=4), trace_job("b", arrival=10, seconds=50, cpu=4))
    run_one("x", given, Settings(parse(shipped(), "test")), report=tmp_path)
    rows = list(csv.DictReader((tmp_path / "jobs-x.csv").read_text().splitlines()))
    assert [row["job"] for row in rows] == ["a", "b"]
    assert float(rows[1]["wait_s"]) == pytest.approx(90, abs=2 * SOON)
    assert float(rows[1]["bounded_slowdown"]) == pytest.approx(140 / 50, rel=0.02)


def test_an_interrupted_simulation_reports_what_it_has() -> None:
    given = workload(*(trace_job(f"j{i}", i * 10.0, 5.0) for i in range(1000)))

    def interrupt(name: str, jobs: int, now: float) -> None:
        raise KeyboardInterrupt

    found = run_one("x", given, Settings(parse(shipped(), "test")), progress=interrupt)
    assert found.summary.interrupted
    assert 0 < found.summary.results["completed"] < 1000
