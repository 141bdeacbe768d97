"""Explanations as values: what is known about a job, pod, queue, node or cluster, and where that comes from.

Documents are rendered from them (`volcano.services.document`): a field that has its default is omitted, `INLINE` ones
are part of the document around them, and fields named in `FIRST` begin it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import msgspec

from volcano.model.resources import STEP, shown
from volcano.scheduler.engine import diagnosis as engine
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.history.queries import Entry
from volcano.scheduler.history.records import Evicted, Waiting

Quantities: TypeAlias = Mapping[str, str]  # by resource, as manifests have them
INLINE: Mapping[str, Any] = {"inline": True}
UNLIMITED = 1e30


# -- parts -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Amount:
    """One resource of a diagnosis or step."""

    resource: str
    need: str
    have: str
    enough: bool
    limit: str = ""  # the most that could be free; "" when not known

    @classmethod
    def of(cls, amount: engine.Amount) -> "Amount":
        limit = amount.limit
        return cls(
            amount.resource,
            shown(amount.resource, amount.need),
            shown(amount.resource, max(amount.have, 0.0)),
            amount.missing < STEP,
            "" if limit is None or limit >= UNLIMITED else shown(amount.resource, limit),
        )

    def sentence(self) -> str:
        """`cpu: needs 8, has 4 of 16`."""
        most = f" of {self.limit}" if self.limit else ""
        return f"{self.resource}: needs {self.need}, has {self.have}{most}"


@dataclass(frozen=True, slots=True)
class NodeCounts:
    """Nodes by reason and by cause of a diagnosis."""

    total: int
    reasons: Mapping[str, int]
    causes: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Why a job waits; subject, amounts and nodes are known to the scheduler only, not from a condition."""

    code: str
    class_: str  # of the code; "" for a code of another scheduler
    subject: str = ""
    message: str
    since: float  # seconds since the epoch
    amounts: tuple[Amount, ...] | None = None
    nodes: NodeCounts | None = None
    plugin: str = ""

    @classmethod
    def of(cls, found: engine.Diagnosis) -> "Diagnosis":
        return cls(
            code=str(found.code),
            class_=str(found.diagnosis_class),
            subject=found.subject,
            message=found.message,
            since=found.since,
            amounts=tuple(map(Amount.of, found.amounts)),
            nodes=NodeCounts(
                found.nodes, dict(found.reasons), {str(code): count for code, count in found.causes.items()}
            ),
            plugin=found.plugin,
        )

    @property
    def title(self) -> str:
        """`InsufficientResources (CAPACITY)`."""
        return f"{self.code} ({self.class_})" if self.class_ else self.code


class RecordedDiagnosis(Waiting, frozen=True):
    """Why a job waited, by the record of cycles."""

    class_: str = msgspec.field(name="class", default="")

    @classmethod
    def of(cls, found: Waiting) -> "RecordedDiagnosis":
        return cls(**msgspec.structs.asdict(found), class_=str(Code(found.code).diagnosis_class))

    @property
    def title(self) -> str:
        return f"{self.code} ({self.class_})"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a waiting job."""

    step: str
    ok: bool | None  # None: it does not apply
    text: str
    amounts: tuple[Amount, ...]


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job in a list."""

    job: str
    user: str
    pods: int
    requests: Quantities
    priority: int
    code: str  # "" for a job that does not wait


@dataclass(frozen=True, slots=True)
class Position:
    """Place of a waiting job in its queue, the jobs right ahead of it, and how many more there are."""

    place: int
    of: int
    ahead: tuple[JobLine, ...]
    more: int
    pods_ahead: int


@dataclass(frozen=True, slots=True)
class PodCounts:
    minimum: int  # that start together
    total: int
    by_status: Mapping[str, int]

    def sentence(self) -> str:
        """`4 pods, at least 2 together`."""
        count = self.total or self.minimum
        return f"{count} {'pod' if count == 1 else 'pods'}, at least {self.minimum} together"


@dataclass(frozen=True, slots=True)
class VerifiedChange:
    """A change that would start the job now, by a re-run of the scheduler."""

    change: str
    victims: tuple[str, ...]  # pods
    cost: float


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """The interval in which a job is expected to start, as times and as seconds from now."""

    earliest: str
    latest: str
    in_seconds: tuple[int, int]
    basis: str
    waits_for: tuple[str, ...]  # jobs


@dataclass(frozen=True, slots=True)
class Outlook:
    """How a waiting job starts: by a change now, the cheapest first, or by itself; None: no estimate can be given."""

    changes: tuple[VerifiedChange, ...]
    estimate: ExpectedStart | None


@dataclass(frozen=True, slots=True)
class NodeReason:
    """Why a node does not take a pod of the job."""

    node: str
    reason: str
    free: Quantities


