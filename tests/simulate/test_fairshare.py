"""fairshare over virtual time: a burst does not delay others, and usage approaches the shares."""

import random
from collections import Counter
from typing import Any

import pytest

from tests.simulate.traces import sim_node, trace_job, workload
from volcano.model.snapshot import Snapshot
from volcano.scheduler.engine.config import parse
from volcano.scheduler.engine.session import Outcome
from volcano.simulate.engine import Settings, Simulation
from volcano.simulate.jobs import LiveJob, LivePod, Result
from volcano.simulate.workload import SimQueue, TraceJob, Workload

HOUR, DAY = 3600.0, 86400.0
ALONE = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: gang}, {name: fairshare}, {name: predicates}]
"""
# As shipped, with fairshare before the plugins that compare what jobs and queues hold now.
WITH_PROPORTION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: fairshare}]
- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
WITHOUT = ALONE.replace("{name: fairshare}, ", "")


class Observed:
    """Order in which jobs started, and the pod seconds of each queue and user."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.seconds: Counter[tuple[str, str]] = Counter()
        self.memory: Any = None
        self._running: dict[str, LivePod] = {}

    def arrived(self, job: LiveJob, now: float) -> None:
        pass

    def started(self, pod: LivePod, now: float) -> None:
        self.order.append(pod.job.trace.name)
        self._running[pod.task.uid] = pod

    def stopped(self, pod: LivePod, now: float, *, lost: bool) -> None:
        self._count(pod, now)
        del self._running[pod.task.uid]

    def requeued(self, pod: LivePod, now: float) -> None:
        pass

    def finished(self, job: LiveJob, now: float, result: Result, reason: str) -> None:
        pass

    def evicted(self, pod: LivePod, now: float, reason: str) -> None:
        pass

    def cycled(self, snapshot: Snapshot, outcome: Outcome, now: float) -> None:
        self.memory = outcome.memory

    def end(self, now: float) -> None:
        for pod in self._running.values():
            self._count(pod, now)

    def _count(self, pod: LivePod, now: float) -> None:
        trace = pod.job.trace
        cpu = pod.spec.requests.cpu
        self.seconds[trace.queue, trace.user] += round((now - pod.started) * cpu)

    def shares(self, queue: str | None = None) -> dict[str, float]:
        """Part of the usage by queue, or by user of one queue."""
        sums: Counter[str] = Counter()
        for (name, user), seconds in self.seconds.items():
            if queue is None:
                sums[name] += seconds
            elif queue == name:
                sums[user] += seconds
        return {name: seconds / sums.total() for name, seconds in sums.items()}


def simulate(given: Workload, config: str, until: float = float("inf"), period: float = 0.0) -> Observed:
    observed = Observed()
    simulation = Simulation(given, Settings(parse(config, "test"), until=until, period=period), observed)
    while simulation.step():
        pass
    observed.end(simulation.now)
    return observed


@pytest.mark.parametrize("config", [ALONE, WITH_PROPORTION], ids=["alone", "with proportion"])
def test_after_a_burst_of_one_user_the_next_job_of_another_starts_first(config: str) -> None:
    burst = [trace_job(f"burst-{i}", arrival=0, seconds=600, user="alice") for i in range(1000)]
    given = workload(*burst, trace_job("next", arrival=700, seconds=600, user="bob"), nodes=[sim_node(cpu=8)])
    order = simulate(given, config, until=1250).order
    assert order.index("next") == 16  # after the two rounds of eight that started before it was created


def test_without_the_plugin_it_waits_for_the_whole_burst() -> None:
    burst = [trace_job(f"burst-{i}", arrival=0, seconds=600, user="alice") for i in range(40)]
    given = workload(*burst, trace_job("next", arrival=900, seconds=600, user="bob"), nodes=[sim_node(cpu=8)])
    assert simulate(given, WITHOUT).order[-1] == "next"


def test_usage_counts_also_while_no_job_waits() -> None:
    """The first user's job ends long before the next ones are created: idle time is not charged."""
    given = workload(
        trace_job("short", arrival=0, seconds=100, user="alice", cpu=4),
        trace_job("long", arrival=200, seconds=1000, user="bob", cpu=4),
        trace_job("other", arrival=9000, seconds=1, user="bob"),
    )
    memory = simulate(given, ALONE).memory["fairshare"]
    used = {user: row[0] for (_, user), row in zip(memory["accounts"], memory["used"], strict=True)}
    decayed = 2 ** (-9000 / (7 * DAY))
    assert used["alice"] == pytest.approx(4000 * 100 * decayed, rel=0.02)
    assert used["bob"] == pytest.approx(4000 * 1000 * decayed, rel=0.02)


CORES = 8
# By queue (weight) and user: how many times its share each one asks for, at least a little more than once.
DEMAND = {
    "research": (3, {"alice": 1.2, "bob": 1.3}),
    "product": (1, {"carol": 1.2, "dave": 1.8}),
}


def week(seed: int) -> Workload:
    """A cluster on which everyone asks for more than the share, some for much more, at random times."""
    rng = random.Random(seed)
    jobs: list[TraceJob] = []
    for queue, (weight, users) in DEMAND.items():
        for user, times in users.items():
            left = times * CORES * 7 * DAY * weight / 4 / len(users)
            while left > 0:
                seconds, name = rng.uniform(1, 3) * HOUR, f"{queue}-{user}-{len(jobs)}"
                arrival = rng.uniform(0, 6.5 * DAY)
                jobs.append(trace_job(name, arrival, seconds, queue=queue, user=user))
                left -= seconds
    return workload(
        *sorted(jobs, key=lambda job: job.arrival),
        nodes=[sim_node(f"n{i}", cpu=4) for i in range(CORES // 4)],
        queues=[SimQueue("root"), *(SimQueue(name, weight) for name, (weight, _) in DEMAND.items())],
    )


@pytest.mark.slow
@pytest.mark.parametrize("config", [ALONE, WITH_PROPORTION], ids=["alone", "with proportion"])
@pytest.mark.parametrize("seed", [1, 2])
def test_over_a_week_usage_approaches_the_shares_within_two_percent(config: str, seed: int) -> None:
    observed = simulate(week(seed), config, until=7 * DAY, period=1800)
    assert observed.shares() == pytest.approx({"research": 0.75, "product": 0.25}, abs=0.02)
    assert observed.shares("research") == pytest.approx({"alice": 0.5, "bob": 0.5}, abs=0.02)
    assert observed.shares("product") == pytest.approx({"carol": 0.5, "dave": 0.5}, abs=0.02)


@pytest.mark.slow
def test_over_a_week_without_the_plugin_usage_follows_the_demand() -> None:
    """The workload of the test above does not give everyone the share by itself."""
    assert simulate(week(1), WITHOUT, until=7 * DAY, period=1800).shares("product")["dave"] > 0.55
