"""Cycle: snapshot, ledger, policy and diagnoses of one scheduling cycle, for all layers of the engine.

Each layer above adds its part: nodes for tasks (`placement`), domains (`topology`), opening and closing (`session`).
"""

from collections.abc import Iterator
from functools import cached_property

import msgspec
from numpy.random import default_rng

from volcano.base.log import Log
from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.snapshot import Snapshot
from volcano.scheduler.engine.config import Config
from volcano.scheduler.engine.diagnosis import Diagnosis, from_rejection
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.diagnosis.diagnoses import Diagnoses
from volcano.scheduler.engine.faults import FailedHooks, Fault, HookError, checksum
from volcano.scheduler.engine.ledger import Ledger, Statement
from volcano.scheduler.engine.node_table import FactColumns, NodeTable
from volcano.scheduler.engine.nominations import Nominations
from volcano.scheduler.engine.plugin import PluginSession
from volcano.scheduler.engine.policy import Policy
from volcano.scheduler.engine.timings import Timings

log = Log("session")

SKIPPED_JOBS = "skipped-jobs"  # key in the memory for the next cycle


class Cycle(PluginSession):
    """State of one cycle."""

    ledger: Ledger

    def __init__(
        self, snapshot: Snapshot, config: Config, timings: Timings, failed_hooks: FailedHooks
    ) -> None:
        self.snapshot = snapshot
        self.config = config
        self.timings = timings
        self.failed_hooks = failed_hooks
        self.resources = snapshot.resources
        self.ledger = Ledger(snapshot)
        fact_columns = snapshot.node_values.get(FactColumns)
        if fact_columns is None:
            fact_columns = snapshot.node_values[FactColumns] = FactColumns(snapshot.nodes, snapshot.row_of)
        self.nodes = NodeTable.of_all(fact_columns, self.ledger.columns)
        # Ties between equal scores are broken by one permutation of the nodes for the whole cycle.
        self.permutation = default_rng(snapshot.seed).permutation(len(snapshot.nodes))
        self.faults: dict[str, Fault] = {}
        self._earlier_faults: dict[str, Fault] = {}  # of earlier cycles
        self.diagnoses = Diagnoses(self.ledger, self.nodes)
        self.errors = list(failed_hooks.reasons.values())
        self.nominations = Nominations(self.ledger, self.diagnoses, self.active_jobs)
        self.policy = Policy(self, config, failed_hooks, self.nominations)
        self.ledger.handler = self.policy
        self._valid: dict[str, bool] = {}

    def skip_failed_jobs(self) -> None:
        """Skips jobs that failed in an earlier cycle until their back-off ends, or one of their objects or the
        configuration changes."""
        for uid, kept in self.snapshot.memory.get(SKIPPED_JOBS, {}).items():
            if uid not in self.snapshot.jobs:
                continue
            fault = msgspec.convert(kept, Fault) if isinstance(kept, dict) else kept  # from a snapshot file
            self._earlier_faults[uid] = fault
            is_due = fault.is_due(self.snapshot.now, self._config_checksum)
            if uid not in self.snapshot.changed and not is_due:
                self._skip(uid, fault)

    def _skip(self, uid: str, fault: Fault) -> None:
        self.faults[uid] = fault
        text = f"the scheduler failed on this job: {fault.reason}"
        self.diagnoses.record(Diagnosis(uid, "fault", text, fault.plugin, code=Code.PLUGIN_FAILED))

    @cached_property
    def _config_checksum(self) -> int:
        return checksum(self.config.text)

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
                self.diagnoses.record(from_rejection(job.uid, "valid", rejection))
        return known

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
        self._skip(job.uid, fault)
        log.error(
            "job failed, skipped", job=job.uid, plugin=fault.plugin, attempt=fault.attempts, error=error
        )

    def record_error(self, message: str) -> None:
        """Records a failure that concerns no single job; the cycle continues."""
        self.errors.append(message)
        log.error("plugin or action failed, skipped", reason=message)


class Attempt:
    """Work on one job, as a `with` block: its changes are committed unless it raises."""

    __slots__ = ("_cycle", "_job", "_statement")

    def __init__(self, cycle: Cycle, job: Job, statement: Statement | None = None) -> None:
        self._cycle = cycle
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
        self._cycle.skip_job(self._job, error)
        return True
