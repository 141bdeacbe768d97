"""Topology of a session: demands of jobs, the domains they hold, and the domains that may take them."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from volcano.kube.api.names import ALLOCATED_HYPERNODE, SUB_GROUP_HYPERNODES
from volcano.model.job import Job, SubJob
from volcano.model.resources import Mask
from volcano.model.status import HOLDING, Status
from volcano.model.task import Task
from volcano.scheduler.engine.domain_table import DomainTable, Numbers, prefer_full_domains
from volcano.scheduler.engine.placement.cycle import PlacementCycle
from volcano.scheduler.engine.topology.demand import Demand, Limit, demand_of
from volcano.scheduler.engine.topology.rooms import Rooms

if TYPE_CHECKING:
    from volcano.scheduler.engine.topology.reasons import Shortage

PLACED = frozenset((Status.ALLOCATED, Status.PIPELINED))


class SessionTopology:
    """Answers about jobs and domains in one cycle, computed on demand."""

    def __init__(self, session: PlacementCycle) -> None:
        self._session = session
        self.view = session.snapshot.topology
        self._demands: dict[str, Demand | None] = {}
        self._rows: dict[str, tuple[Numbers, bool]] = {}
        self._masks: dict[int, Mask] = {}
        # Jobs that no domain has room for, by what they ask for: the state of the nodes, and the reason.
        self.failures: dict[object, tuple[object, Shortage]] = {}

    @cached_property
    def rooms(self) -> Rooms:
        return Rooms(self._session)

    def demand(self, job: Job) -> Demand | None:
        """Demand of a job; None when its pods may go anywhere."""
        if job.group.topology is None and not job.group.sub_groups:
            return None
        if job.uid not in self._demands:
            self._demands[job.uid] = demand_of(job, self.view)
        return self._demands[job.uid]

    def mask(self, domain: int) -> Mask:
        """Nodes of a domain, as a mask over all of them."""
        found = self._masks.get(domain)
        if found is None:
            found = self._masks[domain] = self.view.mask(domain)
        return found

    # -- held domains ------------------------------------------------------------------------------

    def held_now(self, job: Job | SubJob) -> int | None:
        """As `held`, without tasks that are only to be placed once resources are released."""
        return self.held(job, HOLDING)

    def held(self, job: Job | SubJob, placed_as: frozenset[Status] = PLACED) -> int | None:
        """The lowest domain with all pods of a job or sub-group that hold resources or are placed in this cycle."""
        rows, unknown = self._held_rows(job)
        ledger = self._session.ledger
        placed = [
            row
            for task in job.by_status.get(Status.PENDING, ())
            if ledger.status(task) in placed_as and (row := ledger.row(task)) is not None
        ]
        every = np.concatenate((rows, np.array(placed, dtype=np.intp))) if placed else rows
        if not len(every):
            return self._recorded(job) if unknown else None
        found = self.view.lowest_containing(every)
        recorded = self._recorded(job) if unknown else None
        # A pod on a node that no longer exists was inside the recorded domain.
        if recorded is not None and self.view.below(recorded)[found]:
            return recorded
        return found

    def _held_rows(self, job: Job | SubJob) -> tuple[Numbers, bool]:
        """Rows of the pods that held resources at the start and are not evicted; whether one is on no known node."""
        ledger = self._session.ledger
        known = self._rows.get(job.uid)
        if known is not None and not ledger.evictions:
            return known
        tasks = [task for status in HOLDING for task in job.by_status.get(status, ())]
        if ledger.evictions:
            tasks = [task for task in tasks if ledger.status(task) in HOLDING]
        rows = [self.view.row_of.get(task.node) for task in tasks]
        found = np.array([row for row in rows if row is not None], dtype=np.intp), None in rows
        if not ledger.evictions:
            self._rows[job.uid] = found
        return found

    def _recorded(self, job: Job | SubJob) -> int | None:
        """The domain that an earlier cycle, or an earlier scheduler process, stored on the PodGroup."""
        owner = job if isinstance(job, Job) else self._session.snapshot.jobs[job.job]
        annotations = owner.group.annotations
        if isinstance(job, Job):
            name = annotations.get(ALLOCATED_HYPERNODE, "")
        else:
            name = recorded_sub_groups(annotations.get(SUB_GROUP_HYPERNODES, "")).get(key_of(job), "")
        return self.view.number.get(name)

    # -- candidates --------------------------------------------------------------------------------

    def candidates(self, limit: Limit | None, inside: int, held: int | None) -> list[Numbers]:
        """Domains inside one that may take the pods, in groups: the first group with one that works is used.

        Without pods that hold resources: all domains up to the limit by tier. Otherwise the held domain, then its
        ancestors up to the limit. Without a limit: the domain itself.
        """
        view = self.view
        if limit is None:
            return [np.array((inside,), dtype=np.intp)]
        allowed = (view.tiers <= limit.tier) & view.below(inside)
        if held is not None:
            return [np.array((number,), dtype=np.intp) for number in view.ancestors(held) if allowed[number]]
        numbers = np.flatnonzero(allowed)
        ends = np.flatnonzero(np.diff(view.tiers[numbers])) + 1
        return [group for group in np.split(numbers, ends) if len(group)]

    def ordered(
        self, job: Job | SubJob, tasks: Sequence[Task], numbers: Numbers, room: Numbers
    ) -> Iterator[int]:
        """Domains of one tier, the most suitable first."""
        if len(numbers) > 1:
            table = DomainTable(self.view, self._session.nodes, numbers, room[numbers])
            scores = self._session.policy.score_domains(job, tasks, table)
            scores = prefer_full_domains(tasks, table) if scores is None else scores
            # Numbers of one tier are in the order of names.
            numbers = numbers[np.argsort(-scores, kind="stable")]
        yield from numbers.tolist()

    def roomiest(self, limit: Limit, tasks: Sequence[Task], queue: str) -> int | None:
        """The lowest domain within a limit with idle resources for these identical tasks; None when there is none."""
        room = self.rooms.of(tasks[0], queue, pipelined=False)
        if limit.problem or room is None:
            return None
        enough = np.flatnonzero((self.view.tiers <= limit.tier) & (room.in_domain >= len(tasks)))
        return int(enough[0]) if len(enough) else None

    def nominated(self, tasks: Sequence[Task]) -> int | None:
        """The lowest domain with all nodes that tasks are nominated to: pods were evicted there for them."""
        rows = [self.view.row_of.get(task.nominated) for task in tasks if task.nominated]
        known = [row for row in rows if row is not None]
        return self.view.lowest_containing(np.array(known, dtype=np.intp)) if known else None


def key_of(sub_job: SubJob) -> str:
    """Name of a sub-group inside its job."""
    return sub_job.uid.removeprefix(f"{sub_job.job}/")


def recorded_sub_groups(text: str) -> dict[str, str]:
    """Domains by sub-group from the annotation; empty when there are none or it cannot be read."""
    try:
        return msgspec.json.decode(text, type=dict[str, str]) if text else {}
    except msgspec.MsgspecError:
        return {}
