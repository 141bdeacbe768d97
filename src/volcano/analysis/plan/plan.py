"""Plans: what the scheduler would do with jobs that are created or scaled, as data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from volcano.analysis.plan.shares import QueueShare, shares
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
class PlannedJob:
    """What would happen to one job."""

    title: str
    uid: str
    queue: str
    starts: bool
    pods: int
    minimum: int
    running: int  # pods that have a node already
    placed: dict[str, dict[str, list[str]]]  # node → task → names of the pods placed on it
    reason: str = ""  # of a job that does not start
    code: str = ""
    victims: tuple[Evict, ...] = ()
    # Pods that would be evicted for it if that was allowed; None when it would not start even so.
    victims_if_allowed: tuple[Evict, ...] | None = None
    suggestions: tuple[Suggestion, ...] = ()
    job_names: Mapping[str, str] = field(default_factory=dict)  # of the victims' jobs, by uid
    before: QueueShare = field(default_factory=lambda: QueueShare(""))
    after: QueueShare = field(default_factory=lambda: QueueShare(""))


def plan(
    state: ClusterState,
    config: Config,
    subjects: Sequence[Subject],
    *,
    allow_preempt: bool,
    suggestions: int = SUGGESTIONS,
) -> list[PlannedJob]:
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
        job = rerun.after.jobs.get(subject.uid)
        group = after.group(subject.uid)
        diagnosis = rerun.diagnoses.get(subject.uid)
        queue = group.queue if group is not None else ""
        allowed = None
        if not started and evicting is not None and _starts(evicting, subject):
            allowed = evicting.victims_of(subject.uid)
        changes: list[Suggestion] = []
        if not started and suggestions and not subject.whole:
            known = evicting if evicting is not None and not starts(evicting, subject.uid) else None
            base = config if allow_preempt or known is not None else used
            changes = suggest(after, base, subject.uid, limit=suggestions, unchanged=known or rerun)
        missing = "" if job is not None else f"queue {queue} does not exist"
        found.append(
            PlannedJob(
                subject.title,
                subject.uid,
                queue,
                started,
                pods=len(after.tasks(subject.uid)),
                minimum=group.min_member if group is not None else 1,
                running=sum(task.status in READY for task in after.tasks(subject.uid)),
                placed=_placed(rerun, subject.uid),
                reason="" if started else diagnosis.message if diagnosis is not None else missing or WAITS,
                code="" if started or diagnosis is None else str(diagnosis.code),
                victims=rerun.victims_of(subject.uid),
                victims_if_allowed=allowed,
                suggestions=tuple(changes),
                job_names={uid: state.job_name(uid) for uid in _evicted_jobs(rerun, evicting, changes)},
                before=before.get(queue, QueueShare(queue)),
                after=afterwards.get(queue, QueueShare(queue)),
            )
        )
    return found


def _evicted_jobs(rerun: Rerun, evicting: Rerun | None, changes: Sequence[Suggestion]) -> set[str]:
    victims = (*rerun.victims, *(evicting.victims if evicting is not None else ()))
    return {victim.job for victim in (*victims, *(v for change in changes for v in change.victims))}


WAITS = "it would wait: the scheduler gives no reason"


def _starts(rerun: Rerun, subject: Subject) -> bool:
    if not subject.whole:
        return starts(rerun, subject.uid)
    job = rerun.after.jobs.get(subject.uid)
    return job is not None and all(task.status in READY for task in job.tasks.values())


def _placed(rerun: Rerun, uid: str) -> dict[str, dict[str, list[str]]]:
    """The pods of a job that are placed by the re-run, by node and task."""
    found: dict[str, dict[str, list[str]]] = {}
    job = rerun.after.jobs.get(uid)
    for task in (
        () if job is None else sorted(job.tasks.values(), key=lambda task: (task.role, task.index, task.name))
    ):
        node = rerun.placements.get(task.key)
        if node is not None:
            found.setdefault(node, {}).setdefault(task.role, []).append(task.name)
    return found


def as_data(job: PlannedJob) -> dict[str, Any]:
    """A planned job for JSON and YAML."""

    def evicted(victims: Sequence[Evict]) -> list[dict[str, str]]:
        return [victim_data(victim, job.job_names.get(victim.job, victim.job)) for victim in victims]

    data: dict[str, Any] = {
        "job": job.title,
        "queue": job.queue,
        "starts": job.starts,
        "pods": job.pods,
        "minAvailable": job.minimum,
        "running": job.running,
        "placements": [
            {"node": node, "task": role, "pods": pods}
            for node, roles in job.placed.items()
            for role, pods in roles.items()
        ],
        "victims": evicted(job.victims),
        "queueShare": {"before": job.before.as_data(), "afterwards": job.after.as_data()},
    }
    if not job.starts:
        data["reason"] = job.reason
        data |= {"code": job.code} if job.code else {}
        if job.victims_if_allowed is not None:
            data["victimsIfAllowed"] = evicted(job.victims_if_allowed)
        data["suggestions"] = [
            {
                "change": each.sentence(),
                "victims": evicted(each.victims),
                "exact": each.exact,
            }
            for each in job.suggestions
        ]
    return data


def victim_data(victim: Evict, job: str) -> dict[str, str]:
    """An evicted pod, with the name of its job, for JSON and YAML."""
    return {
        "pod": f"{victim.namespace}/{victim.name}",
        "job": job,
        "node": victim.node,
        "action": victim.reason,
    }
