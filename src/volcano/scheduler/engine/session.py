"""Session: snapshot, ledger and policy of one cycle, and its diagnoses and events."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec
from numpy.random import default_rng

from volcano.base.clock import timestamp
from volcano.base.log import Log
from volcano.model.decisions import Decision, RecordPodEvent, RemoveGate
from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.queue_reservations import QueueReservation
from volcano.model.resources import Vector
from volcano.model.snapshot import Snapshot
from volcano.model.status import Status
from volcano.model.task import Shape, Task
from volcano.scheduler.engine.awaited_gangs import AWAITED
from volcano.scheduler.engine.chosen_scores import ClassScores, ScoreRecorder
from volcano.scheduler.engine.config import Config
from volcano.scheduler.engine.diagnosis import (
    Diagnosis,
    FitError,
    SchedulableTask,
    from_fit_error,
    from_rejection,
)
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.diagnosis.progress import conclusion, orphaned, since
from volcano.scheduler.engine.faults import OPEN, FailedHooks, Fault, HookError, checksum, guarded
from volcano.scheduler.engine.impossible import oversized_task
from volcano.scheduler.engine.ledger import Ledger, Statement
from volcano.scheduler.engine.node_table import FactColumns, NodeTable
from volcano.scheduler.engine.placement import Placer
from volcano.scheduler.engine.plugin import Rejection
from volcano.scheduler.engine.plugin_metrics import MetricSample
from volcano.scheduler.engine.policy import NOMINATIONS, Policy
from volcano.scheduler.engine.timings import TimingKey, Timings
from volcano.scheduler.engine.topology.session_topology import SessionTopology

log = Log("session")

SKIPPED_JOBS = "skipped-jobs"  # key in the memory for the next cycle
Reasons = tuple[Diagnosis | None, dict[str, FitError] | None]  # diagnosis of a job, fit errors of its tasks


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a cycle: decisions, diagnoses of waiting jobs, and the memory of plugins for the next cycle."""

    decisions: tuple[Decision, ...]
    diagnoses: Mapping[str, Diagnosis] = field(default_factory=dict)  # by job
    memory: Mapping[str, Any] = field(default_factory=dict)
    faults: Mapping[str, Fault] = field(default_factory=dict)  # jobs skipped because of an error
    timings: Mapping[TimingKey, float] = field(default_factory=dict)
    samples: tuple[MetricSample, ...] = ()
    errors: tuple[str, ...] = ()  # failures of plugins and actions
    scores: tuple[ClassScores, ...] = ()  # of the nodes of pods that were placed, if they are recorded

    def needs_cycle(self, now: float) -> bool:
        """Whether a plugin remembers something for which cycles are needed now; `due` in it is a later time."""
        return any(not isinstance(kept, dict) or kept.get("due", now) <= now for kept in self.memory.values())

    def next_due(self, now: float) -> float:
        """The next later time for which a plugin remembers that a cycle is needed; infinite when there is none."""
        times = [kept["due"] for kept in self.memory.values() if isinstance(kept, dict) and "due" in kept]
        return min((time for time in times if time > now), default=math.inf)


