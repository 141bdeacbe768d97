"""The scheduler's metrics, under Volcano's names."""

import collections
from collections.abc import Iterable, Iterator

from prometheus_client import Counter, Gauge, Histogram

from volcano.base.clock import Instant
from volcano.base.metrics import CollectorRegistry
from volcano.model.decisions import Bind, Decision, Evict
from volcano.model.queue import QueueTotals
from volcano.model.snapshot import Snapshot
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.plugin_metrics import MetricSample, amounts
from volcano.scheduler.engine.session import Outcome
from volcano.scheduler.report.metric_types import JobTimestamps, PlainCounter, PluginGauges

NAMESPACE = "volcano"
# Histogram of each timing: name, help text, range of the buckets and their number, labels.
TIMED = {
    "cycle": ("e2e_scheduling_latency_milliseconds", "one cycle", (1, 5000, 20), ()),
    "open": ("open_session_duration_milliseconds", "opening a session", (1, 5000, 20), ()),
    "action": ("action_scheduling_latency_milliseconds", "one action", (1, 2000, 20), ("action",)),
    "plugin": (
        "plugin_scheduling_latency_milliseconds",
        "opening or closing one plugin",
        (0.1, 100, 15),
        ("plugin", "OnSession"),
    ),
    "stage": ("scheduling_stage_duration_milliseconds", "one stage of a cycle", (0.1, 500, 20), ("stage",)),
    "job": (
        "e2e_job_scheduling_latency_milliseconds",
        "from a job's creation to a task's node",
        (100, 120_000, 30),
        (),
    ),
    "task": (
        "task_scheduling_latency_milliseconds",
        "from a pod's creation to each stage",
        (50, 60_000, 30),
        ("stage",),
    ),
}


def _exponential(low: float, high: float, count: int) -> list[float]:
    factor = (high / low) ** (1 / (count - 1))
    return [low * factor**i for i in range(count)]


