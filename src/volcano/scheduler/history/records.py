"""Records of the ring buffer: one per cycle that decided something or changed a diagnosis."""

from collections.abc import Sequence

import msgspec

from volcano.model.decisions import Bind, Evict
from volcano.model.job import Job
from volcano.model.snapshot import Snapshot
from volcano.model.task import Shape
from volcano.scheduler.engine.diagnosis import Diagnosis
from volcano.scheduler.engine.placement.chosen_scores import ClassScores


class Record(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base of the records: short JSON with Kubernetes' spelling of names."""


class Placed(Record, frozen=True):
    """Pods of one job that were placed."""

    job: str
    pods: dict[str, str]  # pod → node


class Points(Record, frozen=True):
    """A node, its score, and the points of the plugins that gave any."""

    node: str
    score: float
    plugins: dict[str, float]


class Scores(Record, frozen=True):
    """Scores for identical pods when the first of them was placed: its node, and the best of the others."""

    pod: str  # "namespace/name"
    feasible: int  # nodes that could take it
    nodes: list[Points]
    # Pods that this holds for, by job; all that were placed of a job where none is named.
    jobs: dict[str, list[str]]

    def holds_for(self, job: str, pod: str) -> bool:
        names = self.jobs.get(job)
        return names is not None and (not names or pod in names)


class Evicted(Record, frozen=True):
    """A pod that was evicted, by which action, and the job that it makes room for."""

    pod: str  # "namespace/name"
    job: str
    node: str
    action: str
    queue: str = ""
    priority: int = 0
    beneficiary: str = ""  # job
    beneficiary_queue: str = ""
    beneficiary_priority: int = 0
    running: float = 0.0  # seconds since the pod started


class Waiting(Record, frozen=True):
    """Why a job began to wait, or waits for another reason than before."""

    job: str
    queue: str
    code: str
    message: str
    subject: str = ""
    since: float = 0.0


class Cycle(Record, frozen=True):
    """One cycle."""

    number: int
    at: float  # seconds since the epoch
    seconds: float = 0.0  # that it took
    nodes: int = 0
    jobs: int = 0
    waiting: int = 0  # jobs that wait at its end
    placed: list[Placed] = []
    evicted: list[Evicted] = []
    admitted: list[str] = []  # jobs
    diagnoses: list[Waiting] = []  # new and changed ones
    ended: list[str] = []  # jobs that waited before and do not wait any more
    errors: list[str] = []
    scores: list[Scores] = []  # one per kind of pod that was placed


def waiting(diagnosis: Diagnosis, job: Job | None) -> Waiting:
    queue = job.queue if job is not None else diagnosis.queue
    return Waiting(
        diagnosis.job, queue, str(diagnosis.code), diagnosis.message, diagnosis.subject, diagnosis.since
    )


def scores(found: Sequence[ClassScores], placed: Sequence[Bind], snapshot: Snapshot) -> list[Scores]:
    """Scores of the kinds of pods that were placed, with the pods that each holds for."""
    if not found:
        return []
    kinds: dict[tuple[Shape, str], dict[str, list[str]]] = {}
    shapes: dict[str, set[Shape]] = {}
    for decision in placed:
        job = snapshot.jobs.get(decision.job)
        task = job.tasks.get(decision.task) if job is not None else None
        if job is not None and task is not None:
            shapes.setdefault(decision.job, set()).add(task.shape)
            kinds.setdefault((task.shape, job.queue), {}).setdefault(decision.job, []).append(decision.name)
    result = []
    for each in found:
        jobs = kinds.get((each.task.shape, snapshot.jobs[each.task.job].queue))
        if jobs is not None:
            named = {job: [] if len(shapes[job]) == 1 else pods for job, pods in jobs.items()}
            result.append(Scores(each.task.key, each.feasible, [Points(*node) for node in each.nodes], named))
    return result


def evicted(decision: Evict, snapshot: Snapshot) -> Evicted:
    job, gains = snapshot.jobs.get(decision.job), snapshot.jobs.get(decision.on_behalf_of)
    task = job.tasks.get(decision.task) if job is not None else None
    started = task.started if task is not None else 0.0
    return Evicted(
        f"{decision.namespace}/{decision.name}",
        decision.job,
        decision.node,
        decision.reason,
        job.queue if job is not None else "",
        (task.priority if task is not None else job.priority) if job is not None else 0,
        decision.on_behalf_of,
        gains.queue if gains is not None else "",
        gains.priority if gains is not None else 0,
        snapshot.now - started if started else 0.0,
    )
