"""Run history: how long finished jobs ran, by queue, user and shape, to expect how long others will run."""

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from volcano.base.clock import parse_timestamp
from volcano.kube.api.errors import Forbidden
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import TERMINAL_PHASES, Manifest
from volcano.kube.api.names import USER
from volcano.kube.client.protocol import Client, Query
from volcano.model.job import Job
from volcano.model.resources import Vector
from volcano.model.status import COMPLETED
from volcano.model.task import Task

FEWEST = 3  # finished jobs of one queue, user and shape that are enough to expect a run time
MOST = 200  # kept of each; the last ones

Shape = tuple[Any, ...]


class RunKey(NamedTuple):
    """What jobs have in common that run about equally long."""

    queue: str
    user: str
    shape: Shape  # number of pods and requests of a pod, the largest first


class Arrival(NamedTuple):
    """A job that was created."""

    created: float
    key: RunKey
    walltime: float | None
    priority: int
    has_minimum: bool = True  # it is admitted only while its minResources are left


@dataclass(slots=True)
class RunHistory:
    """Run times in seconds, and the shares of their walltime that jobs used."""

    runs: dict[RunKey, list[float]] = field(default_factory=dict)
    shares: dict[str, list[float]] = field(default_factory=dict)  # by user; "" for all
    arrivals: list["Arrival"] = field(default_factory=list)  # jobs that were created lately, in order

    def add(self, key: RunKey, seconds: float, walltime: float | None = None) -> None:
        """Adds a finished job."""
        if seconds <= 0:
            return
        _append(self.runs.setdefault(key, []), seconds)
        if walltime:
            share = min(seconds / walltime, 1.0)
            for user in dict.fromkeys(("", key.user)):
                _append(self.shares.setdefault(user, []), share)

    def arrived(self, job: Job, tasks: Iterable[Task]) -> None:
        """Adds a job of a snapshot that was created."""
        has_minimum = job.group.min_resources is not None
        key = key_of_job(job, tasks)
        self.add_arrival(Arrival(job.created, key, job.group.walltime, job.priority, has_minimum))

    def add_arrival(self, arrival: Arrival) -> None:
        """Adds a job that was created."""
        bisect.insort(self.arrivals, arrival, key=lambda each: each.created)
        del self.arrivals[:-MOST]

    def run_times(self, key: RunKey) -> Sequence[float]:
        """Run times of finished jobs like this; empty when there are too few."""
        found = self.runs.get(key, ())
        return found if len(found) >= FEWEST else ()

    def all_run_times(self) -> list[float]:
        """Run times of finished jobs of all kinds."""
        return [seconds for found in self.runs.values() for seconds in found]

    def walltime_shares(self, user: str) -> Sequence[float]:
        """Shares of their walltime that jobs of a user used, or those of all users; empty when there are too few."""
        for name in (user, ""):
            if len(found := self.shares.get(name, ())) >= FEWEST:
                return found
        return ()


def _append(values: list[float], value: float) -> None:
    values.append(value)
    if len(values) > MOST:
        del values[0]


def key_of_job(job: Job, tasks: Iterable[Task]) -> RunKey:
    """The key of a job of a snapshot with these pods."""
    user = job.group.annotations.get(USER, "")
    return RunKey(job.queue, user, shape_of(task.request for task in tasks))


def shape_of(requests: Iterable[Vector]) -> Shape:
    """Number and requests of pods."""
    counted: dict[tuple[float, ...], int] = {}
    for vector in requests:
        request = tuple(round(amount, 3) for amount in vector.tolist())
        counted[request] = counted.get(request, 0) + 1
    # Without zeros at the end, a shape does not depend on how many resources the cluster knows.
    return tuple(sorted(((count, *_trimmed(request)) for request, count in counted.items()), reverse=True))


def _trimmed(part: tuple[float, ...]) -> tuple[float, ...]:
    found = list(part)
    while found and found[-1] == 0:
        found.pop()
    return tuple(found)


def history_of_jobs(
    jobs: Iterable[Job], ended: Mapping[str, float], history: RunHistory | None = None
) -> RunHistory:
    """History from the jobs of a snapshot: all that were created, and the run times of those whose pods have all ended.
    `ended` is when each pod ended, by uid. They are added to the history of earlier jobs, if one is given."""
    history = history or RunHistory()
    for job in jobs:
        if job.tasks:
            history.arrived(job, job.tasks.values())
        tasks = [task for status in COMPLETED for task in job.by_status.get(status, ())]
        if not tasks or len(tasks) < len(job.tasks):
            continue
        starts = [task.started for task in tasks if task.started]
        ends = [ended[task.uid] for task in tasks if task.uid in ended]
        if starts and len(ends) == len(tasks):
            history.add(key_of_job(job, tasks), max(ends) - min(starts), job.group.walltime)
    return history


def pod_ends(pods: Iterable[Manifest]) -> dict[str, float]:
    """When the containers of each finished pod ended, by the uid of the pod."""
    found = {}
    for pod in pods:
        status = pod.get("status") or {}
        if status.get("phase") not in TERMINAL_PHASES:
            continue
        stamps = [
            terminated["finishedAt"]
            for container in status.get("containerStatuses") or ()
            if (terminated := (container.get("state") or {}).get("terminated"))
            and terminated.get("finishedAt")
        ]
        if stamps:
            found[pod["metadata"]["uid"]] = max(map(parse_timestamp, stamps))
    return found


async def read_history(client: Client, jobs: Iterable[Job], earlier: RunHistory | None = None) -> RunHistory:
    """History from the finished pods of a cluster and the jobs of its snapshot, added to that of earlier jobs."""
    ended: dict[str, float] = {}
    for phase in TERMINAL_PHASES:
        query = Query(fields=f"status.phase={phase}")
        try:
            ended |= pod_ends((await client.list(POD, query)).items)
        except Forbidden:
            break
    return history_of_jobs(jobs, ended, earlier)
