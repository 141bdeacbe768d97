"""Small workloads for tests of the simulator."""

from typing import Any

from volcano.scheduler.engine.config import parse, shipped
from volcano.simulate.engine import Settings
from volcano.simulate.runner import Run, run_one
from volcano.simulate.workload import GIB, Attempt, Requests, SimNode, SimQueue, TraceJob, TraceTask, Workload

PREEMPTING = shipped("volcano-scheduler-preempt.conf")


def sim_node(name: str = "n1", cpu: float = 4.0, **more: Any) -> SimNode:
    return SimNode(name, cpu, 64 * GIB, **more)


def trace_job(
    name: str, arrival: float = 0.0, seconds: float = 60.0, *, cpu: float = 1.0, pods: int = 1, **more: Any
) -> TraceJob:
    gpus = {key: more.pop(key) for key in ("gpus", "gpu_share", "gpu_models") if key in more}
    attempts = more.pop("attempts", (Attempt(seconds),))
    return TraceJob(
        name, arrival, (TraceTask(Requests(cpu=cpu, memory=GIB, **gpus), pods),), attempts, **more
    )


def workload(
    *jobs: TraceJob, nodes: list[SimNode] | None = None, queues: list[SimQueue] | None = None
) -> Workload:
    found = Workload(list(jobs), tuple(nodes or [sim_node()]), tuple(queues or ()))
    return found.with_all_queues()


def run(given: Workload, config: str | None = None, **settings: Any) -> Run:
    """Simulates a workload to its end."""
    return run_one("test", given, Settings(parse(config or shipped(), "test"), **settings))
