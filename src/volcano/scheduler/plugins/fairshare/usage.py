"""Decayed usage of resources by queue and user: what was held counts half after each half-life.

Usage is in resource-seconds, in the units of resource vectors. While the amounts `h` are held for `t` seconds, usage
`u` becomes `u x d + h x H / ln 2 x (1 - d)` with `d = 2^(-t / H)`, however the time is divided into steps.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from volcano.accounting.api import GPU, DecayedUsage
from volcano.model.job import Job
from volcano.model.resources import FIXED, ResourceIndex, Vector
from volcano.model.snapshot import Snapshot

LEAST = 1.0  # usage below, such as one milli-core for one second, is forgotten


class Account(NamedTuple):
    """A user in a queue. Jobs without a user belong to the user with the empty name."""

    queue: str
    user: str


def account_of(job: Job) -> Account:
    return Account(job.queue, job.user)


def decayed_seconds(elapsed: float, half_life: float) -> float:
    """Weight of all seconds of a time until now."""
    result: float = half_life / math.log(2) * (1 - 2.0 ** (-elapsed / half_life))
    return result


@dataclass(frozen=True, slots=True)
class Usage:
    """Decayed usage of accounts at one moment, one row each, and what they hold from then on."""

    index: ResourceIndex  # that of the snapshot, and resources that it does not have
    at: float  # seconds since the epoch
    accounts: tuple[Account, ...]
    used: Vector  # (accounts, resources)
    held: Vector  # (accounts, resources)

    def advanced(self, now: float, half_life: float) -> Vector:
        """Usage at a later moment; the same if the clock was set back."""
        elapsed = max(0.0, now - self.at)
        decay = 2.0 ** (-elapsed / half_life)
        result: Vector = self.used * decay + self.held * decayed_seconds(elapsed, half_life)
        return result

    def follow(self, now: float, half_life: float, holdings: "Holdings") -> "Usage":
        """Usage now, with what accounts hold from now on. Accounts without a job are kept until their usage is
        forgotten."""
        used, held = self.advanced(now, half_life), holdings.held
        forgotten = ~np.any(used >= LEAST, axis=1)
        known = set(self.accounts)
        unused = [self.accounts[row] for row in np.flatnonzero(forgotten).tolist()]
        if held.keys() <= known and all(account in held for account in unused):
            accounts, now_used = self.accounts, used
        else:
            accounts = tuple(sorted({*held, *(known.difference(unused))}))
            rows = {account: row for row, account in enumerate(self.accounts)}
            now_used = np.zeros((len(accounts), self.index.width))
            for row, account in enumerate(accounts):
                if (before := rows.get(account)) is not None:
                    now_used[row] = used[before]
        return Usage(self.index, now, accounts, now_used, holdings.matrix(accounts, self.index.width))

    def memory(self) -> dict[str, Any]:
        """Values for the next cycle. Arrays are saved as lists, see `snapshot_file`."""
        return {
            "at": self.at,
            "resources": self.index.names,
            "accounts": self.accounts,
            "used": self.used,
            "held": self.held,
        }


def remembered(memory: Mapping[str, Any] | None, now: float, index: ResourceIndex) -> Usage:
    """Usage from the memory of the last cycle; none if there is no such memory."""
    if not memory or not memory["accounts"]:
        return Usage(index, now, (), np.zeros((0, index.width)), np.zeros((0, index.width)))
    index = index.extended(memory["resources"])
    accounts = memory["accounts"]
    if not isinstance(accounts[0], Account):  # from a file
        accounts = tuple(Account(*each) for each in accounts)
    if memory["resources"] == index.names:
        return Usage(index, memory["at"], accounts, np.asarray(memory["used"]), np.asarray(memory["held"]))
    columns = [index.column[name] for name in memory["resources"]]
    used, held = np.zeros((len(accounts), index.width)), np.zeros((len(accounts), index.width))
    used[:, columns] = memory["used"]
    held[:, columns] = memory["held"]
    return Usage(index, memory["at"], accounts, used, held)


def memory_of(usage: DecayedUsage) -> dict[str, Any]:
    """Recorded usage, in resource-seconds of the usual units, as memory. GPUs of all kinds together are no resource."""
    amounts: dict[Account, dict[str, float]] = {}
    for entry in usage.items:
        sums = amounts.setdefault(Account(entry.queue, entry.user), {})
        for name, seconds in entry.resources.items():
            if name != GPU:
                per_unit = 1.0 if name in ("memory", "pods") else 1000.0
                sums[name] = sums.get(name, 0.0) + seconds * per_unit
    others = sorted({name for found in amounts.values() for name in found} - set(FIXED))
    columns = [*FIXED, *others]
    accounts = sorted(amounts)
    return {
        "at": usage.at,
        "resources": columns,
        "accounts": [[account.queue, account.user] for account in accounts],
        "used": [[amounts[account].get(name, 0.0) for name in columns] for account in accounts],
        "held": [[0.0] * len(columns) for _ in accounts],
    }


class Holdings:
    """Resources that each account holds, updated by the jobs that changed.

    Kept in `Snapshot.derived`. Adding the same snapshot twice changes nothing. Amounts are whole numbers, so that sums
    are exact.
    """

    def __init__(self) -> None:
        self.held: dict[Account, Vector] = {}  # of every account with a job
        self._jobs: dict[str, tuple[Account, Vector]] = {}
        self._counts: dict[Account, int] = {}
        self._queues: dict[str, Vector] = {}
        self._matrix: tuple[tuple[Account, ...], Vector] | None = None  # of the last call, until a change

    @classmethod
    def of(cls, snapshot: Snapshot, name: str) -> "Holdings":
        """Holdings as of a snapshot, from those of an earlier one if there are any."""
        found = snapshot.derived.get(name)
        if isinstance(found, Holdings):
            for uid in snapshot.changed:
                found._put(uid, snapshot.jobs.get(uid))
            if found._agrees(snapshot):
                return found
        fresh = cls()
        for uid, job in snapshot.jobs.items():
            fresh._put(uid, job)
        snapshot.derived[name] = fresh
        return fresh

    def matrix(self, accounts: tuple[Account, ...], width: int) -> Vector:
        """Resources that accounts hold, one row each."""
        if self._matrix is not None and self._matrix[0] is accounts and self._matrix[1].shape[1] == width:
            return self._matrix[1]
        found = np.zeros((len(accounts), width))
        for row, account in enumerate(accounts):
            if (amounts := self.held.get(account)) is not None:
                found[row, : len(amounts)] = amounts
        self._matrix = (accounts, found)
        return found

    def _put(self, uid: str, job: Job | None) -> None:
        self._matrix = None
        before = self._jobs.pop(uid, None)
        if before is not None:
            account, amounts = before
            self._counts[account] -= 1
            self._add(account, -amounts)
            if not self._counts[account]:
                del self._counts[account], self.held[account]
        if job is not None:
            account, amounts = account_of(job), job.allocated
            self._jobs[uid] = (account, amounts)
            self._counts[account] = self._counts.get(account, 0) + 1
            self._add(account, amounts)

    def _add(self, account: Account, amounts: Vector) -> None:
        self.held[account] = _sum(self.held.get(account), amounts)
        self._queues[account.queue] = _sum(self._queues.get(account.queue), amounts)

    def _agrees(self, snapshot: Snapshot) -> bool:
        """Whether no change was missed: the sums are those of the queues."""
        none = snapshot.resources.zeros()
        return len(self._jobs) == len(snapshot.jobs) and all(
            np.array_equal(_sum(self._queues.get(queue), none), totals.allocated)
            for queue, totals in snapshot.totals.items()
        )


def _sum(one: Vector | None, other: Vector) -> Vector:
    """The sum of vectors of which one may lack the resources that were found later."""
    if one is None:
        return other
    if len(one) == len(other):
        result: Vector = one + other
        return result
    wide = np.zeros(max(len(one), len(other)))
    wide[: len(one)] += one
    wide[: len(other)] += other
    return wide
