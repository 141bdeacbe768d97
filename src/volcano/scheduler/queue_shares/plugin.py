"""Base class of plugins that give each queue a share and let it reclaim what others hold beyond theirs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.resources import Vector
from volcano.model.shares.tree import (
    QueueTree,
    build_tree,
    capability,
    guarantees,
    real_capabilities,
)
from volcano.model.task import Task
from volcano.scheduler.engine.answers import EvictionContext, Vote
from volcano.scheduler.engine.arguments import Arguments
from volcano.scheduler.engine.diagnosis import Rejection
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.engine.plugin_metrics import MetricSample, amounts
from volcano.scheduler.engine.session import Session
from volcano.scheduler.queue_shares.evicted_requests import EvictedRequests
from volcano.scheduler.queue_shares.queue_usage import QueueUsage, enqueue_rejection, overuse_tolerances
from volcano.scheduler.queue_shares.reclaim_rule import ReclaimRule, ReclaimTerms


class QueueShares(Plugin):
    """Counts what queues hold, and limits them by their capability. A subclass computes the shares."""

    session: Session

    def open(self, arguments: Arguments) -> None:
        self._kept: Sequence[Task] = ()
        self._context: EvictionContext | None = None

    @cached_property
    def tree(self) -> QueueTree:
        return build_tree(self.snapshot.queues)

    @cached_property
    def _total(self) -> Vector:
        return self.snapshot.total

    @cached_property
    def usage(self) -> QueueUsage:
        """Created on first use, which is before the first placement of the cycle."""
        return QueueUsage(self.snapshot, self.ledger, self.tree)

    @cached_property
    def guarantee(self) -> dict[str, Vector]:
        return guarantees(self.tree, self.resources)

    @cached_property
    def capability(self) -> dict[str, Vector]:
        """Upper limit of each queue: its capability, within the cluster without the others' guarantees."""
        return real_capabilities(self.tree, self.resources, self._total, self.guarantee)

    @cached_property
    def _requested(self) -> dict[str, Vector]:
        """Requests of each queue's own jobs, those of evicted pods included until they are replaced."""
        return self._evicted_requests.added_to(self.snapshot.totals)

    @cached_property
    def _memory(self) -> Mapping[str, Any]:
        return self.snapshot.memory.get(self.name) or {}

    @cached_property
    def _evicted_requests(self) -> EvictedRequests:
        return EvictedRequests(self.snapshot, self.ledger, self._memory)

    @cached_property
    def tolerance(self) -> dict[str, float]:
        return overuse_tolerances(self.snapshot.queues.values())

    def on_allocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self.usage.allocate(tasks)

    def on_deallocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self.usage.deallocate(tasks)

    def job_enqueueable(self, job: Job) -> Vote | Rejection:
        rejection = self._admission_rejection(job, self.snapshot.queues[job.queue])
        if rejection is None and job.group.min_resources is not None:
            rejection = enqueue_rejection(self.usage, job, self.capability, self.session.preempts)
        return rejection or Vote.PERMIT

    def _admission_rejection(self, job: Job, queue: Queue) -> Rejection | None:
        """Returns why the queue takes no such job at all."""
        raise NotImplementedError

    def job_enqueued(self, job: Job) -> None:
        self.usage.enqueue(job)

    def _metrics(self, name: str, share: float, overused: bool, deserved: Vector) -> Iterator[MetricSample]:
        yield MetricSample("queue_share", (name,), share)
        yield MetricSample("queue_overused", (name,), float(overused))
        declared = capability(self.snapshot.queues[name], self.resources)
        limits = (("deserved", deserved), ("capacity", declared), ("real_capacity", self.capability[name]))
        for what, vector in limits:
            yield from amounts(what, name, vector, self.resources)

    @property
    def _may_have_changed(self) -> bool:
        """Whether this cycle computed the shares, or could have changed them."""
        return "deserved" in self.__dict__ or bool(self.snapshot.changed)

    # -- reclaim ---------------------------------------------------------------------------------------------

    @cached_property
    def reclaim_rule(self) -> ReclaimRule:
        return ReclaimRule(self.usage, self.ledger, self._terms())

    def _terms(self) -> ReclaimTerms:
        """Returns the shares that the reclaim rule counts."""
        raise NotImplementedError

    def reclaim_opened(self, job: Job, tasks: Sequence[Task]) -> bool:
        return self.reclaim_rule.open(job, tasks)

    def reclaim_allowed(self, job: Job, evicted: Sequence[Task], placed: Sequence[Task]) -> bool:
        return self.reclaim_rule.allows(job, evicted, placed)

    def reclaim_closed(self, job: Job, committed: bool) -> None:
        self.reclaim_rule.close()

    @property
    def _is_asked(self) -> bool:
        """Whether `preemptive` is not switched off."""
        return "preemptive" not in self.session.policy.settings[self].disabled

    def filter_victims(self, context: EvictionContext, candidates: Sequence[Task]) -> Sequence[Task]:
        """Applies the reclaim rule, whichever tier the plugin is in."""
        if not context.purpose.across_queues:
            return candidates
        # The vote gets the result of this filter, and must not apply the rule again.
        self._kept, self._context = list(self._victims(context, candidates)), context
        return self._kept

    def reclaimable(self, context: EvictionContext, candidates: Sequence[Task]) -> Sequence[Task]:
        known = candidates is self._kept and context is self._context
        return candidates if known else list(self._victims(context, candidates))

    def _victims(self, context: EvictionContext, candidates: Sequence[Task]) -> Iterable[Task]:
        return self.reclaim_rule.victims(context, candidates)
