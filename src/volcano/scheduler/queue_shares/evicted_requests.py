"""Requests of evicted pods: they count as requested until replacements exist, so that shares do not oscillate."""

from collections.abc import Mapping
from typing import Any

from volcano.model.job import Job
from volcano.model.queue import QueueTotals
from volcano.model.resources import STEP, Vector, positive
from volcano.model.snapshot import Snapshot
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.answers import Memory
from volcano.scheduler.engine.ledger_view import Eviction, LedgerView

REPLACEMENT_TIMEOUT = 60.0  # seconds after the evicted pods are gone


class EvictedRequests:
    """Requests of the jobs of each queue before evictions, as far as they are not made again yet.

    The state is kept in the memory of the plugin, by job: the requests of evicted pods, what the job requested
    without them, and how long replacements are waited for once the pods are gone.
    """

    def __init__(self, snapshot: Snapshot, ledger: LedgerView, memory: Any) -> None:
        self._snapshot = snapshot
        self._ledger = ledger
        self._records: dict[str, dict[str, Any]] = {}
        self.by_queue: dict[str, Vector] = {}
        for uid, record in (memory or {}).items():
            job = snapshot.jobs.get(uid)
            if job is not None and (left := self._outstanding(job, record)) is not None:
                self._records[uid] = left
                amount = snapshot.resources.vector(left["evicted"])
                self.by_queue[job.queue] = self.by_queue.get(job.queue, snapshot.resources.zeros()) + amount

    def added_to(self, totals: Mapping[str, QueueTotals]) -> dict[str, Vector]:
        """Returns the requests of each queue, with those of its evicted pods."""
        requested = {name: total.requested for name, total in totals.items()}
        for name, amount in self.by_queue.items():
            requested[name] = requested[name] + amount
        return requested

    def _outstanding(self, job: Job, record: dict[str, Any]) -> dict[str, Any] | None:
        """Returns the record of a job without what it requests again; None when nothing is left."""
        resources, now = self._snapshot.resources, self._snapshot.now
        rest = resources.vector(record["rest"])
        evicted = positive(resources.vector(record["evicted"]) - positive(job.requested - rest))
        pods = [uid for uid in record["pods"] if _is_leaving(job.tasks.get(uid))]
        until = now + REPLACEMENT_TIMEOUT if pods else record["until"]
        if not (evicted >= STEP).any() or now >= until:
            return None
        return _record(resources.amounts(evicted), resources.amounts(job.requested), pods, until)

    def memory(self) -> Memory | None:
        """Returns the records for the next cycle, with the evictions of this one; due when the next one expires."""
        evicted: dict[str, list[Task]] = {}
        if self._ledger.evictions:
            for change in self._ledger.committed:
                if isinstance(change, Eviction):
                    evicted.setdefault(change.task.job, []).append(change.task)
        for uid, tasks in evicted.items():
            if uid in self._snapshot.jobs:
                self._records[uid] = self._with_evictions(self._snapshot.jobs[uid], tasks)
        if not self._records:
            return None
        # Until the pods are gone, each cycle postpones the end of the time for their replacement.
        leaving = any(record["pods"] for record in self._records.values())
        until = min(record["until"] for record in self._records.values())
        return Memory(self._records, self._snapshot.now if leaving else until)

    def _with_evictions(self, job: Job, tasks: list[Task]) -> dict[str, Any]:
        resources = self._snapshot.resources
        lost: Vector = sum((task.request for task in tasks), start=resources.zeros())
        known = self._records.get(job.uid)
        before = resources.vector(known["evicted"]) if known else resources.zeros()
        pods = [*(known["pods"] if known else ()), *(task.uid for task in tasks)]
        return _record(
            resources.amounts(before + lost),
            resources.amounts(job.requested - lost),
            pods,
            self._snapshot.now + REPLACEMENT_TIMEOUT,
        )


def _record(
    evicted: dict[str, float], rest: dict[str, float], pods: list[str], until: float
) -> dict[str, Any]:
    return {"evicted": evicted, "rest": rest, "pods": pods, "until": until}


def _is_leaving(task: Task | None) -> bool:
    return task is not None and task.status is Status.RELEASING
