"""Shares of queues and users: a tree in which each queue or user is compared with its siblings.

The share of a queue is its weight, that of a user is given by the queue, or 1. For each of them, among the children of
the same queue:

    normalised share  = share / shares of all siblings
    effective usage   = decayed usage / decayed usage of all siblings
    fair-share factor = 2^(-effective usage / normalised share)

The factor is 1 without usage, 0.5 where exactly the share was used, and nears 0 where much more was. Siblings whose
usage has the ratio of their shares have the same factor: usage approaches the shares at each level of the tree.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from volcano.kube.api import names
from volcano.kube.api.names import ROOT_QUEUE
from volcano.model.annotations.user_shares import parse_shares
from volcano.model.queue import Queue
from volcano.scheduler.plugins.fairshare.usage import Account

DEFAULT_SHARE: Final = 1.0


@dataclass(frozen=True, slots=True)
class Share:
    """A queue or a user among its siblings."""

    queue: str
    user: str | None  # None for the queue itself
    level: int  # 0 for the root queue
    share: float  # weight of a queue, share of a user
    usage: float  # decayed usage by the prices of resources; of a queue, that of all below it
    normalised_share: float = 1.0
    effective_usage: float = 0.0
    factor: float = 1.0

    def among(self, shares: float, usage: float) -> "Share":
        """The same with what depends on the sums of all siblings."""
        normalised = self.share / shares if shares else 0.0
        effective = self.usage / usage if usage else 0.0
        return replace(
            self,
            normalised_share=normalised,
            effective_usage=effective,
            factor=factor(effective, normalised),
        )


def factor(effective_usage: float, normalised_share: float) -> float:
    """Fair-share factor; 0 without a share, unless nothing was used."""
    if not effective_usage:
        return 1.0
    result: float = 2.0 ** (-effective_usage / normalised_share) if normalised_share else 0.0
    return result


def user_shares(queue: Queue) -> Mapping[str, float]:
    """Shares that a queue gives to users; none while its annotation is invalid."""
    try:
        return parse_shares(queue.annotations.get(names.USER_SHARES, ""))
    except ValueError:
        return {}


class ShareTree:
    """Shares of all queues, and of the users of a queue when they are asked for."""

    def __init__(self, queues: Mapping[str, Queue], usage: Mapping[Account, float]) -> None:
        """`usage` has an entry for each account that has jobs or has used anything."""
        self._queues = queues
        self._usage: dict[str, dict[str, float]] = {}
        for account, used in usage.items():
            self._usage.setdefault(account.queue, {})[account.user] = used
        self._users: dict[str, dict[str, Share]] = {}

    @cached_property
    def _children(self) -> Mapping[str, tuple[str, ...]]:
        """Queues by parent; those without an existing parent are below the root."""
        found: dict[str, list[str]] = {}
        for name in sorted(self._queues):
            if name != ROOT_QUEUE:
                found.setdefault(self._parent(name), []).append(name)
        return {name: tuple(children) for name, children in found.items()}

    def _parent(self, name: str) -> str:
        parent = self._queues[name].parent or ROOT_QUEUE
        return parent if parent in self._queues and parent != name else ROOT_QUEUE

    @cached_property
    def queues(self) -> Mapping[str, Share]:
        """All queues, parents before their children."""
        usage = dict.fromkeys((ROOT_QUEUE, *self._queues), 0.0)
        for name, users in self._usage.items():
            if name in usage:
                for each in (name, *self._above(name)):
                    usage[each] += sum(users.values())
        root = Share(
            ROOT_QUEUE, None, 0, 1.0, usage[ROOT_QUEUE], effective_usage=float(usage[ROOT_QUEUE] > 0)
        )
        found = {ROOT_QUEUE: root}
        waiting = [ROOT_QUEUE]
        while waiting:
            parent = waiting.pop()
            children = [
                Share(
                    name, None, found[parent].level + 1, float(max(self._queues[name].weight, 0)), usage[name]
                )
                for name in self._children.get(parent, ())
            ]
            # Users with jobs in a queue that has queues below it are siblings of those.
            own = self._raw_users(parent) if children else ()
            for child in _compared((*children, *own))[: len(children)]:
                found[child.queue] = child
                waiting.append(child.queue)
        return found

    def _above(self, name: str) -> Iterator[str]:
        """Ancestors of a queue, the root last; ends at a cycle."""
        seen = {name}
        while name != ROOT_QUEUE:
            name = self._parent(name)
            if name in seen:
                return
            seen.add(name)
            yield name

    def children(self, queue: str) -> tuple[str, ...]:
        """Queues below a queue, in the order of names."""
        return self._children.get(queue, ())

    def users(self, queue: str) -> Mapping[str, Share]:
        """Users of a queue that have jobs, used anything or have a share of their own, by name."""
        found = self._users.get(queue)
        if found is None:
            queues = self.queues
            own = self._raw_users(queue)
            siblings = [queues[name] for name in self._children.get(queue, ()) if name in queues]
            compared = _compared((*own, *siblings))[: len(own)]
            found = self._users[queue] = {share.user or "": share for share in compared}
        return found

    def user(self, account: Account) -> Share:
        """The share of one user."""
        found = self.users(account.queue).get(account.user)
        return found or Share(account.queue, account.user, 0, DEFAULT_SHARE, 0.0)

    def path(self, name: str) -> tuple[float, ...]:
        """Sort key of a queue: the factors of its ancestors and its own, the root's child first, negated."""
        queues = self.queues
        path = [name, *self._above(name)][:-1] if name != ROOT_QUEUE else []
        return tuple(-queues[each].factor for each in reversed(path) if each in queues)

    def _raw_users(self, queue: str) -> tuple[Share, ...]:
        given = user_shares(self._queues[queue]) if queue in self._queues else {}
        used = self._usage.get(queue, {})
        parent = self.queues.get(queue) if "queues" in self.__dict__ else None
        level = parent.level + 1 if parent is not None else 0
        return tuple(
            Share(queue, user, level, given.get(user, DEFAULT_SHARE), used.get(user, 0.0))
            for user in sorted({*given, *used})
        )


def _compared(siblings: Iterable[Share]) -> list[Share]:
    found = list(siblings)
    shares, usage = sum(each.share for each in found), sum(each.usage for each in found)
    return [each.among(shares, usage) for each in found]
