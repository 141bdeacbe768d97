"""Versioned objects: encoded JSON under one global version, optimistic concurrency, history, watchers.

A write changes memory at once, so that the next write sees it. Reads and watches see the state of
`committed_version`, the newest version that is durable; without a journal that is always the newest.
"""

import asyncio
import sys
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import orjson

from volcano.apiserver.storage.decoded_cache import DecodedCache
from volcano.apiserver.storage.history import Change, History, HistoryBudget, StoredObject
from volcano.apiserver.storage.listeners import Listeners
from volcano.apiserver.storage.selectable_fields import INDEXED, reader_of, selectable
from volcano.apiserver.storage.stored_labels import stored_labels
from volcano.base.log import Log
from volcano.kube.api.errors import ApiError, BadRequest, SpaceExceeded, TooLarge, Unavailable
from volcano.kube.api.manifest import Key, Manifest, key_of

log = Log("store")

HISTORY = 10_000
LARGEST = 3 * 1024 * 1024  # bytes of one object


class Stale(Exception):
    """The record was changed, created or removed since the writer read it."""


class ObjectAddress(NamedTuple):
    """Address of an object: its collection and its key."""

    collection: str
    key: Key


class CommitError(NamedTuple):
    """Why a commit failed."""

    reason: str
    disk_full: bool = False


class Journal(Protocol):
    """Makes writes durable. Reports to the callbacks it was started with, on the event loop."""

    def write(self, address: ObjectAddress, change: Change) -> None:
        """Appends one change; `on_committed` is called with its version or a later one once it is durable."""
        ...

    def forget(self, collection: str, horizon: int, versions: list[int]) -> None:
        """Removes versions that neither the present state nor the history needs; nothing before `horizon` is
        kept."""
        ...

    def resume(self) -> None:
        """Continues after a failure, once the store has rolled back the changes that were not committed."""
        ...

    def has_space(self) -> bool:
        """Whether a disk that was full has space for all writes again."""
        ...

    def fits(self, size: int) -> bool:
        """Whether an object of so many bytes can be stored although the disk is full."""
        ...


# Called with every object that is written and its JSON, for caches of decoded objects; the object is read-only.
OnWrite = Callable[[bytes, Manifest], None]


class Collection:
    """The objects of one kind, by key and in order, with their history and their watchers."""

    def __init__(self, name: str, history: History) -> None:
        self.name = name
        self.records: dict[Key, StoredObject] = {}
        self.keys: list[Key] = []
        self.history = history
        self.watchers: dict[Callable[[], None], None] = {}
        self.read_fields = reader_of(name)
        fields = selectable(name)
        self.indexes: dict[str, tuple[int, dict[str, dict[Key, None]]]] = {
            field: (fields.index(field), {}) for field in INDEXED.get(name, ())
        }

    def describe(
        self, manifest: Manifest, version: int, data: bytes, previous: StoredObject | None = None
    ) -> StoredObject:
        """The record of an object stored as `data`. It shares values with that of the previous version where
        they are equal."""
        metadata = manifest["metadata"]
        fields = self.read_fields(manifest)
        if previous is None:
            key = Key(metadata.get("namespace", ""), metadata["name"])
            labels = stored_labels(metadata.get("labels"))
            fields = tuple(map(sys.intern, fields))
        else:
            key = previous.key
            labels = stored_labels(metadata.get("labels"), previous.labels)
            fields = previous.fields if fields == previous.fields else tuple(map(sys.intern, fields))
        uid = metadata.get("uid", "")
        if previous is not None and uid == previous.uid:
            uid = previous.uid
        return StoredObject(key, version, uid, data, labels, fields)

    def replace(self, old: StoredObject | None, new: StoredObject | None) -> None:
        """Replaces `old` by `new`; either may be absent."""
        if old is not None and new is None:
            del self.records[old.key]
            del self.keys[bisect_left(self.keys, old.key)]
        elif new is not None:
            self.records[new.key] = new
            if old is None:
                insort(self.keys, new.key)
        for position, index in self.indexes.values():
            before = old.fields[position] if old is not None else None
            after = new.fields[position] if new is not None else None
            if before == after:
                continue
            if old is not None and before is not None:
                bucket = index[before]
                del bucket[old.key]
                if not bucket:
                    del index[before]
            if new is not None and after is not None:
                index.setdefault(after, {})[new.key] = None

    def changed_since(self, version: int) -> dict[Key, StoredObject | None]:
        """The objects that changed since `version`, as of that version."""
        return {change.key: change.old for change in self.history.newest_first(version)}

    def at(self, key: Key, version: int) -> StoredObject | None:
        """One object as of `version`, which the history must reach."""
        record = self.records.get(key)
        if self.history.newest_version() <= version:
            return record
        return self.changed_since(version).get(key, record)

    def range(self, namespace: str = "", start: Key | None = None) -> list[Key]:
        """The keys of a namespace (or of all), from `start` on, in order."""
        if not self.keys:
            return []
        first, last = 0, len(self.keys)
        if namespace:
            first = bisect_left(self.keys, Key(namespace, ""))
            last = bisect_left(self.keys, Key(namespace + "\0", ""), first)
        if start is not None:
            first = max(first, bisect_left(self.keys, start))
        return self.keys[first:last]


