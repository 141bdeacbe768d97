"""What another configuration would do in a cluster: shares, jobs that start, pods that are evicted; as data."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from volcano.analysis.plan.plan import EvictedPod, evicted
from volcano.analysis.plan.shares import in_manifests, shares
from volcano.analysis.rerun.rerun import Rerun, run, starts
from volcano.analysis.rerun.state import ClusterState
from volcano.scheduler.engine.config import Config


@dataclass(frozen=True, slots=True)
class Start:
    """A job that waits and would start; `anyway`: with the present configuration, too."""

    job: str  # name for people
    queue: str
    anyway: bool


@dataclass(frozen=True, slots=True)
class Eviction(EvictedPod):
    """A pod that would be evicted; `anyway`: with the present configuration, too."""

    on_behalf_of: str
    anyway: bool


@dataclass(frozen=True, slots=True)
class Quantities:
    """Amounts of a queue by resource, with the present and with the other configuration."""

    before: Mapping[str, str]
    afterwards: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PlannedQueue:
    """What a queue deserves with both configurations, and what it holds now and afterwards."""

    queue: str
    deserved: Quantities
    allocated: Quantities


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigPlan:
    """The effect of another configuration at once, until nothing more is decided."""

    changes_nothing: bool  # both configurations do the same now
    queues: tuple[PlannedQueue, ...]
    starting: tuple[Start, ...]
    not_starting: tuple[Start, ...]  # they would start with the present configuration
    evicted: tuple[Eviction, ...]
    waiting: int  # jobs that wait with both
    notes: tuple[str, ...] = ()


def config_plan(state: ClusterState, present: Config, new: Config, notes: tuple[str, ...] = ()) -> ConfigPlan:
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
    queues, evictions = tuple(_queues(state, present, new, after)), tuple(_evictions(state, before, after))
    same_shares = all(each.deserved.before == each.deserved.afterwards for each in queues)
    return ConfigPlan(
        changes_nothing=same_shares
        and not not_starting
        and all(start.anyway for start in starting)
        and all(each.anyway for each in evictions),
        queues=queues,
        starting=tuple(starting),
        not_starting=tuple(not_starting),
        evicted=evictions,
        waiting=left,
    )


def _waits(state: ClusterState, uid: str) -> bool:
    """Whether a job has not started yet: pods beyond its minimum do not count."""
    job = state.snapshot().jobs[uid]
    return job.pending_phase or not job.allocated.any()


def _queues(state: ClusterState, present: Config, new: Config, after: Rerun) -> Iterator[PlannedQueue]:
    before, deserved = shares(state.snapshot(), present), shares(state.snapshot(), new)
    totals, index = after.after.totals, after.after.resources
    for name in sorted(before):
        held = in_manifests(index.amounts(totals[name].allocated))
        yield PlannedQueue(
            name,
            Quantities(before[name].deserved, deserved[name].deserved),
            Quantities(before[name].allocated, held),
        )


def _evictions(state: ClusterState, before: Rerun, after: Rerun) -> Iterator[Eviction]:
    present = {victim.task for victim in before.victims}
    for victim, pod in zip(after.victims, evicted(state, after.victims), strict=True):
        gains = state.job_name(victim.on_behalf_of) if victim.on_behalf_of else ""
        yield Eviction(pod.pod, pod.job, pod.node, pod.action, gains, victim.task in present)