class SchedulerMetrics:
    """Metrics of one scheduler in a registry of its own, so that several can run in one process."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, namespace=NAMESPACE, registry=self.registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, namespace=NAMESPACE, registry=self.registry)

        def plain_counter(name: str, text: str, label: str = "") -> PlainCounter:
            return PlainCounter(f"{NAMESPACE}_{name}", text, self.registry, label)

        self._timed = {
            what: Histogram(
                name,
                text,
                labels,
                namespace=NAMESPACE,
                buckets=_exponential(*buckets),
                registry=self.registry,
            )
            for what, (name, text, buckets, labels) in TIMED.items()
        }
        self._series: dict[tuple[str, ...], Histogram] = {}  # by timing and labels; few
        # The library adds `_total` to these two, as in Volcano.
        self._attempts = counter("schedule_attempts", "attempts to schedule tasks, by result", "result")
        self._evictions = counter("eviction_transactions", "jobs that pods were evicted for", "action")
        self._preemptions = plain_counter("total_preemption_attempts", "cycles that evicted pods")
        self._retries = plain_counter("job_retry_counts", "cycles in which a job could not start", "job_id")
        self._victims = gauge("pod_preemption_victims", "victims of the last cycle that evicted")
        self._waiting_jobs = gauge("unschedule_job_count", "jobs that could not be scheduled")
        self._waiting_tasks = gauge(
            "unschedule_task_count", "tasks of a job that could not be scheduled", "job_id"
        )
        self._pending_jobs = gauge("pending_jobs", "jobs that wait, by queue and code", "queue", "code")
        self._pending_series: set[tuple[str, str]] = set()
        self._skipped_jobs = gauge(
            "skipped_jobs", "jobs skipped because a plugin failed, until they are tried again", "plugin"
        )
        self._timestamps = JobTimestamps(f"{NAMESPACE}_e2e_job_scheduling", self.registry)
        self._plugin_gauges = PluginGauges(NAMESPACE, self.registry)
        self._waiting: set[str] = set()  # names of the jobs that have series
        self._failing: set[str] = set()  # plugins that have series
        self._totals: dict[str, QueueTotals] = {}  # as last exported
        self._created: dict[str, float] = {}  # of tasks that are placed and not bound yet

    # -- observations ------------------------------------------------------------------------------

    def watched(self, task: Task, now: float) -> None:
        """Observes the first event of a pending pod."""
        self._observe("task", now - task.created, "Watched")

    def cycle(self, outcome: Outcome, snapshot: Snapshot) -> None:
        """Observes the outcome of one cycle."""
        for (what, *labels), seconds in outcome.timings.items():
            self._observe(what, seconds, *labels)
        self._count_victims(outcome)
        bound = [decision for decision in outcome.decisions if isinstance(decision, Bind)]
        self._attempts.labels("scheduled").inc(len(bound))
        self._attempts.labels("unschedulable").inc(len(outcome.diagnoses))
        self._set_waiting(outcome, snapshot, collections.Counter(decision.job for decision in bound))
        self._set_pending(outcome, snapshot)
        self._set_skipped(outcome)
        for uid in snapshot.changed:
            if uid not in snapshot.jobs:
                self._timestamps.forget(uid)
                self._retries.forget(uid.rsplit("/", 1)[1])
        self._plugin_gauges.update((*self._queue_samples(snapshot), *outcome.samples), snapshot)

    def placed(self, decisions: Iterable[Decision], snapshot: Snapshot) -> None:
        """Observes placements that are about to be written."""
        for decision in decisions:
            if isinstance(decision, Bind):
                self._observe_placement(decision, snapshot)

    def bound(self, decision: Bind, now: Instant, claims: float, binding: float) -> None:
        """Observes a written binding: seconds for the volume claims of the pod, and for the binding itself."""
        self._observe("stage", claims, "PreBind")
        self._observe("stage", binding, "Bind")
        created = self._created.pop(decision.task, None)
        if created is not None:
            self._observe("task", now.wall - binding - created, "PreBound")
            self._observe("task", now.wall - created, "Bound")

    def binding_rejected(self, decision: Bind) -> None:
        """Forgets a placement whose binding was rejected."""
        self._created.pop(decision.task, None)

    # -- parts of a cycle --------------------------------------------------------------------------

    def _observe(self, what: str, seconds: float, *labels: str) -> None:
        series = self._series.get((what, *labels))
        if series is None:
            histogram = self._timed[what]
            series = self._series[what, *labels] = histogram.labels(*labels) if labels else histogram
        series.observe(max(seconds, 0.0) * 1000)

    def _count_victims(self, outcome: Outcome) -> None:
        victims = [decision for decision in outcome.decisions if isinstance(decision, Evict)]
        if not victims:
            return
        self._victims.set(len(victims))
        self._preemptions.inc()
        for action, _ in {(victim.reason, victim.on_behalf_of) for victim in victims}:
            self._evictions.labels(action).inc()

    def _observe_placement(self, decision: Bind, snapshot: Snapshot) -> None:
        job = snapshot.jobs.get(decision.job)
        if job is None:
            return
        self._observe("job", snapshot.now - job.created)
        self._timestamps.placed(job, snapshot.now)
        task = job.tasks.get(decision.task)
        if task is not None:
            self._created[task.uid] = task.created
            self._observe("task", snapshot.now - task.created, "Assumed")

    def _set_waiting(self, outcome: Outcome, snapshot: Snapshot, bound: collections.Counter[str]) -> None:
        self._waiting_jobs.set(len(outcome.diagnoses))
        waiting = {uid.rsplit("/", 1)[1] for uid in outcome.diagnoses}
        for name in self._waiting - waiting:
            self._waiting_tasks.remove(name)
        for uid in outcome.diagnoses:
            job, name = snapshot.jobs.get(uid), uid.rsplit("/", 1)[1]
            self._waiting_tasks.labels(name).set(job.count(Status.PENDING) - bound[uid] if job else 0)
            self._retries.inc(name)
        self._waiting = waiting

    def _set_pending(self, outcome: Outcome, snapshot: Snapshot) -> None:
        jobs = snapshot.jobs
        counts = collections.Counter(
            (jobs[uid].queue if uid in jobs else diagnosis.queue, str(diagnosis.code))
            for uid, diagnosis in outcome.diagnoses.items()
        )
        for gone in self._pending_series - counts.keys():
            self._pending_jobs.remove(*gone)
        for series, count in counts.items():
            self._pending_jobs.labels(*series).set(count)
        self._pending_series = set(counts)

    def _set_skipped(self, outcome: Outcome) -> None:
        if not outcome.faults and not self._failing:
            return
        skipped = collections.Counter(fault.plugin for fault in outcome.faults.values())
        self._failing |= skipped.keys()
        for plugin in self._failing:
            self._skipped_jobs.labels(plugin).set(skipped[plugin])

    def _queue_samples(self, snapshot: Snapshot) -> Iterator[MetricSample]:
        """Samples of queue totals that changed."""
        for name, totals in snapshot.totals.items():
            yield MetricSample("queue_weight", (name,), snapshot.queues[name].weight)
            if self._totals.get(name) is totals:
                continue
            self._totals[name] = totals
            yield from amounts("allocated", name, totals.allocated, snapshot.resources)
            yield from amounts("request", name, totals.requested, snapshot.resources)
            yield from amounts("inqueue", name, totals.inqueue, snapshot.resources)
        for name in self._totals.keys() - snapshot.totals.keys():
            del self._totals[name]
