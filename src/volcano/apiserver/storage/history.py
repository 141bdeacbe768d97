"""Recent changes of one kind, to resume watches and to list older versions."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping

import msgspec

from volcano.apiserver.storage.stored_labels import bytes_of
from volcano.kube.api.manifest import Key
from volcano.kube.client.protocol import EventType

OVERHEAD = 500  # bytes of a superseded version beside its JSON and its labels
# Superseded changes are removed in steps: removing them one by one would shift the list on every write.
TRIM = 64
# Bytes of superseded objects that the histories of one kind and of all kinds keep.
KIND_BYTES = 64 << 20
TOTAL_BYTES = 256 << 20


class StoredObject(msgspec.Struct, frozen=True, gc=False):
    """One version of one object: its JSON and the values that selection needs."""

    key: Key
    version: int
    uid: str
    data: bytes
    labels: Mapping[str, str]
    fields: tuple[str, ...]  # values of the kind's selectable fields


class Change(msgspec.Struct, gc=False):
    """One write: the record before and the record after. `data` is the object as watchers receive it: the new
    version, or the last one under the version of its deletion."""

    version: int
    key: Key
    old: StoredObject | None
    new: StoredObject | None
    data: bytes

    @property
    def type(self) -> EventType:
        if self.new is None:
            return EventType.DELETED
        return EventType.ADDED if self.old is None else EventType.MODIFIED

    @property
    def size(self) -> int:
        """About how many bytes are in memory only because of this change: the version that it replaced or removed,
        without values that it shares with the next one."""
        if self.old is None:
            return 0
        labels = self.old.labels
        shared = self.new is not None and self.new.labels is labels
        size = OVERHEAD + len(self.old.data) + (0 if shared else bytes_of(labels))
        return size + (len(self.data) if self.new is None else 0)

    def inverse(self) -> "Change":
        """The change that rolls this one back."""
        return Change(self.version, self.key, self.new, self.old, self.data)


class HistoryBudget:
    """Bytes that the histories of all kinds use together."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int = TOTAL_BYTES) -> None:
        self.limit = limit
        self.used = 0


class History:
    """The latest changes of one kind, oldest first, addressed by position. Bounded in number and bytes.

    A position counts all changes ever added; `start` is that of the oldest one kept. `horizon` is the
    oldest version from which no change is missing.
    """

    def __init__(
        self,
        limit: int,
        *,
        horizon: int = 0,
        limit_bytes: int = KIND_BYTES,
        budget: HistoryBudget | None = None,
    ) -> None:
        self._limit = max(limit, 1)
        self._limit_bytes = limit_bytes
        self._budget = budget or HistoryBudget()
        self._changes: list[Change] = []
        self.size = 0  # bytes of superseded objects
        self.start = 0
        self.horizon = horizon

    def __len__(self) -> int:
        return len(self._changes)

    @property
    def end(self) -> int:
        """The position the next change will have."""
        return self.start + len(self._changes)

    def newest_version(self) -> int:
        """The version of the newest change; 0 when there is none."""
        return self._changes[-1].version if self._changes else 0

    def append(self, change: Change) -> None:
        self._changes.append(change)
        self._resize(change.size)

    def retract(self) -> Change:
        """Removes the newest change."""
        change = self._changes.pop()
        self._resize(-change.size)
        return change

    def at(self, position: int) -> Change:
        return self._changes[position - self.start]

    def after(self, version: int) -> int:
        """The position of the first change newer than `version`."""
        return self.start + bisect_right(self._changes, version, key=_version)

    def newest_first(self, version: int) -> Iterator[Change]:
        """The changes newer than `version`, the newest first."""
        for change in reversed(self._changes):
            if change.version <= version:
                return
            yield change

    def trim(self, committed: int) -> list[Change]:
        """Removes the oldest changes beyond the limits that are not newer than `committed`; returns them."""
        excess = len(self._changes) - self._limit
        if excess < min(TRIM, self._limit):
            excess = 0
        if self.size > self._limit_bytes:
            excess = max(excess, self._oldest(self.size - self._limit_bytes * 7 // 8))
        return self._remove(excess, committed) if excess else []

    def shrink(self, size: int, committed: int) -> list[Change]:
        """Removes the oldest changes that keep `size` bytes together, as `trim` does."""
        return self._remove(self._oldest(size), committed)

    def trim_all(self, committed: int) -> list[Change]:
        """Removes every change that is not newer than `committed`."""
        return self._remove(len(self._changes), committed)

    def _oldest(self, size: int) -> int:
        """How many of the oldest changes keep `size` bytes together."""
        for count, change in enumerate(self._changes):
            if size <= 0:
                return count
            size -= change.size
        return len(self._changes)

    def _remove(self, excess: int, committed: int) -> list[Change]:
        while excess and self._changes[excess - 1].version > committed:
            excess -= 1
        removed = self._changes[:excess]
        if removed:
            del self._changes[:excess]
            self.start += excess
            self.horizon = removed[-1].version
            self._resize(-sum(change.size for change in removed))
        return removed

    def _resize(self, change: int) -> None:
        self.size += change
        self._budget.used += change


def _version(change: Change) -> int:
    return change.version