class Session:
    """One cycle. Actions are functions of a session, and plugins access everything through it."""

    def __init__(
        self,
        snapshot: Snapshot,
        config: Config,
        timings: Timings | None = None,
        failed_hooks: FailedHooks | None = None,
        *,
        record_scores: bool = False,
    ) -> None:
        self.snapshot = snapshot
        self.config = config
        self.timings = timings or Timings()
        self.failed_hooks = failed_hooks or FailedHooks()
        self.resources = snapshot.resources
        self.ledger = Ledger(snapshot)
        fact_columns = snapshot.node_values.get(FactColumns)
        if fact_columns is None:
            fact_columns = FactColumns(snapshot.nodes, snapshot.row_of)
            snapshot.node_values[FactColumns] = fact_columns
        self.nodes = NodeTable.of_all(fact_columns, self.ledger.columns)
        # Ties between equal scores are broken by one permutation of the nodes for the whole cycle.
        self.permutation = default_rng(snapshot.seed).permutation(len(snapshot.nodes))
        self.faults: dict[str, Fault] = {}
        self._earlier_faults: dict[str, Fault] = {}  # of earlier cycles
        self.diagnoses: dict[str, Diagnosis] = {}
        self.fit_errors: dict[str, dict[str, FitError]] = {}  # by job and task uid
        # By identity and shape, because many tasks share a fit error: itself, with a note added, and its diagnosis.
        self._described: dict[tuple[int, Shape], tuple[FitError, FitError, Diagnosis]] = {}
        self.schedulable: dict[str, dict[str, SchedulableTask]] = {}  # by job and task uid
        self.largest_minimum: dict[str, Vector] = {}  # by queue: see `oversized_job`
        # By queue and shape: the length of the ledger's log of touched rows then, and the limit that was exceeded.
        self.queue_rejections: dict[tuple[str, Shape], tuple[int, Rejection | None]] = {}
        self.gates: list[RemoveGate] = []  # to be removed
        self.queue_reservations: dict[str, QueueReservation] = {}  # by job
        self._placement_events: list[tuple[Task, RecordPodEvent]] = []
        self.samples: list[MetricSample] = []
        self.awaited_gangs: Mapping[
            str, float
        ] = {}  # admitted jobs whose pods do not exist yet, and since when
        self.errors = list(self.failed_hooks.reasons.values())
        self.policy = Policy(self, config)
        self.ledger.add_event_handler(self.policy)
        self.placer = Placer(self)
        self.scores = ScoreRecorder(self) if record_scores else None
        for plugin, settings in self.policy.settings.items():
            with self.timings.measure("plugin", plugin.name, "OnSessionOpen"):
                guarded(plugin.name, OPEN, plugin.open)(settings.arguments)
        self._valid: dict[str, bool] = {}
        self._skip_failed_jobs()

    def _skip_failed_jobs(self) -> None:
        """Skips jobs that failed in an earlier cycle until their back-off ends, or one of their objects or the
        configuration changes."""
        for uid, kept in self.snapshot.memory.get(SKIPPED_JOBS, {}).items():
            if uid not in self.snapshot.jobs:
                continue
            fault = msgspec.convert(kept, Fault) if isinstance(kept, dict) else kept  # from a snapshot file
            self._earlier_faults[uid] = fault
            if uid not in self.snapshot.changed and not fault.is_due(
                self.snapshot.now, self._config_checksum
            ):
                self.faults[uid] = fault
                self.record(_failure(uid, fault))

    @cached_property
    def _config_checksum(self) -> int:
        return checksum(self.config.text)

    @cached_property
    def written_at(self) -> str:
        """Time of the cycle as a timestamp for conditions."""
        return timestamp(self.snapshot.now)

    @cached_property
    def whole_cluster(self) -> Vector:
        """Allocatable resources of all nodes."""
        total: Vector = self.snapshot.allocatable.sum(axis=0)
        return total

    @cached_property
    def topology(self) -> SessionTopology:
        """Domains of nodes, and what jobs ask of them."""
        return SessionTopology(self)

    @property
    def admits(self) -> bool:
        """Whether jobs have to pass the enqueue action before they are scheduled."""
        return "enqueue" in self.config.actions

    @property
    def preempts(self) -> bool:
        """Whether jobs may preempt jobs of lower priority in their queue."""
        return not {"preempt", "gangpreempt"}.isdisjoint(self.config.actions)

    def active_jobs(self) -> Iterator[Job]:
        """Jobs with something to decide that are not skipped."""
        jobs = self.snapshot.jobs
        for uid in self.snapshot.active:
            if uid not in self.faults and uid in jobs:
                yield jobs[uid]

    def queue(self, job: Job) -> Queue:
        return self.snapshot.queues[job.queue]

    def valid(self, job: Job) -> bool:
        """Whether the job can be scheduled at all; otherwise records the reason."""
        known = self._valid.get(job.uid)
        if known is None:
            rejection = self.policy.job_valid(job)
            known = self._valid[job.uid] = rejection is None
            if rejection is not None:
                self.record(from_rejection(job.uid, "valid", rejection))
        return known

    def record(self, diagnosis: Diagnosis) -> None:
        """Records why a job waits. Of several diagnoses the one whose class has precedence counts, then the last."""
        known = self.diagnoses.get(diagnosis.job)
        if known is None or diagnosis.code.rank <= known.code.rank:
            self.diagnoses[diagnosis.job] = diagnosis

    def record_fit_error(self, job: Job, task: Task, fit_error: FitError) -> None:
        """Records why no node fits a task; not undone with the statement."""
        key = (id(fit_error), task.shape)
        described = self._described.get(key)
        if described is None:
            note = oversized_task(self, task) if fit_error.resource else ""
            noted = replace(fit_error, note=note) if note else fit_error
            described = self._described[key] = fit_error, noted, from_fit_error("", "", noted)
        _, noted, diagnosis = described
        self.fit_errors.setdefault(job.uid, {})[task.uid] = noted
        self.record(msgspec.structs.replace(diagnosis, job=job.uid, task=task.name))

    def record_schedulable(self, job: Job) -> None:
        """Records which tasks of a job were placed, before their statement is undone because the job may not start."""
        ledger = self.ledger
        found = {}
        for task in job.by_status.get(Status.PENDING, ()):
            row = ledger.row(task)
            if row is not None:
                found[task.uid] = SchedulableTask(
                    self.nodes.name(row), pipelined=ledger.status(task) is Status.PIPELINED
                )
        if found:
            self.schedulable[job.uid] = found

    def reasons(self, job: Job) -> Reasons:
        """What is recorded about a job, to `restore_reasons` after a trial."""
        fit_errors = self.fit_errors.get(job.uid)
        return self.diagnoses.get(job.uid), dict(fit_errors) if fit_errors is not None else None

    def restore_reasons(self, job: Job, recorded: Reasons) -> None:
        diagnosis, fit_errors = recorded
        if diagnosis is None:
            self.diagnoses.pop(job.uid, None)
        else:
            self.diagnoses[job.uid] = diagnosis
        if fit_errors is None:
            self.fit_errors.pop(job.uid, None)
        else:
            self.fit_errors[job.uid] = fit_errors

    def record_placement_event(self, task: Task, reason: str, message: str) -> None:
        """Records an event about a pod that was placed; it is written if the placement is committed."""
        event = RecordPodEvent(task.uid, task.namespace, task.name, reason, message)
        self._placement_events.append((task, event))

    def placement_events(self) -> Iterator[RecordPodEvent]:
        """Events about the pods that are bound in this cycle."""
        found = {event: None for task, event in self._placement_events if self.ledger.is_committed(task)}
        yield from found

    def attempt(self, job: Job) -> "Attempt":
        """Guard of the work on one job: an error undoes its changes and skips the job for this cycle."""
        return Attempt(self, job, self.ledger.statement())

    def inquiry(self, job: Job) -> "Attempt":
        """As `attempt`, for code that changes nothing."""
        return Attempt(self, job)

    def skip_job(self, job: Job, error: Exception) -> None:
        """Skips a job because of an error."""
        earlier = self._earlier_faults.get(job.uid)
        fault = Fault.of(error, earlier, self.snapshot.now, self._config_checksum)
        self.faults[job.uid] = fault
        self.record(_failure(job.uid, fault))
        log.error(
            "job failed, skipped", job=job.uid, plugin=fault.plugin, attempt=fault.attempts, error=error
        )

    def record_error(self, message: str) -> None:
        """Records a failure that concerns no single job; the cycle continues."""
        self.errors.append(message)
        log.error("plugin or action failed, skipped", reason=message)

    def may_run(self, action: str) -> bool:
        """Whether an action may run: all plugins that limit it work. Otherwise records the reason for all
        waiting jobs."""
        plugins = ((each.name, each.plugin) for tier in self.config.tiers for each in tier)
        missing = self.failed_hooks.blocking(action, plugins)
        if missing is None:
            return True
        plugin, reason = missing
        for job in self.active_jobs():
            text = f"{action} is not run: {reason}"
            self.record(Diagnosis(job.uid, "plugin", text, plugin, code=Code.PLUGIN_FAILED))
        return False

    def close(self) -> dict[str, Any]:
        """Closes the plugins; returns the memory for the next cycle."""
        memory: dict[str, Any] = {}
        if missed := self.policy.missed_nominations():
            memory[NOMINATIONS] = missed
        if self.awaited_gangs:
            memory[AWAITED] = dict(self.awaited_gangs)
        for plugin in self.policy.plugins:
            try:
                with self.timings.measure("plugin", plugin.name, "OnSessionClose"):
                    plugin.close()
                    kept = plugin.remember()
                    self.samples.extend(plugin.measure())
            except Exception as error:  # a bug in one plugin must not discard the decisions
                self.record_error(f"plugin {plugin.name} failed in close: {type(error).__name__}: {error}")
                continue
            if kept is not None:
                memory[plugin.name] = kept
        if self.faults:
            memory[SKIPPED_JOBS] = dict(self.faults)
        return memory

    def final_diagnoses(self) -> dict[str, Diagnosis]:
        """Diagnoses of the jobs that still wait at the end of the cycle, and since when they do."""
        jobs, now = self.snapshot.jobs, self.snapshot.now
        found: dict[str, Diagnosis] = {}
        for uid in {**self.diagnoses, **dict.fromkeys(self.snapshot.active)}:
            job = jobs.get(uid)
            if job is not None and self._waits(job):
                why = conclusion(self, job)
                found[uid] = msgspec.structs.replace(why, since=since(job.group, why.code, now))
        for uid, orphans in self.snapshot.orphans.items():
            why = orphaned(uid, orphans)
            found[uid] = msgspec.structs.replace(why, since=since(orphans.group, why.code, now))
        return found

    def _waits(self, job: Job) -> bool:
        if job.uid in self.faults or self.ledger.phase(job) == "Pending":
            return True
        counts = self.ledger.tally(job).counts
        return counts[Status.PENDING] + counts[Status.PIPELINED] > 0 or not self.policy.job_ready(job)


def _failure(uid: str, fault: Fault) -> Diagnosis:
    text = f"the scheduler failed on this job: {fault.reason}"
    return Diagnosis(uid, "fault", text, fault.plugin, code=Code.PLUGIN_FAILED)


class Attempt:
    """Work on one job, as a `with` block: its changes are committed unless it raises."""

    __slots__ = ("_job", "_session", "_statement")

    def __init__(self, session: Session, job: Job, statement: Statement | None = None) -> None:
        self._session = session
        self._job = job
        self._statement = statement

    def __enter__(self) -> None:
        if self._statement is not None:
            self._statement.__enter__()

    def __exit__(
        self, failed: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> bool:
        if self._statement is not None:
            if failed is None:
                self._statement.commit()
            self._statement.__exit__(failed, error, trace)
        if not isinstance(error, Exception) or isinstance(error, HookError):
            return False  # not caused by this job
        self._session.skip_job(self._job, error)
        return True
