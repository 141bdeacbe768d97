"""Job: a PodGroup with its tasks, their counts and totals, as of one snapshot."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from volcano.kube.api.names import USER
from volcano.kube.api.selectors import LabelSelector
from volcano.model.resources import ResourceList, Vector
from volcano.model.status import Status
from volcano.model.task import Task


@dataclass(frozen=True, slots=True)
class NetworkTopology:
    """Network topology that the tasks of a job require or prefer."""

    mode: str = "hard"
    highest_tier: int | None = None
    highest_tier_name: str = ""


@dataclass(frozen=True, slots=True)
class SubGroupPolicy:
    """Rule that divides the tasks of a job into sub-groups."""

    name: str
    size: int = 1
    min_groups: int = 0
    selector: LabelSelector | None = None
    match_keys: tuple[str, ...] = ()
    topology: NetworkTopology | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a PodGroup."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    transition_id: str = ""
    last_transition: str = ""


@dataclass(frozen=True, slots=True)
class PodGroup:
    """A PodGroup object, parsed."""

    namespace: str
    name: str
    object_uid: str = ""
    resource_version: str = ""
    queue: str = "default"
    min_member: int = 0
    min_task_member: Mapping[str, int] = field(default_factory=dict)
    min_resources: ResourceList | None = None  # None when not set
    # The same as written, all names included, for quotas; None when not set.
    min_resources_text: Mapping[str, str] | None = None
    priority_class: str = ""
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    counts: tuple[int, int, int] = (0, 0, 0)  # status: running, succeeded, failed
    created: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    preemptable: bool | None = None  # None when neither annotation nor label is set
    revocable_zone: str = ""
    sla_waiting: float | None = None  # seconds
    walltime: float | None = None  # seconds that its pods run at most; None when not known
    reservation_timeout: float | None = None  # seconds for which pods without a node hold room of the queue
    min_available_budget: str = ""  # jdb-min-available: a number or a percentage
    max_unavailable_budget: str = ""
    topology: NetworkTopology | None = None
    sub_groups: tuple[SubGroupPolicy, ...] = ()
    implicit: bool = False  # a pod scheduled without a PodGroup: a gang of one, never written back
    malformed: str = ""


@dataclass(frozen=True, slots=True)
class Orphans:
    """Pending pods that cannot be scheduled because their PodGroup or its queue does not exist."""

    message: str
    tasks: tuple[Task, ...]
    group: PodGroup | None = None  # None when it does not exist


@dataclass(frozen=True, slots=True, eq=False)
class SubJob:
    """Sub-group of a job, scheduled as a unit. A job without sub-group policies has exactly one."""

    uid: str  # the job's uid for the default sub-job, else "<job>/<policy>-<values>"
    job: str
    policy: str  # "" for the default sub-job
    min_available: int
    tasks: Mapping[str, Task]
    by_status: Mapping[Status, tuple[Task, ...]]
    priority: int = 0  # highest of its tasks
    index: int = -1  # the first value it was matched by, when that is a number
    topology: NetworkTopology | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A gang: its PodGroup, its tasks, and their sums. `uid` is "<namespace>/<name>"."""

    uid: str
    group: PodGroup
    priority: int
    tasks: Mapping[str, Task]  # by uid
    by_status: Mapping[Status, tuple[Task, ...]]
    roles: Mapping[str, Mapping[Status, int]]  # number of tasks by role and status
    best_effort_pending: Mapping[str, int]  # pending best-effort tasks by role, gated ones included
    allocated: Vector  # requests of tasks that hold resources
    requested: Vector  # … and of pending ones
    total: Vector  # … and of all tasks
    gated: Vector  # requests of tasks with gates other than the queue-admission gate
    min_resources: Vector  # zeros when not set
    inqueue: Vector  # resources it was admitted with and does not hold yet
    elastic: Vector  # resources it holds beyond its min_resources
    sub_jobs: Mapping[str, SubJob] = field(default_factory=dict)  # only when it has sub-group policies
    sub_job_of: Mapping[str, str] = field(default_factory=dict)  # task uid → sub-job uid

    @property
    def namespace(self) -> str:
        return self.group.namespace

    @property
    def name(self) -> str:
        return self.group.name

    @property
    def queue(self) -> str:
        return self.group.queue

    @property
    def user(self) -> str:
        """Whose usage the job's is; empty when unknown."""
        return self.group.annotations.get(USER, "")

    @property
    def min_available(self) -> int:
        return self.group.min_member

    @property
    def created(self) -> float:
        return self.group.created

    @property
    def phase(self) -> str:
        """Phase at the start of the cycle; the ledger has the current one."""
        return self.group.phase

    @property
    def pending_phase(self) -> bool:
        """Whether the job was not admitted at the start of the cycle."""
        return self.group.phase in ("", "Pending")

    @property
    def preemptable(self) -> bool:
        """Whether the PodGroup is marked preemptable; unset means no (for tasks it means yes)."""
        return bool(self.group.preemptable)

    def count(self, status: Status) -> int:
        """Number of tasks with this status at the start of the cycle."""
        return len(self.by_status.get(status, ()))

    @property
    def condition(self) -> Mapping[str, Any]:
        return {condition.type: condition for condition in self.group.conditions}

    def __repr__(self) -> str:
        return f"Job({self.uid} {self.phase or 'Pending'} {len(self.tasks)} tasks, min {self.min_available})"