def encode(manifest: Manifest, version: int) -> bytes:
    """The JSON of an object under a version, which is set in it. Raises BadRequest or TooLarge."""
    manifest["metadata"]["resourceVersion"] = str(version)
    try:
        # Copied, because orjson's result occupies 8 KiB however short it is, and this one is kept.
        data = bytes(memoryview(orjson.dumps(manifest)))
    except TypeError as error:
        raise BadRequest(f"the object cannot be written as JSON: {error}") from None
    if len(data) > LARGEST:
        raise TooLarge(f"Request entity too large: limit is {LARGEST} bytes, the object has {len(data)}")
    return data


class Store:
    """All objects. Synchronous except `durable`; used on one thread."""

    def __init__(
        self,
        *,
        history: int = HISTORY,
        journal: Journal | None = None,
        on_write: OnWrite | None = None,
        place: str = "",
    ) -> None:
        """Without a journal the store is in memory only. `place` names its directory in error messages."""
        self._place = place
        self._history = history
        self._history_budget = HistoryBudget()
        self._on_write = on_write
        self._collections: dict[str, Collection] = {}
        self._journal = journal
        self._first = 0  # no version at or below it is known, as the store was restored from a copy
        self._last = 0  # the newest version ever assigned, also to writes that were rolled back
        self._pending: deque[tuple[Collection, Change]] = deque()
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.listeners = Listeners()
        self._decoded = DecodedCache()
        self.version = 0
        self.committed_version = 0
        self.error = ""  # why the last commit failed; empty when it did not
        self._disk_full = False  # only deletions are written

    def collection(self, name: str) -> Collection:
        """The objects of a kind, by its resource name (`pods`, `deployments.apps`)."""
        found = self._collections.get(name)
        if found is None:
            history = History(self._history, horizon=self._first, budget=self._history_budget)
            found = self._collections[name] = Collection(name, history)
        return found

    def collections(self) -> Iterator[Collection]:
        return iter(list(self._collections.values()))

    def get(self, name: str, key: Key) -> StoredObject | None:
        """The newest version of an object, committed or not: the base of a write."""
        return self.collection(name).records.get(key)

    def get_committed(self, name: str, key: Key) -> StoredObject | None:
        """An object as of the newest durable version."""
        return self.collection(name).at(key, self.committed_version)

    def put(self, name: str, manifest: Manifest, previous: StoredObject | None) -> StoredObject:
        """Stores an object in place of `previous` (None to create). Sets its resourceVersion; from then on it
        is read-only.

        Raises Stale when `previous` is not the present record.
        """
        collection = self.collection(name)
        key = key_of(manifest)
        if collection.records.get(key) is not previous:
            raise Stale(name, key)
        version = self._last + 1
        data = encode(manifest, version)
        if self._disk_full:
            self._check_space(manifest, len(data))
        record = collection.describe(manifest, version, data, previous)
        self._decoded.keep(record, manifest)
        if self._on_write is not None:
            try:
                self._on_write(data, manifest)
            except Exception as error:  # a cache that misses an object decodes it
                self.listeners.record_failure("decoded objects", error)
        self._write(collection, Change(version, record.key, previous, record, data))
        return record

    def remove(self, name: str, manifest: Manifest, previous: StoredObject) -> bytes:
        """Removes an object; returns its last state, under the version of the removal. Raises Stale like
        `put`."""
        collection = self.collection(name)
        if collection.records.get(previous.key) is not previous:
            raise Stale(name, previous.key)
        version = self._last + 1
        data = encode(manifest, version)
        self._write(collection, Change(version, previous.key, previous, None, data))
        return data

    def manifest(self, record: StoredObject) -> Manifest:
        """The object of a record. It is shared and read-only."""
        return self._decoded.manifest(record)

    async def durable(self, version: int) -> None:
        """Returns once `version` is durable; at once without a journal. Raises Unavailable when the write
        failed and was rolled back."""
        if version <= self.committed_version:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append((version, waiter))
        await waiter

    def start_at(self, version: int) -> None:
        """Sets the first version while opening, before any change is loaded."""
        self._first = self._last = self.version = self.committed_version = version

    def set_horizon(self, name: str, version: int) -> None:
        """Sets the version up to which a kind has no history, while opening: new versions are above it, even if the
        change that had it is not stored any more."""
        self.collection(name).history.horizon = version
        self.version = self.committed_version = self._last = max(self._last, version)

    def load(self, name: str, change: Change) -> None:
        """Loads a stored change while opening, in the order of versions; added to the history if new enough."""
        collection = self.collection(name)
        collection.replace(change.old, change.new)
        if change.version > collection.history.horizon:
            collection.history.append(change)
            self._trim(collection)
        self.version = self.committed_version = self._last = max(self._last, change.version)

    def compact(self, version: int) -> None:
        """Removes from the histories what is not newer than `version`; older versions are gone."""
        for collection in self.collections():
            self._forget(collection, collection.history.trim_all(min(version, self.committed_version)))

    def on_committed(self, version: int) -> None:
        """Called by the journal: everything up to `version` is durable."""
        self.committed_version = max(self.committed_version, version)
        if not self._disk_full:
            self.error = ""
        touched: dict[Collection, None] = {}
        while self._pending and self._pending[0][1].version <= version:
            touched[self._pending.popleft()[0]] = None
        while self._waiters and self._waiters[0][0] <= version:
            _, waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
        for collection in touched:
            self._wake_watchers(collection)

    def on_failed(self, error: CommitError) -> None:
        """Called by the journal: uncommitted changes are lost. Rolls them back in memory and fails their
        writers."""
        log.error("commit failed, writes rolled back", count=len(self._pending), reason=error.reason)
        self.error = error.reason
        while self._pending:
            collection, change = self._pending.pop()
            collection.history.retract()
            collection.replace(change.new, change.old)
            self.listeners.notify(collection.name, change.inverse())
        self.version = self.committed_version
        if error.disk_full or self._disk_full:
            self.set_disk_full()
        waiters, self._waiters = self._waiters, deque()
        for _, waiter in waiters:
            if not waiter.done():
                waiter.set_exception(self._failure(error))
        if self._journal is not None:
            self._journal.resume()

    def set_disk_full(self) -> None:
        """Called when the disk is full: only deletions and what fits are written. The history, which could not be
        continued in the file, is removed; watches list again."""
        self.error = self._full_message()
        if self._disk_full:
            return
        self._disk_full = True
        for collection in self.collections():
            self._forget(collection, collection.history.trim_all(self.committed_version))

    def _failure(self, error: CommitError) -> ApiError:
        if error.disk_full:
            return SpaceExceeded(self._full_message())
        return Unavailable(f"the write could not be stored: {error.reason}", retry_after=1)

    def _full_message(self) -> str:
        return (
            f"etcdserver: mvcc: database space exceeded: the disk of the data directory {self._place} is full; "
            "free space there or delete objects (reads and deletions continue)"
        )

    def _check_space(self, manifest: Manifest, size: int) -> None:
        """While the disk is full: raises SpaceExceeded unless the object is being deleted or there is space for it."""
        if self._journal is not None and self._journal.has_space():
            log.info("disk has space again, writes accepted")
            self._disk_full, self.error = False, ""
        elif manifest["metadata"].get("deletionTimestamp"):
            return
        elif self._journal is None or not self._journal.fits(size):
            raise SpaceExceeded(self._full_message())

    def _write(self, collection: Collection, change: Change) -> None:
        self._last = self.version = change.version
        collection.history.append(change)
        collection.replace(change.old, change.new)
        if self._journal is None:
            self.committed_version = change.version
        else:
            self._pending.append((collection, change))
            self._journal.write(ObjectAddress(collection.name, change.key), change)
        self.listeners.notify(collection.name, change)
        self._trim(collection)
        if self._journal is None:
            self._wake_watchers(collection)

    def _wake_watchers(self, collection: Collection) -> None:
        for wake in list(collection.watchers):
            try:
                wake()
            except Exception as error:  # one watch must not delay the others or fail the write
                self.listeners.record_failure("watch", error)

    def _trim(self, collection: Collection) -> None:
        self._forget(collection, collection.history.trim(self.committed_version))
        budget = self._history_budget
        if budget.used > budget.limit:
            largest = max(self._collections.values(), key=lambda each: each.history.size)
            excess = budget.used - budget.limit * 7 // 8
            self._forget(largest, largest.history.shrink(excess, self.committed_version))

    def _forget(self, collection: Collection, trimmed: list[Change]) -> None:
        """Removes from the journal what only the trimmed changes needed."""
        if trimmed and self._journal is not None:
            superseded = [change.old.version for change in trimmed if change.old is not None]
            superseded += [change.version for change in trimmed if change.new is None]
            self._journal.forget(collection.name, collection.history.horizon, superseded)
