"""The scheduler's metrics, under Volcano's names."""

from prometheus_client import Counter, Gauge, Histogram

from volcano.metrics import CollectorRegistry
from volcano.model.decisions import Bind, Evict
from volcano.model.snapshot import Snapshot
from volcano.scheduler.readings import Dials
from volcano.scheduler.session import Outcome

NAMESPACE = "volcano"


def _exponential(low: float, high: float, count: int) -> list[float]:
    factor = (high / low) ** (1 / (count - 1))
    return [low * factor**i for i in range(count)]


class Gauges:
    """What is counted and timed; one registry per scheduler, so that several may live in one process."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()

        def histogram(name: str, text: str, low: float, high: float, count: int, *labels: str) -> Histogram:
            buckets = _exponential(low, high, count)
            return Histogram(name, text, labels, namespace=NAMESPACE, buckets=buckets, registry=self.registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, namespace=NAMESPACE, registry=self.registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, namespace=NAMESPACE, registry=self.registry)

        self._e2e = histogram("e2e_scheduling_latency_milliseconds", "one cycle", 1, 5000, 20)
        self._open = histogram("open_session_duration_milliseconds", "opening a session", 1, 5000, 20)
        self._actions = histogram(
            "action_scheduling_latency_milliseconds", "one action", 1, 2000, 20, "action"
        )
        self._attempts = counter("schedule_attempts", "tasks tried, by what came of it", "result")
        self._job_latency = histogram(
            "e2e_job_scheduling_latency_milliseconds",
            "from a job's creation to a task's node",
            100,
            120_000,
            30,
        )
        self._victims = gauge("pod_preemption_victims", "victims of the last cycle that evicted")
        # A counter by meaning; the library would add to a counter's name.
        self._preemptions = gauge("total_preemption_attempts", "cycles that evicted somebody")
        self._evictions = counter("eviction_transactions", "jobs room was made for", "action")
        self._waiting_jobs = gauge("unschedule_job_count", "jobs that wait")
        self._waiting_tasks = gauge("unschedule_task_count", "tasks of a job that wait", "job_id")
        self._queues = {
            name: gauge(f"queue_{name}", f"{name} of a queue", "queue_name")
            for name in (
                "allocated_milli_cpu",
                "allocated_memory_bytes",
                "request_milli_cpu",
                "request_memory_bytes",
                "inqueue_milli_cpu",
                "inqueue_memory_bytes",
                "weight",
            )
        }
        self._known_jobs: set[str] = set()
        self._dials = Dials(NAMESPACE, self.registry)

    def cycle(self, outcome: Outcome, snapshot: Snapshot) -> None:
        """Takes in what one cycle came to."""
        for name, seconds in outcome.timings.items():
            if name == "total":
                self._e2e.observe(seconds * 1000)
            elif name == "open":
                self._open.observe(seconds * 1000)
            else:
                self._actions.labels(name.removeprefix("action:")).observe(seconds * 1000)
        victims = [decision for decision in outcome.decisions if isinstance(decision, Evict)]
        if victims:
            self._victims.set(len(victims))
            self._preemptions.inc()
            for action in {(victim.reason, victim.on_behalf_of) for victim in victims}:
                self._evictions.labels(action[0]).inc()
        self._attempts.labels("scheduled").inc(sum(isinstance(d, Bind) for d in outcome.decisions))
        self._attempts.labels("unschedulable").inc(len(outcome.verdicts))
        for decision in outcome.decisions:
            if isinstance(decision, Bind) and (job := snapshot.jobs.get(decision.job)) is not None:
                self._job_latency.observe(max(snapshot.now - job.created, 0.0) * 1000)
        self._jobs(outcome, snapshot)
        self._queue_totals(snapshot)
        self._dials.show(outcome.readings, snapshot)

    def bound(self, decision: Bind) -> None:
        """A binding was written."""

    def _jobs(self, outcome: Outcome, snapshot: Snapshot) -> None:
        self._waiting_jobs.set(len(outcome.verdicts))
        waiting = {uid.rsplit("/", 1)[1] for uid in outcome.verdicts}
        for name in self._known_jobs - waiting:
            self._waiting_tasks.remove(name)
        for uid in outcome.verdicts:
            job = snapshot.jobs.get(uid)
            self._waiting_tasks.labels(uid.rsplit("/", 1)[1]).set(len(job.tasks) if job else 0)
        self._known_jobs = waiting

    def _queue_totals(self, snapshot: Snapshot) -> None:
        for name, totals in snapshot.totals.items():
            for what, vector in (
                ("allocated", totals.allocated),
                ("request", totals.requested),
                ("inqueue", totals.inqueue),
            ):
                self._queues[f"{what}_milli_cpu"].labels(name).set(float(vector[0]))
                self._queues[f"{what}_memory_bytes"].labels(name).set(float(vector[1]))
            self._queues["weight"].labels(name).set(snapshot.queues[name].weight)
