"""Workloads: the jobs of a trace and the nodes and queues they run on, whatever format they were read from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from volcano.model.node import Node
from volcano.model.task import Task

GIB = 1024.0**3
MIB = 1024.0**2


class TraceError(Exception):
    """An input that cannot be read: file, line where known, what is wrong and what would be right."""

    def __init__(self, where: Path | str, message: str, line: int = 0) -> None:
        super().__init__(f"{where}:{line}: {message}" if line else f"{where}: {message}")


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests of one pod; pods with equal ones are placed alike."""

    cpu: float = 0.0  # cores
    memory: float = 0.0  # bytes
    gpus: int = 0
    gpu_share: float = 1.0  # of each card; below 1 only with one card
    gpu_models: tuple[str, ...] = ()  # one of these; any if empty
    others: tuple[tuple[str, str], ...] = ()  # further resources: name and quantity
    node_selector: tuple[tuple[str, str], ...] = ()

    @property
    def gpu(self) -> float:
        """Number of cards, fractions included."""
        return self.gpus * self.gpu_share


@dataclass(frozen=True, slots=True)
class TraceTask:
    """Equal pods of a job."""

    requests: Requests
    replicas: int = 1
    role: str = ""
    usage: float = 1.0  # share of the requests that is used, where the trace says
    template: Task | None = None  # a parsed pod to copy, of a cluster or a snapshot; it wins over `requests`
    nodes: tuple[str, ...] = ()  # where its pods run already at the start


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a job: its length in seconds, and whether it failed."""

    seconds: float
    failed: bool = False


@dataclass(frozen=True, slots=True)
class TraceJob:
    """A job of a trace. It runs through its attempts until one succeeds or all have failed."""

    name: str
    arrival: float  # seconds since the start of the trace
    tasks: tuple[TraceTask, ...]
    attempts: tuple[Attempt, ...]
    queue: str = "default"
    user: str = ""
    priority: int = 0
    min_available: int | None = None  # pods that must start together; all of them when None
    longest_wait: float | None = None  # seconds after which it is withdrawn if it has not started
    preemptable: bool = True
    walltime: float | None = None  # seconds that it runs at most, as its user says

    @property
    def pods(self) -> int:
        return sum(task.replicas for task in self.tasks)

    @property
    def minimum(self) -> int:
        return self.pods if self.min_available is None else self.min_available


@dataclass(frozen=True, slots=True)
class SimNode:
    """A node of the simulated cluster."""

    name: str
    cpu: float  # cores
    memory: float  # bytes
    gpus: int = 0
    gpu_model: str = ""
    pods: int = 1000
    labels: Mapping[str, str] = field(default_factory=dict)
    others: tuple[tuple[str, str], ...] = ()
    template: Node | None = (
        None  # a parsed node to copy, of a cluster or a snapshot; it wins over the amounts
    )


@dataclass(frozen=True, slots=True)
class SimQueue:
    """A queue: weight, and limits as quantities by resource name."""

    name: str
    weight: int = 1
    parent: str = ""
    priority: int = 0
    reclaimable: bool = True
    capability: Mapping[str, str] = field(default_factory=dict)
    deserved: Mapping[str, str] = field(default_factory=dict)
    guarantee: Mapping[str, str] = field(default_factory=dict)
    dequeue_strategy: str = ""  # fifo or traverse; the default when empty


@dataclass(frozen=True, slots=True)
class Workload:
    """Everything that one simulation is about. Jobs are in order of arrival."""

    jobs: Sequence[TraceJob]
    nodes: tuple[SimNode, ...] = ()
    queues: tuple[SimQueue, ...] = ()
    base: bytes | None = None  # a saved snapshot: its budgets, quotas, volumes and so on exist at the start
    notes: tuple[str, ...] = ()  # what was left out or assumed while reading

    def with_all_queues(self) -> "Workload":
        """The same with every queue that a job names; `default` always exists."""
        known = {queue.name for queue in self.queues}
        named = dict.fromkeys(["default", *(job.queue for job in self.jobs)])
        missing = tuple(SimQueue(name) for name in named if name not in known)
        return replace(self, queues=self.queues + missing) if missing else self


def by_arrival(jobs: list[TraceJob]) -> list[TraceJob]:
    """Jobs in order of arrival, the first one at 0; jobs that arrive together keep their order."""
    if not jobs:
        return jobs
    first = min(job.arrival for job in jobs)
    moved = jobs if first == 0 else [replace(job, arrival=job.arrival - first) for job in jobs]
    return sorted(moved, key=lambda job: job.arrival)
