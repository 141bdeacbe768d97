"""Watches of one kind: initial objects if requested, then every change that matches a selection."""

from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import NamedTuple

import orjson

from volcano.apiserver.storage.history import Change, StoredObject
from volcano.apiserver.storage.selection import Selection
from volcano.apiserver.storage.store import Collection, Store
from volcano.apiserver.storage.zero_values import zero_object
from volcano.base.clock import Clock
from volcano.base.workqueue import Waker
from volcano.kube.api.errors import Gone
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Key
from volcano.kube.client.protocol import EventType

BOOKMARK_EVERY = 60.0
# Events per batch, so that one watcher with a long backlog does not block the others.
BATCH = 500
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

_OPENINGS = {type_: b'{"type":"%b","object":' % type_.encode() for type_ in EventType}

# Converts the stored JSON of an object into that of the watched version.
Convert = Callable[[bytes], bytes]


class EncodedEvent(NamedTuple):
    """One event: its type, the object's JSON and its key (None for a bookmark)."""

    type: EventType
    data: bytes
    key: Key | None = None

    def line(self) -> bytes:
        """The event as a line of a watch stream."""
        return b"%b%b}\n" % (_OPENINGS[self.type], self.data)


class Watcher:
    """The position of one watch in the history of a kind. It buffers no events: a watch that is too slow gets
    Gone."""

    def __init__(
        self, store: Store, collection: Collection, selection: Selection, kind: Kind, convert: Convert | None
    ) -> None:
        self._store = store
        self._collection = collection
        self._selection = selection
        self._kind = kind
        self._convert = convert
        self._initial: deque[EncodedEvent] = deque()
        self._version = store.committed_version
        self._position = collection.history.after(self._version)
        self._waker: Waker | None = None  # while batches are read
        collection.watchers[self._wake] = None

    def resume(self, version: int) -> None:
        """Starts after `version`. Raises Gone when that version is not in the history."""
        history = self._collection.history
        if version < history.horizon:
            raise Gone(f"too old resource version: {version} ({history.horizon})")
        if version > self._store.committed_version:
            raise Gone(f"unknown resource version: {version} (the newest is {self._store.committed_version})")
        self._version = version
        self._position = history.after(version)

    def begin(self, records: list[StoredObject], *, mark_end: bool) -> None:
        """Sends these objects first; with `mark_end`, followed by a bookmark that ends the initial events."""
        self._initial.extend(self._event(EventType.ADDED, record.data, record.key) for record in records)
        if mark_end:
            self._initial.append(self.bookmark(initial_end=True))

    def take(self, limit: int = BATCH) -> list[EncodedEvent]:
        """Events that are available without waiting. Raises Gone when the history has moved past this
        position."""
        events: list[EncodedEvent] = []
        while self._initial and len(events) < limit:
            events.append(self._initial.popleft())
        history, committed = self._collection.history, self._store.committed_version
        position, end = self._position, self._collection.history.end
        if position < history.start:
            raise Gone(f"too old resource version: {self._version} ({history.horizon})")
        while position < end and len(events) < limit:
            change = history.at(position)
            if change.version > committed:
                break
            position += 1
            self._version = change.version
            event = self._event_for(change)
            if event is not None:
                events.append(event)
        self._position = position
        return events

    def bookmark(self, *, initial_end: bool = False) -> EncodedEvent:
        """A bookmark: every change up to its version has been sent."""
        if not self._has_changes():
            self._version = max(self._version, self._store.committed_version)
        manifest = zero_object(self._kind)  # typed clients reject an object without its required fields
        metadata = manifest["metadata"]
        metadata["resourceVersion"] = str(self._version)
        if initial_end:
            metadata["annotations"] = {**metadata.get("annotations", {}), INITIAL_EVENTS_END: "true"}
        return EncodedEvent(EventType.BOOKMARK, orjson.dumps(manifest))

    async def batches(
        self, clock: Clock, *, timeout: float = 0, bookmarks: bool = False
    ) -> AsyncGenerator[list[EncodedEvent], None]:
        """Batches of events as they become available, until `timeout` seconds have passed (0: no limit)."""
        started = clock.now().monotonic
        ends = started + timeout if timeout else float("inf")
        marks = started + BOOKMARK_EVERY if bookmarks else float("inf")
        waker = self._waker = Waker(clock)
        try:
            while True:
                waker.clear()
                events = self.take()
                now = clock.now().monotonic
                if now >= ends:
                    yield [*events, self.bookmark()] if bookmarks else events
                    return
                if now >= marks and len(events) < BATCH:
                    events.append(self.bookmark())
                    marks = now + BOOKMARK_EVERY
                if events:
                    yield events
                if len(events) < BATCH:
                    await waker.wait(min(ends, marks))
        finally:
            self.close()

    def close(self) -> None:
        """Unsubscribes from the collection."""
        self._collection.watchers.pop(self._wake, None)
        if self._waker is not None:
            self._waker.close()

    def _has_changes(self) -> bool:
        """Whether there is a committed change that has not been read."""
        history = self._collection.history
        return self._position < history.start or (
            self._position < history.end
            and history.at(self._position).version <= self._store.committed_version
        )

    def _wake(self) -> None:
        if self._waker is not None:
            self._waker.wake()

    def _event_for(self, change: Change) -> EncodedEvent | None:
        """The event of a change for this watch: an object that is no longer selected is reported as deleted."""
        selection = self._selection
        if not selection.tests:
            if selection.namespace and change.key.namespace != selection.namespace:
                return None
            return self._event(change.type, change.data, change.key)
        was = change.old is not None and selection.matches(change.old)
        if change.new is not None and selection.matches(change.new):
            return self._event(EventType.MODIFIED if was else EventType.ADDED, change.data, change.key)
        if not was:
            return None
        if change.new is None or change.old is None:
            return self._event(EventType.DELETED, change.data, change.key)
        last = orjson.loads(change.old.data)
        last["metadata"]["resourceVersion"] = str(change.version)
        return self._event(EventType.DELETED, orjson.dumps(last), change.key)

    def _event(self, type_: EventType, data: bytes, key: Key) -> EncodedEvent:
        return EncodedEvent(type_, data if self._convert is None else self._convert(data), key)
