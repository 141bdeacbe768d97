"""Buckets: groups of tasks of one job that should share a node."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

MIB = 2.0**20
# Topology types of a role, by weight; the largest that applies counts.
SELF_ANTI_AFFINITY, INTER_AFFINITY, SELF_AFFINITY, INTER_ANTI_AFFINITY = 4, 3, 2, 1


@dataclass(frozen=True, slots=True)
class BucketTask:
    """A task in a bucket."""

    uid: str
    name: str
    role: str
    node: str  # node it already runs on, or empty
    request: Vector


@dataclass(frozen=True, slots=True)
class TopologyRules:
    """Affinity and anti-affinity of a job's roles, as ordered pairs; a role may be paired with itself."""

    affinity: frozenset[tuple[str, str]]
    anti_affinity: frozenset[tuple[str, str]]
    order: tuple[str, ...]  # order of roles given by the user

    def topology_type(self, role: str) -> int:
        """Returns the type of a role, which orders roles; 0 without rules."""
        return max(
            SELF_ANTI_AFFINITY * ((role, role) in self.anti_affinity),
            INTER_AFFINITY * any(one == role != other for one, other in self.affinity),
            SELF_AFFINITY * ((role, role) in self.affinity),
            INTER_ANTI_AFFINITY * any(one == role != other for one, other in self.anti_affinity),
        )

    def rank(self, role: str) -> tuple[int, int]:
        """Returns the sort key of a role: the user's order, then its type."""
        listed = self.order.index(role) if role in self.order else len(self.order)
        return (listed, -self.topology_type(role))

    def affinity_score(self, role: str, present: Counter[str]) -> int:
        """Returns the affinities less the anti-affinities of a task of `role` with tasks of these roles."""
        return sum(
            count * (((role, other) in self.affinity) - ((role, other) in self.anti_affinity))
            for other, count in present.items()
        )

    def anti_affinity_penalty(self, role: str, present: Counter[str]) -> int:
        """Returns the affinity score if it is negative, otherwise 0."""
        return min(0, self.affinity_score(role, present))


def parse_rules(
    affinity: str, anti_affinity: str, order: str, roles: Collection[str]
) -> TopologyRules | None:
    """Parses a PodGroup's annotations; None when there are none or a task name is unknown or repeated."""
    groups = [_groups(affinity), _groups(anti_affinity), [_names(order)] if order.strip() else []]
    if not groups[0] and not groups[1]:
        return None
    for names in (names for group in groups for names in group):
        if len(set(names)) != len(names) or not set(names) <= set(roles):
            return None
    return TopologyRules(_pairs(groups[0]), _pairs(groups[1]), tuple(groups[2][0]) if groups[2] else ())


def _groups(text: str) -> list[list[str]]:
    return [_names(group) for group in text.split(";") if group.strip()]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _pairs(groups: Iterable[list[str]]) -> frozenset[tuple[str, str]]:
    """Pairs the role of a group of one with itself, and the roles of a larger group with each other."""
    return frozenset(
        (one, other)
        for names in groups
        for one in names
        for other in names
        if one != other or len(names) == 1
    )


@dataclass(slots=True)
class Bucket:
    """One group: its tasks in the order they were added, the pending ones, and the nodes of the others."""

    index: int
    request: Vector  # of the tasks pending when the buckets were constructed
    tasks: dict[str, BucketTask] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    roles: Counter[str] = field(default_factory=Counter)
    placed: Counter[str] = field(default_factory=Counter)  # node → tasks there

    @property
    def size(self) -> int:
        return len(self.pending) + self.placed.total()

    @property
    def request_score(self) -> float:
        """Returns one number for the request: milli-cpu plus MiB plus all other resources."""
        return float(self.request[0] + self.request[1] / MIB + self.request[2:].sum())

    def add(self, task: BucketTask) -> None:
        self.tasks[task.uid] = task
        self.roles[task.role] += 1
        if task.node:
            self.placed[task.node] += 1
        else:
            self.pending.add(task.uid)
            self.request = self.request + task.request

    def bind(self, uid: str, node: str) -> None:
        self.pending.discard(uid)
        self.placed[node] += 1

    def unbind(self, uid: str, node: str) -> None:
        self.pending.add(uid)
        self.placed[node] -= 1

    def growing_request(self, first: str) -> NDArray[np.float64]:
        """Row k is the request of `first` and the next k pending tasks together (tasks, resources)."""
        others = [task.request for uid, task in self.tasks.items() if uid in self.pending and uid != first]
        return np.cumsum([self.tasks[first].request, *others], axis=0)


def construct_buckets(tasks: Iterable[BucketTask], rules: TopologyRules, width: int) -> list[Bucket]:
    """Sorts the tasks into buckets: placed ones by node, then each into the bucket with the highest score."""
    concerned = [task for task in tasks if task.role and rules.topology_type(task.role)]
    concerned.sort(key=lambda task: (not task.node, task.node, rules.rank(task.role), task.name))
    buckets: list[Bucket] = []
    by_node: dict[str, Bucket] = {}
    for task in concerned:
        bucket = by_node.get(task.node) if task.node else _best_bucket(task, buckets, rules)
        if bucket is None:
            bucket = Bucket(len(buckets), np.zeros(width))
            buckets.append(bucket)
        if task.node:
            by_node[task.node] = bucket
        bucket.add(task)
    return buckets


def _best_bucket(task: BucketTask, buckets: list[Bucket], rules: TopologyRules) -> Bucket | None:
    """Returns the bucket with the highest affinity score, then the smallest; None if all are negative."""
    if not buckets:
        return None
    best = max(
        buckets, key=lambda bucket: (rules.affinity_score(task.role, bucket.roles), -bucket.request_score)
    )
    return None if rules.affinity_score(task.role, best.roles) < 0 else best
