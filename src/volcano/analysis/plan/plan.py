"""Plans: what the scheduler would do with jobs that are created or scaled, as data."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from volcano.analysis.plan.shares import PlannedShare, shares
from volcano.analysis.plan.suggestions import Suggestion, suggest
from volcano.analysis.rerun.rerun import Rerun, evicts, run, starts, without_evictions
from volcano.analysis.rerun.state import Change, ClusterState
from volcano.model.decisions import Evict
from volcano.model.status import READY
from volcano.scheduler.engine.config import Config

SUGGESTIONS = 3


@dataclass(frozen=True, slots=True)
class Subject:
    """A job that is planned: its uid in the scheduler, and its title such as `Job default/train`."""

    uid: str
    title: str
    change: Change
    whole: bool = False  # all pods count, not the minimum: the job runs already


@dataclass(frozen=True, slots=True)
class PodsOnNode:
    """Pods of one task that are placed on one node."""

    node: str
    task: str
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EvictedPod:
    """A pod that would be evicted, with the name of its job for people, by an action of the scheduler."""

    pod: str  # namespace/name
    job: str
    node: str
    action: str


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A change that would start the job now; not exact where evictions for other jobs are not counted."""

    change: str
    victims: tuple[EvictedPod, ...]
    exact: bool


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Why a job would not start now, and what would start it."""

    reason: str
    code: str = ""
    # Pods that would be evicted for it if that was allowed; None when it would not start even so.
    victims_if_allowed: tuple[EvictedPod, ...] | None = None
    suggestions: tuple[PlannedChange, ...] = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class ShareChange:
    before: PlannedShare
    afterwards: PlannedShare


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """What would happen to one job."""

    job: str  # title, such as `Job default/train`
    queue: str
    starts: bool
    pods: int
    min_available: int
    running: int  # pods that have a node already
    placements: tuple[PodsOnNode, ...]
    victims: tuple[EvictedPod, ...]
    queue_share: ShareChange
    why_not: WhyNot | None = field(default=None, metadata={"inline": True})  # None for a job that starts


NO_SHARE = PlannedShare({}, {}, {})  # of a queue that does not exist


def plan(
    state: ClusterState,
    config: Config,
    subjects: Sequence[Subject],
    *,
    allow_preempt: bool,
    suggestions: int = SUGGESTIONS,
) -> tuple[PlannedJob, ...]:
    """What the scheduler would do now if the subjects were created together."""
    after = state.changed([subject.change for subject in subjects])
    used = config if allow_preempt else without_evictions(config)
    rerun = run(after, used)
    evicting: Rerun | None = None
    if not allow_preempt and evicts(config) and not all(_starts(rerun, each) for each in subjects):
        evicting = run(after, config)
    before, afterwards = shares(state.snapshot(), config), shares(rerun.after, config)
    found = []
    for subject in subjects:
        started = _starts(rerun, subject)
        group, tasks = after.group(subject.uid), after.tasks(subject.uid)
        queue = group.queue if group is not None else ""
        changes: list[Suggestion] = []
        if not started and suggestions and not subject.whole:
            known = evicting if evicting is not None and not starts(evicting, subject.uid) else None
            base = config if allow_preempt or known is not None else used
            changes = suggest(after, base, subject.uid, limit=suggestions, unchanged=known or rerun)
        found.append(
            PlannedJob(
                job=subject.title,
                queue=queue,
                starts=started,
                pods=len(tasks),
                min_available=group.min_member if group is not None else 1,
                running=sum(task.status in READY for task in tasks),
                placements=tuple(_placed(rerun, subject.uid)),
                victims=evicted(state, rerun.victims_of(subject.uid)),
                queue_share=ShareChange(before.get(queue, NO_SHARE), afterwards.get(queue, NO_SHARE)),
                why_not=None if started else _why_not(state, subject, queue, rerun, evicting, changes),
            )
        )
    return tuple(found)


def _why_not(
    state: ClusterState,
    subject: Subject,
    queue: str,
    rerun: Rerun,
    evicting: Rerun | None,
    changes: Iterable[Suggestion],
) -> WhyNot:
    uid = subject.uid
    diagnosis = rerun.diagnoses.get(uid)
    missing = "" if uid in rerun.after.jobs else f"queue {queue} does not exist"
    allowed = evicting is not None and _starts(evicting, subject)
    return WhyNot(
        diagnosis.message if diagnosis is not None else missing or WAITS,
        str(diagnosis.code) if diagnosis is not None else "",
        evicted(state, evicting.victims_of(uid)) if evicting is not None and allowed else None,
        suggestions=tuple(
            PlannedChange(each.sentence(), evicted(state, each.victims), each.exact) for each in changes
        ),
    )


def evicted(state: ClusterState, victims: Iterable[Evict]) -> tuple[EvictedPod, ...]:
    """Evicted pods with the names of their jobs."""
    return tuple(
        EvictedPod(f"{each.namespace}/{each.name}", state.job_name(each.job), each.node, each.reason)
        for each in victims
    )


WAITS = "it would wait: the scheduler gives no reason"


def _starts(rerun: Rerun, subject: Subject) -> bool:
    if not subject.whole:
        return starts(rerun, subject.uid)
    job = rerun.after.jobs.get(subject.uid)
    return job is not None and all(task.status in READY for task in job.tasks.values())


def _placed(rerun: Rerun, uid: str) -> Iterator[PodsOnNode]:
    """The pods of a job that are placed by the re-run, by node and task."""
    found: dict[str, dict[str, list[str]]] = {}
    job = rerun.after.jobs.get(uid)
    tasks = () if job is None else job.tasks.values()
    for task in sorted(tasks, key=lambda task: (task.role, task.index, task.name)):
        node = rerun.placements.get(task.key)
        if node is not None:
            found.setdefault(node, {}).setdefault(task.role, []).append(task.name)
    for node, roles in found.items():
        yield from (PodsOnNode(node, role, tuple(pods)) for role, pods in roles.items())
