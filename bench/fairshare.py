"""Cost of the plugin `fairshare`: processor time of a cycle with and without it, alternately."""

import time
from collections.abc import Iterator

import yaml

from bench.case import Case
from tests.builders import START, JobManifests, job, node, queue
from tests.scenario import cluster_of
from volcano.model.cluster import Cluster
from volcano.scheduler.cycle import schedule
from volcano.scheduler.engine.config import Config, parse, shipped

BENCH = "fairshare"
ROUNDS = 3
USERS = 1_000


def cases(scale: float = 1.0) -> Iterator[Case]:
    """Jobs that wait, jobs that are placed, and jobs that run, of many users each."""
    jobs, nodes = max(int(10_000 * scale), 100), max(int(1_000 * scale), 10)
    waiting = cluster_of([node("small", cpu=1)], [_job(i, cpu=2) for i in range(jobs)], [queue("default")])
    yield _compared(f"{jobs} waiting jobs of {USERS} users", waiting)
    machines = [node(f"n{i}", cpu=64, memory="256Gi") for i in range(nodes)]
    placed = cluster_of(machines, [_job(i, cpu=1) for i in range(jobs)], [queue("default")])
    yield _compared(f"{jobs} jobs of {USERS} users placed on {nodes} nodes", placed)
    running = [_job(i, cpu=1, on=f"n{i % nodes}") for i in range(jobs)]
    yield _compared(
        f"idle cycle, {jobs} running jobs of {USERS} users", cluster_of(machines, running, [queue("default")])
    )


def _job(number: int, cpu: int, on: str = "") -> JobManifests:
    user = {"volcano.sh/user": f"user-{number % USERS}"}
    return job(f"j{number}", 1, cpu=cpu, on=on or (), age=number, group={"annotations": user})


def _compared(name: str, cluster: Cluster) -> Case:
    configs = {"without": _config(), "with": _config("fairshare")}
    best = dict.fromkeys(configs, float("inf"))
    memory = {key: schedule(cluster.snapshot(START, 1), config).memory for key, config in configs.items()}
    for turn in range(ROUNDS):
        for key, config in configs.items():
            snapshot = cluster.snapshot(START + 1 + turn, 1, memory[key])
            began = time.process_time()
            schedule(snapshot, config)
            best[key] = min(best[key], time.process_time() - began)
    return Case(
        BENCH,
        name,
        {
            "milliseconds without": best["without"] * 1000,
            "milliseconds with": best["with"] * 1000,
            "milliseconds more": (best["with"] - best["without"]) * 1000,
        },
        {},
    )


def _config(*first: str) -> Config:
    document = yaml.safe_load(shipped())
    document["tiers"][0]["plugins"] += [{"name": name} for name in first]
    return parse(yaml.safe_dump(document))
