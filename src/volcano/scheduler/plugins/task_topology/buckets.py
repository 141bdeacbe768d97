"""Buckets: the tasks of one job sorted into groups that want to share a node."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

MIB = 2.0**20
# What a role's wishes are worth when tasks are sorted; the largest that applies counts.
APART_FROM_ITSELF, WITH_OTHERS, WITH_ITSELF, APART_FROM_OTHERS = 4, 3, 2, 1


@dataclass(frozen=True, slots=True)
class Member:
    """A task as the buckets see it."""

    uid: str
    name: str
    role: str
    node: str  # where it already runs, or empty
    request: Vector


@dataclass(frozen=True, slots=True)
class Wishes:
    """Which roles of a job want to be together or apart, as ordered pairs; a role may be paired with itself."""

    together: frozenset[tuple[str, str]]
    apart: frozenset[tuple[str, str]]
    order: tuple[str, ...]  # the user's own order of roles, first goes first

    def kind(self, role: str) -> int:
        """How much a role's placement matters to the others."""
        return max(
            APART_FROM_ITSELF * ((role, role) in self.apart),
            WITH_OTHERS * any(one == role != other for one, other in self.together),
            WITH_ITSELF * ((role, role) in self.together),
            APART_FROM_OTHERS * any(one == role != other for one, other in self.apart),
        )

    def rank(self, role: str) -> tuple[int, int]:
        """Sort key of a role: the user's order, then its kind."""
        listed = self.order.index(role) if role in self.order else len(self.order)
        return (listed, -self.kind(role))

    def value(self, role: str, present: Counter[str]) -> int:
        """How much a task of `role` gains by joining tasks of these roles."""
        return sum(
            count * (((role, other) in self.together) - ((role, other) in self.apart))
            for other, count in present.items()
        )

    def dislike(self, role: str, present: Counter[str]) -> int:
        """How many of the present tasks a task of `role` would rather avoid, net of those it likes; 0 or less."""
        return min(0, self.value(role, present))


def parse_wishes(affinity: str, anti_affinity: str, order: str, roles: Collection[str]) -> Wishes | None:
    """The wishes in a PodGroup's annotations; None when there are none or a name in them is unknown or repeated."""
    groups = [_groups(affinity), _groups(anti_affinity), [_names(order)] if order.strip() else []]
    if not groups[0] and not groups[1]:
        return None
    for names in (names for group in groups for names in group):
        if len(set(names)) != len(names) or not set(names) <= set(roles):
            return None
    return Wishes(_pairs(groups[0]), _pairs(groups[1]), tuple(groups[2][0]) if groups[2] else ())


def _groups(text: str) -> list[list[str]]:
    return [_names(group) for group in text.split(";") if group.strip()]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _pairs(groups: Iterable[list[str]]) -> frozenset[tuple[str, str]]:
    """A group of one name pairs the role with itself, a larger group every two different ones."""
    return frozenset(
        (one, other)
        for names in groups
        for one in names
        for other in names
        if one != other or len(names) == 1
    )


@dataclass(slots=True)
class Bucket:
    """One group: its members in the order they joined, who of them still waits, and where the others are."""

    index: int
    request: Vector  # of all who waited when the bucket was filled
    members: dict[str, Member] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    roles: Counter[str] = field(default_factory=Counter)
    placed: Counter[str] = field(default_factory=Counter)  # node → members there

    @property
    def size(self) -> int:
        return len(self.waiting) + self.placed.total()

    @property
    def bulk(self) -> float:
        """One number for what the bucket asks for: milli-cpu, MiB and everything else as it is."""
        return float(self.request[0] + self.request[1] / MIB + self.request[2:].sum())

    def take(self, member: Member) -> None:
        self.members[member.uid] = member
        self.roles[member.role] += 1
        if member.node:
            self.placed[member.node] += 1
        else:
            self.waiting.add(member.uid)
            self.request = self.request + member.request

    def settle(self, uid: str, node: str) -> None:
        """A waiting member found its node."""
        self.waiting.discard(uid)
        self.placed[node] += 1

    def unsettle(self, uid: str, node: str) -> None:
        """A member's placement was undone."""
        self.waiting.add(uid)
        self.placed[node] -= 1

    def growing_request(self, first: str) -> NDArray[np.float64]:
        """Row k is what `first` and the next k waiting members ask for together (members, resources)."""
        others = [
            member.request for uid, member in self.members.items() if uid in self.waiting and uid != first
        ]
        return np.cumsum([self.members[first].request, *others], axis=0)


def fill(members: Iterable[Member], wishes: Wishes, width: int) -> list[Bucket]:
    """Sort the members into buckets: those already placed by node, then each to where it is most wanted."""
    concerned = [member for member in members if member.role and wishes.kind(member.role)]
    concerned.sort(key=lambda member: (not member.node, member.node, wishes.rank(member.role), member.name))
    buckets: list[Bucket] = []
    by_node: dict[str, Bucket] = {}
    for member in concerned:
        bucket = by_node.get(member.node) if member.node else _most_wanted(member, buckets, wishes)
        if bucket is None:
            bucket = Bucket(len(buckets), np.zeros(width))
            buckets.append(bucket)
        if member.node:
            by_node[member.node] = bucket
        bucket.take(member)
    return buckets


def _most_wanted(member: Member, buckets: list[Bucket], wishes: Wishes) -> Bucket | None:
    """The bucket a waiting member gains most from, the smaller one on a tie; None when every one repels it."""
    if not buckets:
        return None
    best = max(buckets, key=lambda bucket: (wishes.value(member.role, bucket.roles), -bucket.bulk))
    return None if wishes.value(member.role, best.roles) < 0 else best
