"""What another configuration would do in a cluster: shares, jobs that start, pods that are evicted; as data."""

from dataclasses import dataclass
from typing import Any

from volcano.analysis.plan.plan import victim_data
from volcano.analysis.plan.shares import QueueShare, shares
from volcano.analysis.rerun.rerun import Rerun, run, starts
from volcano.analysis.rerun.state import ClusterState
from volcano.model.decisions import Evict
from volcano.scheduler.engine.config import Config


@dataclass(frozen=True, slots=True)
class Start:
    """A job that waits and would start; `anyway`: with the present configuration, too."""

    job: str  # name for people
    queue: str
    anyway: bool


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that would be evicted; `anyway`: with the present configuration, too."""

    victim: Evict
    job: str
    on_behalf_of: str
    anyway: bool


@dataclass(frozen=True, slots=True)
class ChangedShare:
    """A queue: what it deserves with both configurations, and what it holds now and afterwards."""

    queue: str
    before: QueueShare
    after: QueueShare

    @property
    def deserves_other(self) -> bool:
        """Whether it deserves something else, amounts that are equal in the output not counted."""
        return bool(self.before.as_data()["deserved"] != self.after.as_data()["deserved"])


@dataclass(frozen=True, slots=True)
class ConfigPlan:
    """The effect of another configuration at once, until nothing more is decided."""

    shares: tuple[ChangedShare, ...]
    starting: tuple[Start, ...]
    not_starting: tuple[Start, ...]  # they would start with the present configuration
    evictions: tuple[Eviction, ...]
    waiting: int  # jobs that wait with both

    @property
    def changes_nothing(self) -> bool:
        """Whether both configurations do the same now."""
        return (
            all(start.anyway for start in self.starting)
            and not self.not_starting
            and all(eviction.anyway for eviction in self.evictions)
            and not any(share.deserves_other for share in self.shares)
        )


def config_plan(state: ClusterState, present: Config, new: Config) -> ConfigPlan:
    """Runs both configurations on a state and compares them."""
    snapshot = state.snapshot()
    before, after = run(state, present), run(state, new)
    waiting = [uid for uid in snapshot.active if uid in snapshot.jobs and _waits(state, uid)]
    starting, not_starting, left = [], [], 0
    for uid in waiting:
        first, second = starts(before, uid), starts(after, uid)
        start = Start(state.job_name(uid), snapshot.jobs[uid].queue, anyway=first and second)
        if second:
            starting.append(start)
        elif first:
            not_starting.append(start)
        else:
            left += 1
    return ConfigPlan(
        _changed_shares(state, present, new, after),
        tuple(starting),
        tuple(not_starting),
        _evictions(state, before, after),
        left,
    )


def _waits(state: ClusterState, uid: str) -> bool:
    """Whether a job has not started yet: pods beyond its minimum do not count."""
    job = state.snapshot().jobs[uid]
    return job.pending_phase or not job.allocated.any()


def _changed_shares(
    state: ClusterState, present: Config, new: Config, after: Rerun
) -> tuple[ChangedShare, ...]:
    before, deserved = shares(state.snapshot(), present), shares(state.snapshot(), new)
    held = after.after.totals
    names = after.after.resources
    return tuple(
        ChangedShare(
            name,
            before[name],
            QueueShare(
                name, names.amounts(held[name].allocated), deserved[name].deserved, before[name].capability
            ),
        )
        for name in sorted(before)
    )


def _evictions(state: ClusterState, before: Rerun, after: Rerun) -> tuple[Eviction, ...]:
    present = {victim.task for victim in before.victims}
    return tuple(
        Eviction(
            victim,
            state.job_name(victim.job),
            state.job_name(victim.on_behalf_of) if victim.on_behalf_of else "",
            victim.task in present,
        )
        for victim in after.victims
    )


def as_data(found: ConfigPlan) -> dict[str, Any]:
    """The plan for JSON."""

    def job(start: Start) -> dict[str, Any]:
        return {"job": start.job, "queue": start.queue, "anyway": start.anyway}

    return {
        "changesNothing": found.changes_nothing,
        "queues": [
            {
                "queue": share.queue,
                "deserved": {
                    "before": share.before.as_data()["deserved"],
                    "afterwards": share.after.as_data()["deserved"],
                },
                "allocated": {
                    "before": share.before.as_data()["allocated"],
                    "afterwards": share.after.as_data()["allocated"],
                },
            }
            for share in found.shares
        ],
        "starting": [job(start) for start in found.starting],
        "notStarting": [job(start) for start in found.not_starting],
        "evicted": [
            {
                **victim_data(each.victim, each.job),
                "onBehalfOf": each.on_behalf_of,
                "anyway": each.anyway,
            }
            for each in found.evictions
        ],
        "waiting": found.waiting,
    }