@dataclass(frozen=True, slots=True)
class NodeScore:
    """A node that can take a pod, with the points of the plugins."""

    place: int = field(default=0, kw_only=True)  # from 1; 0 in a list without places
    node: str
    score: float
    plugins: Mapping[str, float]
    free: Quantities | None = None  # None: not recorded


@dataclass(frozen=True, slots=True)
class Victim:
    """A running pod that could be evicted for the job or not, and why."""

    pod: str
    job: str
    queue: str
    priority: int
    node: str
    why: str


@dataclass(frozen=True, slots=True)
class PluginAnswer:
    """What one plugin says about the job."""

    plugin: str
    tier: int
    question: str
    answer: str


Detail: TypeAlias = NodeReason | NodeScore | Victim | PluginAnswer
Details: TypeAlias = Mapping[str, tuple[Detail, ...]]  # by part


@dataclass(frozen=True, slots=True)
class Placement:
    """The nodes that could take a pod: the best ones and its own; `rank` is None when it would not get its own now."""

    basis: str
    rank: int | None
    feasible: int
    ranking: tuple[NodeScore, ...]


@dataclass(frozen=True, slots=True)
class RecordedPlacement:
    """The nodes that were compared when a pod was placed."""

    feasible: int
    basis: str
    ranking: tuple[NodeScore, ...]


@dataclass(frozen=True, slots=True)
class PodNodes:
    """Nodes by the reason why they do not take a waiting pod."""

    total: int
    with_room: int
    reasons: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that was evicted: in which cycle, by which job and policy, and why this pod."""

    cycle: int
    at: float
    why: str
    victim: Evicted = field(metadata=INLINE)


# -- jobs --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class JobExplanation:
    """Why a job waits, or where it runs."""

    KIND: ClassVar = "JobExplanation"
    FIRST: ClassVar[tuple[str, ...]] = ()
    job: str
    pod_group: str = ""
    queue: str
    user: str
    priority: int
    phase: str
    pods: PodCounts | None
    requests: Quantities
    state: str  # waiting, starting, running, finished; of the record: past
    summary: str
    diagnosis: Diagnosis | RecordedDiagnosis | None = None
    steps: tuple[Step, ...] = ()
    position: Position | None = None
    reserved: str = ""
    outlook: Outlook | None = field(default=None, metadata=INLINE)
    nodes: Mapping[str, int] | None = None  # pods by node; None for a job that waits
    details: Details = field(default_factory=dict)
    history: tuple[Entry, ...]
    notes: tuple[str, ...]

    @property
    def unsaid_message(self) -> str:
        """Message of the diagnosis, unless a step has it."""
        message = self.diagnosis.message if self.diagnosis is not None else ""
        return "" if any(step.text == message for step in self.steps) else message


@dataclass(frozen=True, slots=True, kw_only=True)
class _PartlyKnownJob(JobExplanation):
    queue: str = ""
    user: str = ""
    priority: int = 0
    phase: str = ""
    pods: PodCounts | None = None
    requests: Quantities = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedJob(_PartlyKnownJob):
    """A job as the record of cycles knows it."""

    FIRST: ClassVar = ("job", "pod_group", "state")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanJob(_PartlyKnownJob):
    """A PodGroup of which the queue does not exist."""

    FIRST: ClassVar = ("job", "pod_group", "state", "steps")
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWithoutGroup(_PartlyKnownJob):
    """A Job that the scheduler has nothing to do with."""

    history: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RestrictedJob(_PartlyKnownJob):
    """A job as the conditions of its PodGroup show it to users who may read their namespace only."""

    FIRST: ClassVar = ("job", "state", "summary", "notes", "pod_group", "queue", "phase", "history")
    queue: str


# -- pods --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PodExplanation:
    """Why a pod has its node, or why it has none."""

    KIND: ClassVar = "PodExplanation"
    FIRST: ClassVar[tuple[str, ...]] = ()
    pod: str
    job: str
    queue: str
    user: str
    priority: int
    status: str
    node: str
    requests: Quantities
    summary: str
    placement: Placement | RecordedPlacement | None = field(default=None, metadata=INLINE)
    diagnosis: Diagnosis | None = None
    nodes: PodNodes | None = None
    details: Details = field(default_factory=dict)
    evictions: tuple[Eviction, ...]
    history: tuple[Entry, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GonePod(PodExplanation):
    """A pod that does not exist any more."""

    job: str = ""
    queue: str = ""
    user: str = ""
    priority: int = 0
    status: str = ""
    node: str = ""
    requests: Quantities = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPod(GonePod):
    """A pod as the record of cycles knows it."""

    FIRST: ClassVar = ("pod", "history", "evictions", "summary", "node")
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RestrictedPod(GonePod):
    """A pod as its conditions show it to users who may read their namespace only."""

    FIRST: ClassVar = ("pod", "node", "summary", "notes", "history")
    node: str
    evictions: tuple[Eviction, ...] = ()
