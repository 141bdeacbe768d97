"""Re-runs of the scheduler on a state: cycle after cycle, until it decides nothing more."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from volcano.analysis.rerun.effects import carry_out, matters
from volcano.analysis.rerun.state import ClusterState
from volcano.kube.api.kinds import POD
from volcano.kube.client.protocol import Event, EventType
from volcano.model.cluster import Cluster
from volcano.model.decisions import Bind, Decision, Evict, SetPodGroup
from volcano.model.job import Job
from volcano.model.resources import Vector
from volcano.model.snapshot import Snapshot
from volcano.model.status import READY
from volcano.scheduler.cycle import schedule
from volcano.scheduler.engine.config import Config
from volcano.scheduler.engine.diagnosis import Diagnosis
from volcano.scheduler.engine.plugin_loader import Action
from volcano.scheduler.engine.session import Outcome, Session

# A job is admitted in one cycle, evicts pods in the next and starts in the third; some reclaim little by little.
MOST_CYCLES = 8
EVICTING = frozenset(("preempt", "reclaim", "gangpreempt", "gangreclaim"))


@dataclass(frozen=True, slots=True)
class Rerun:
    """What the scheduler decides in a state."""

    first: Outcome  # of the first cycle
    last: Outcome
    before: Snapshot  # of the first cycle
    after: Snapshot  # with all decisions carried out
    cycles: int
    settled: bool  # false when the bound on cycles was reached
    placements: Mapping[str, str] = field(default_factory=dict)  # pod ("namespace/name") → node
    victims: tuple[Evict, ...] = ()

    @property
    def diagnoses(self) -> Mapping[str, Diagnosis]:
        """Why the jobs that still wait do so, by job."""
        return self.last.diagnoses

    def victims_of(self, job: str) -> tuple[Evict, ...]:
        """The pods that are evicted on behalf of a job."""
        return tuple(victim for victim in self.victims if victim.on_behalf_of == job)

    def allocated(self, queue: str) -> tuple[Vector, Vector]:
        """What the jobs of a queue hold before and afterwards."""
        return self.before.totals[queue].allocated, self.after.totals[queue].allocated


def run(
    state: ClusterState,
    config: Config,
    *,
    cycles: int = MOST_CYCLES,
    stop_when_started: str = "",
    only: Collection[str] | None = None,
    evicting: Collection[str] | None = None,
) -> Rerun:
    """Runs cycles until nothing more is decided, `cycles` at most; evicted pods are gone in the next cycle. With
    `stop_when_started`, ends as soon as this job has started.

    Two limits make it faster in a cluster where many jobs wait: `only` these jobs are tried, and pods are evicted for
    none but those in `evicting`. All jobs count for the shares of queues.
    """
    config = config if evicting is None else _evicting_for(config, frozenset(evicting))
    before = snapshot = _with_active(state.snapshot(), only)
    cluster: Cluster | None = None
    to_come = dict(state.pods_to_come)
    placements: dict[str, str] = {}
    victims: list[Evict] = []
    first: Outcome | None = None
    done = 0
    while True:
        outcome = schedule(snapshot, config)
        done += 1
        first = first or outcome
        decisions = tuple(decision for decision in outcome.decisions if matters(decision))
        admitted = [uid for uid in to_come if _is_admitted(uid, snapshot, decisions)]
        if not decisions and not admitted:
            return Rerun(first, outcome, before, snapshot, done, True, placements, tuple(victims))
        cluster = cluster or state.cluster()
        carry_out(cluster, snapshot, decisions)
        for uid in admitted:
            for task in to_come.pop(uid):
                cluster.apply(Event(EventType.ADDED, POD, task))
        for decision in decisions:
            if isinstance(decision, Bind):
                placements[f"{decision.namespace}/{decision.name}"] = decision.node
            elif isinstance(decision, Evict):
                victims.append(decision)
        taken = cluster.snapshot(state.now, state.seed + done, outcome.memory, state.usage)
        snapshot = _with_active(taken, only)
        started = bool(stop_when_started) and _has_minimum(snapshot.jobs.get(stop_when_started))
        if done >= cycles or started:
            return Rerun(first, outcome, before, snapshot, done, started, placements, tuple(victims))


def evicts(config: Config) -> bool:
    """Whether a configuration has an action that evicts pods for jobs that wait."""
    return not EVICTING.isdisjoint(config.actions)


def without_evictions(config: Config) -> Config:
    """The configuration without the actions that evict pods."""
    kept = [(n, s) for n, s in zip(config.actions, config.steps, strict=True) if n not in EVICTING]
    return replace(config, actions=tuple(n for n, _ in kept), steps=tuple(s for _, s in kept))


def _evicting_for(config: Config, jobs: frozenset[str]) -> Config:
    """The configuration with actions that evict pods for these jobs only."""
    pairs = zip(config.actions, config.steps, strict=True)
    return replace(
        config, steps=tuple(_limited(step, jobs) if name in EVICTING else step for name, step in pairs)
    )


def _limited(step: Action, jobs: frozenset[str]) -> Action:
    def act(session: Session) -> None:
        whole = session.snapshot
        session.snapshot = _with_active(whole, jobs)
        try:
            step(session)
        finally:
            session.snapshot = whole

    return act


def _with_active(snapshot: Snapshot, only: Collection[str] | None) -> Snapshot:
    if only is None:
        return snapshot
    return replace(snapshot, active=tuple(uid for uid in snapshot.active if uid in only))


def _is_admitted(uid: str, snapshot: Snapshot, decisions: Sequence[Decision]) -> bool:
    """Whether the controller creates the pods of a job after this cycle."""
    job = snapshot.jobs.get(uid)
    if job is not None and not job.pending_phase:
        return True
    return any(
        isinstance(decision, SetPodGroup) and decision.job == uid and decision.phase not in (None, "Pending")
        for decision in decisions
    )


def starts(rerun: Rerun, job: str) -> bool:
    """Whether at least minAvailable pods of the job are placed, in each role that has a minimum."""
    return _has_minimum(rerun.after.jobs.get(job))


def _has_minimum(job: Job | None) -> bool:
    if job is None:
        return False
    ready = sum(job.count(status) for status in READY)
    by_role = {
        role: sum(number for status, number in counts.items() if status in READY)
        for role, counts in job.roles.items()
    }
    roles_ready = all(by_role.get(role, 0) >= minimum for role, minimum in job.group.min_task_member.items())
    return ready >= max(job.min_available, 1) and roles_ready
