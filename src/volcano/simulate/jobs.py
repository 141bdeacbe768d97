"""Jobs during a simulation: what has arrived and not finished yet."""

from enum import Enum

from volcano.model.job import PodGroup
from volcano.model.task import Task
from volcano.simulate.workload import Attempt, TraceJob, TraceTask


class Result(Enum):
    """How a job ended."""

    COMPLETED = "completed"
    FAILED = "failed"  # as in the trace
    WITHDRAWN = "withdrawn"  # it had not started in time
    UNPLACED = "unplaced"  # it waits at the end of the simulation
    WAITING = "waiting"  # it waits when the simulation is interrupted
    RUNNING = "running"  # it runs when the simulation is interrupted


class LivePod:
    """One pod. `serial` changes whenever it is created again."""

    __slots__ = ("done", "job", "node", "number", "pending", "serial", "spec", "started", "task")

    def __init__(self, job: "LiveJob", spec: TraceTask, number: int) -> None:
        self.job = job
        self.spec = spec
        self.number = number
        self.serial = 0
        self.task: Task  # as in the cluster cache; set when it is created
        self.node = ""
        self.started = 0.0
        self.done = False
        self.pending = False  # created and not placed yet

    @property
    def running(self) -> bool:
        return bool(self.node) and not self.done


class LiveJob:
    """A job that has arrived."""

    __slots__ = (
        "attempt", "evictions", "first_start", "group", "lost", "pods", "restarts", "running", "started", "trace",
    )  # fmt: skip

    def __init__(self, trace: TraceJob) -> None:
        self.trace = trace
        self.group: PodGroup
        self.pods: list[LivePod] = []
        self.attempt = 0
        self.running = 0  # pods on nodes or done
        self.first_start: float | None = None  # when its minimum of pods ran for the first time
        self.started: float | None = None  # the same for the present attempt
        self.evictions = 0
        self.restarts = 0
        self.lost = 0.0  # pod seconds that were in vain

    @property
    def run(self) -> Attempt:
        return self.trace.attempts[self.attempt]

    @property
    def done(self) -> bool:
        return all(pod.done for pod in self.pods)
