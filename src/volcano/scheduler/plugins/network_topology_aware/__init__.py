"""network-topology-aware: prefer full domains and near nodes, so that whole domains stay free.

The limits of `networkTopology` hold without this plugin. It adds scores: of domains for gangs that ask for one, of
nodes near the pods of such a gang, and of nodes in full domains for all other pods.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np

from volcano.model.job import Job, SubJob
from volcano.model.resources import Vector
from volcano.model.status import HOLDING
from volcano.model.task import Task
from volcano.scheduler.engine.answers import MAX_SCORE
from volcano.scheduler.engine.arguments import Argument, Arguments, Type
from volcano.scheduler.engine.domain_table import DomainTable
from volcano.scheduler.engine.node_table import NodeTable
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.network_topology_aware.formulas import (
    Numbers,
    filled,
    nearness,
    tier_weights,
    with_members,
)

PREFIX = "hypernode.binpack"
NORMAL = f"{PREFIX}.normal-pod"
FADING = 0.8
NOWHERE = -1  # a node in no domain of a tier
SCORING = frozenset(("score_domains", "score_nodes_together", "on_allocate"))


class NetworkTopologyAware(Plugin):
    """Scores: `100 x weight x` a number from 0 to 1."""

    session: Session
    arguments: ClassVar = (
        Argument("weight"),
        Argument(f"{PREFIX}.cpu"),
        Argument(f"{PREFIX}.memory"),
        Argument(f"{PREFIX}.resources", Type.TEXT),
        Argument(f"{PREFIX}.resources.*"),
        Argument(f"{NORMAL}.enable", Type.BOOLEAN),
        Argument(f"{NORMAL}.fading", Type.NUMBER),
        Argument("hypernode.gradient.evict.max-hypernodes"),  # read by the actions that evict
    )

    def open(self, arguments: Arguments) -> None:
        self._factor = MAX_SCORE * _not_negative(arguments.integer("weight", 1), 1)
        keys = {"cpu": f"{PREFIX}.cpu", "memory": f"{PREFIX}.memory"}
        keys |= {name: f"{PREFIX}.resources.{name}" for name in arguments.strings(f"{PREFIX}.resources")}
        weights = {name: _not_negative(arguments.integer(key, 1), 1) for name, key in keys.items()}
        self._weights = self.resources.vector(weights)
        self._packs_others = arguments.boolean(f"{NORMAL}.enable", True)
        self._fading = _not_negative(arguments.number(f"{NORMAL}.fading", FADING), FADING)
        self._topology = self.snapshot.topology
        self._members: dict[str, Counter[int]] = {}  # job or sub-group → its placed pods by lowest domain
        self._common: dict[int, Numbers] = {}
        if not self._factor or not self._topology.exists:
            self.unused_hooks = SCORING

    # -- domains -----------------------------------------------------------------------------------

    def score_domains(self, job: Job | SubJob, tasks: Sequence[Task], domains: DomainTable) -> Vector | None:
        """Scores a domain by its usage with the tasks added; below those, domains for fewer of the tasks.

        Pods of the job that run are part of the usage and are not added again; the domain that the job holds is tried
        before others in any case.
        """
        request = sum((task.request for task in tasks), np.zeros(self.resources.width))
        score = filled(domains.used, request, domains.allocatable, self._weights)
        part = np.minimum(domains.room / max(len(tasks), 1), 1.0)
        return self._factor * np.where(part < 1.0, part - 1.0, score)

    # -- nodes -------------------------------------------------------------------------------------

    def score_nodes_together(self, task: Task, nodes: NodeTable) -> Vector | None:
        job = self.snapshot.jobs.get(task.job)
        if job is None:
            return None
        if self.session.topology.demand(job) is not None:
            return self._near(self._part_of(job, task), nodes)
        return self._full(task, nodes) if self._packs_others else None

    def _near(self, part: Job | SubJob, nodes: NodeTable) -> Vector | None:
        """Scores nodes near the pods of the job or sub-group that are placed already."""
        lowest = self._lowest[nodes.index]
        if not len(lowest) or (lowest == lowest[0]).all():
            return None
        members = self._members_of(part)
        if not members:
            return np.zeros(len(nodes))
        reference = self._around(members)
        tiers = self._topology.tiers
        score = nearness(self._common_tiers(reference)[lowest], int(tiers[0]), int(tiers[-1]))
        score = np.where(lowest == self._topology.root, 0.0, np.where(lowest == reference, 1.0, score))
        counts = np.zeros(len(self._topology))
        counts[list(members)] = list(members.values())
        total = max(len(part.tasks), 1)
        return self._factor * with_members(score, counts[lowest] / total)

    def _full(self, task: Task, nodes: NodeTable) -> Vector:
        """Scores nodes whose domains would be full with the task."""
        shares = filled(self._used, task.request, self._allocatable, self._weights)
        weights = tier_weights(self._tiers, self._fading)
        score = np.zeros(len(nodes))
        for weight, domains in zip(weights, self._domain_at, strict=True):
            if weight:
                found = domains[nodes.index]
                score += weight * np.where(found == NOWHERE, 1.0, shares[found])
        return self._factor * score / weights.sum() if weights.sum() else score

    def on_allocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self._add(tasks, rows, 1)
        self.ledger.record_undo(lambda: self._add(tasks, rows, -1))

    def _add(self, tasks: Sequence[Task], rows: Sequence[int], by: int) -> None:
        """Adds placed tasks to the usage of domains and to the members of their job."""
        if "_used" in self.__dict__:
            for domains in self._domain_at:
                found = domains[np.asarray(rows, dtype=np.intp)]
                np.add.at(self._used, found[found != NOWHERE], tasks[0].request * by)
        job = self.snapshot.jobs.get(tasks[0].job)
        if job is None or not self._members:
            return
        for task, row in zip(tasks, rows, strict=True):
            members = self._members.get(self._part_of(job, task).uid)
            if members is not None:
                lowest = int(self._lowest[row])
                members[lowest] += by
                if not members[lowest]:
                    del members[lowest]

    # -- facts of the cycle ------------------------------------------------------------------------

    @staticmethod
    def _part_of(job: Job, task: Task) -> Job | SubJob:
        """The sub-group of a task, or its job where there are no sub-groups."""
        return job.sub_jobs[job.sub_job_of[task.uid]] if job.sub_jobs else job

    def _members_of(self, part: Job | SubJob) -> Counter[int]:
        found = self._members.get(part.uid)
        if found is None:
            rows = [
                row
                for status in HOLDING
                for task in part.by_status.get(status, ())
                if (row := self._topology.row_of.get(task.node)) is not None
            ]
            placed = [
                row
                for tasks in part.by_status.values()
                for task in tasks
                if self.ledger.changed(task) and (row := self.ledger.row(task)) is not None
            ]
            found = self._members[part.uid] = Counter(int(self._lowest[row]) for row in (*rows, *placed))
        return found

    def _around(self, members: Counter[int]) -> int:
        """The lowest domain around some domains."""
        tree, names = self._topology.tree, [self._topology.domains[number].name for number in members]
        common = names[0]
        for name in names[1:]:
            common = tree.common(common, name).name
        return self._topology.number[common]

    def _common_tiers(self, reference: int) -> Numbers:
        """Tier of the lowest domain around each domain and a reference."""
        found = self._common.get(reference)
        if found is None:
            found = self._common[reference] = np.empty(len(self._topology), dtype=np.intp)
            for domain in reversed(self._topology.ancestors(reference)):
                found[self._topology.below(domain)] = self._topology.tiers[domain]
        return found

    @cached_property
    def _lowest(self) -> Numbers:
        """Number of the lowest domain of each node; that of the root for nodes in no HyperNode."""
        found = np.full(len(self.nodes), self._topology.root, dtype=np.intp)
        for number in range(self._topology.root - 1, -1, -1):  # the lowest tier is written last
            found[self._topology.rows_of(number)] = number
        return found

    @cached_property
    def _tiers(self) -> list[int]:
        """All tiers from the lowest to that of the root."""
        tiers = self._topology.tiers
        return list(range(int(tiers[0]), int(tiers[-1]) + 1))

    @cached_property
    def _domain_at(self) -> list[Numbers]:
        """For each tier the number of the domain of each node."""
        found = {tier: np.full(len(self.nodes), NOWHERE, dtype=np.intp) for tier in self._tiers}
        for number in range(self._topology.root, -1, -1):  # the first by name is written last
            found[int(self._topology.tiers[number])][self._topology.rows_of(number)] = number
        return [found[tier] for tier in self._tiers]

    @cached_property
    def _allocatable(self) -> Vector:
        every: Vector = self._topology.sums(self.nodes.allocatable)
        return every

    @cached_property
    def _used(self) -> Vector:
        every: Vector = self._topology.sums(self.nodes.used)
        return every


def _not_negative(value: float, default: float) -> float:
    return value if value >= 0 else default
