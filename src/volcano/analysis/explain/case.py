"""Case: a state of a cluster, what the scheduler decides in it, and the hooks of its plugins, computed on demand."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from volcano.analysis.rerun.state import ClusterState
from volcano.kube.api import names
from volcano.kube.api.kinds import POD
from volcano.kube.client.protocol import Event, EventType
from volcano.model import resources
from volcano.model.job import Job
from volcano.model.resources import PODS, ResourceIndex, Vector
from volcano.model.snapshot import Snapshot
from volcano.model.task import Task
from volcano.scheduler.cycle import schedule
from volcano.scheduler.engine.config import Config
from volcano.scheduler.engine.diagnosis import Diagnosis
from volcano.scheduler.engine.session import Outcome, Session
from volcano.scheduler.engine.timings import Stopwatch

UNINTERESTING = ("ephemeral-storage", "attachable-volumes-", "hugepages-")
UID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")  # of the Job, in the name of its PodGroup


class Case:
    """What explanations are computed from."""

    def __init__(
        self,
        state: ClusterState,
        config: Config,
        schedulers: Sequence[str] = (names.SCHEDULER_NAME,),
        stopwatch: Stopwatch | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        """`schedulers` are the names under which the scheduler of the cluster places pods; with a stopwatch, it is
        known how long a cycle takes; `notes` say what may differ in the cluster."""
        self.state = state
        self.config = config
        self.notes = notes
        self._schedulers = schedulers
        self._stopwatch = stopwatch

    @cached_property
    def snapshot(self) -> Snapshot:
        return self.state.snapshot()

    @cached_property
    def outcome(self) -> Outcome:
        """What the next cycle decides."""
        return schedule(self.snapshot, self.config, self._stopwatch)

    @property
    def cycle_seconds(self) -> float:
        """How long a cycle takes here; 0 without a stopwatch."""
        return self.outcome.timings.get(("cycle",), 0.0)

    @cached_property
    def session(self) -> Session:
        """A session before any action: the hooks of the plugins on the cluster as it is."""
        return Session(self.snapshot, self.config)

    def with_pods_to_come(self, job: str) -> "Case":
        """The case in which the pods exist that are created once the job is admitted; this one if there are none."""
        pods = self.state.pods_to_come.get(job, ())
        if not pods:
            return self
        state = self.state.with_events([Event(EventType.ADDED, POD, task) for task in pods], {job: ()})
        return Case(state, self.config, self._schedulers, notes=self.notes)

    def serves(self, scheduler: str) -> bool:
        """Whether the pods of this scheduler are placed here."""
        return scheduler in self._schedulers

    @property
    def diagnoses(self) -> Mapping[str, Diagnosis]:
        return self.outcome.diagnoses

    @property
    def index(self) -> ResourceIndex:
        return self.snapshot.resources

    def find_job(self, namespace: str, name: str) -> str | None:
        """Uid of the job with this name: that of its PodGroup, of the Job it belongs to, or of one of its pods'."""
        exact = f"{namespace}/{name}"
        if exact in self.snapshot.jobs or exact in self.snapshot.orphans:
            return exact
        for uid in (*self.snapshot.jobs, *self.snapshot.orphans):
            if shown_name(uid) == exact:
                return uid
        for uid, job in self.snapshot.jobs.items():
            first = next(iter(job.tasks.values()), None)
            if first is None or first.namespace != namespace:
                continue
            if name in (first.annotations.get(names.JOB_NAME), first.labels.get(names.JOB_NAME)):
                return uid
        return None

    def find_pod(self, key: str) -> Task | None:
        """The pod `namespace/name`, also one of another scheduler if it has a node."""
        for tasks in (
            *(job.tasks for job in self.snapshot.jobs.values()),
            *self.snapshot.tasks_on,
            *({task.uid: task for task in each.tasks} for each in self.snapshot.orphans.values()),
        ):
            for task in tasks.values():
                if task.key == key:
                    return task
        return None

    def names_in(self, namespace: str) -> Iterator[str]:
        """Names of the jobs in a namespace, for suggestions."""
        for uid in (*self.snapshot.jobs, *self.snapshot.orphans):
            if uid.startswith(f"{namespace}/"):
                yield shown_name(uid).partition("/")[2]

    def amounts(self, vector: Vector) -> dict[str, str]:
        """A resource list for people and programs, without the count of pods."""
        found = resources.manifest(self.index, vector)
        return {name: text for name, text in found.items() if name != "pods"}


def without_uninteresting(amounts: Mapping[str, str]) -> dict[str, str]:
    """Resources of nodes without those that every node has and few pods request."""
    return {name: text for name, text in amounts.items() if not name.startswith(UNINTERESTING)}


def shown_name(text: str) -> str:
    """`team/train` for the PodGroup `team/train-<uid of the Job>`, also inside a sentence."""
    return UID.sub("", text)


def counted(count: int, noun: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def requests(job: Job) -> Vector:
    """Requests of the pods that exist, or what the PodGroup declares before they do."""
    return job.requested if job.requested.any() else job.min_resources


def columns_of(vector: Vector) -> list[int]:
    """Columns of the resources in a vector, without the count of pods."""
    return [column for column in (vector > 0).nonzero()[0].tolist() if column != PODS]
