"""Simulated workloads with and without the plugin `reservation`: when each job starts."""

from collections.abc import Sequence
from typing import Any

from volcano.model.snapshot import Snapshot
from volcano.scheduler.engine.config import parse, shipped
from volcano.scheduler.engine.session import Outcome
from volcano.simulate.engine import Settings, Simulation
from volcano.simulate.jobs import LivePod
from volcano.simulate.results.recorder import Recorder
from volcano.simulate.workload import GIB, Attempt, Requests, SimNode, SimQueue, TraceJob, TraceTask, Workload

PLUGIN = "  - name: reservation\n"


def with_plugin(**arguments: Any) -> str:
    """The default configuration with the plugin in its first tier."""
    given = "".join(f"      {name}: {value}\n" for name, value in arguments.items())
    text = PLUGIN + (f"    arguments:\n{given}" if given else "")
    return shipped().replace("  - name: priority\n", f"{text}  - name: priority\n", 1)


class Starts(Recorder):
    """Keeps the start of every job, and the reservations of each cycle."""

    def __init__(self, given: Workload) -> None:
        super().__init__(given)
        self.at: dict[str, float] = {}
        self.promised: dict[str, list[tuple[float, float]]] = {}  # by job: time of the cycle, start

    def started(self, pod: LivePod, now: float) -> None:
        super().started(pod, now)
        job = pod.job
        if job.first_start is not None:
            self.at.setdefault(job.trace.name, job.first_start)

    def cycled(self, snapshot: Snapshot, outcome: Outcome, now: float) -> None:
        super().cycled(snapshot, outcome, now)
        for kept in outcome.memory.get("reservation", {}).get("jobs", ()):
            if kept["known"]:
                name = kept["job"].partition("/")[2]
                start = kept["start"] - (snapshot.now - now)
                self.promised.setdefault(name, []).append((now, start))


def job(
    name: str,
    arrival: float,
    seconds: float,
    *,
    pods: int = 1,
    cpu: float = 4.0,
    walltime: float | None = None,
    **more: Any,
) -> TraceJob:
    task = TraceTask(Requests(cpu=cpu, memory=GIB), pods)
    return TraceJob(name, arrival, (task,), (Attempt(seconds),), walltime=walltime, **more)


def starts(
    jobs: Sequence[TraceJob],
    config: str,
    *,
    nodes: int = 4,
    queues: tuple[SimQueue, ...] = (),
    until: float = 1e6,
) -> Starts:
    machines = tuple(SimNode(f"n{number}", 4.0, 64 * GIB) for number in range(nodes))
    given = Workload(sorted(jobs, key=lambda each: each.arrival), machines, queues).with_all_queues()
    found = Starts(given)
    Simulation(given, Settings(parse(config, "test"), until=until), found).run()
    return found
