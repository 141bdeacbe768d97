"""Lists and watches the objects of one Watch; lists again when the history has expired or the server was away."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any

import orjson

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.base.workqueue import Backoff
from volcano.kube.api.errors import (
    ApiError,
    BadRequest,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    TooManyRequests,
    Unavailable,
)
from volcano.kube.api.manifest import Manifest, annotations_of, key_of
from volcano.kube.client.protocol import Client, Decode, Event, EventType, Query, Watch
from volcano.kube.client.watch_batches import watch_batches

log = Log("reflector")

BACKOFF = Backoff(first=0.05, longest=5.0)
# On the bookmark that ends the initial events of a streaming list.
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

BatchHandler = Callable[[Sequence[Event]], None]


class Reflector:
    """Calls a handler with every change of some objects, in batches, for as long as `run` runs.

    After a gap (410, a restarted server) it lists again and passes on what was added, changed or deleted meanwhile,
    and nothing else: `identify` returns the identity of an object, equal to its `Key`. A DELETED event after a gap
    carries the object as last seen. With `streaming`, the first list comes as a watch where the server supports that.
    An `optional` kind that the server does not serve, or not to this user, counts as listed, without objects.
    """

    def __init__(
        self,
        client: Client,
        watch: Watch,
        handler: BatchHandler,
        clock: Clock,
        *,
        decode: Decode = orjson.loads,
        identify: Callable[[Manifest], object] = key_of,
        on_synced: Callable[[], None] | None = None,
        streaming: bool = False,
        optional: bool = False,
    ) -> None:
        self._client = client
        self._watch = watch
        self._handler = handler
        self._clock = clock
        self._decode = decode
        self._identify = identify
        self._on_synced = on_synced
        self._streaming = streaming
        self._optional = optional
        self._known: dict[object, Any] = {}
        self._progress = False
        self.synced = asyncio.Event()
        self.version = ""  # up to which the handler has received every change; empty before the first list

    def objects(self) -> list[Any]:
        """Returns all objects known at present."""
        return list(self._known.values())

    async def run(self) -> None:
        """Runs until cancelled; neither an error of the server nor a lost connection ends it."""
        failures = 0
        while True:
            self._progress = False
            try:
                await self._follow(await (self._stream() if self._streaming else self._relist()))
            except Gone:
                log.info("history expired, listing again", kind=self._watch.kind)
            except ApiError as error:
                if self._streaming and isinstance(error, Invalid | BadRequest):
                    log.info(
                        "streaming lists not supported, listing",
                        kind=self._watch.kind,
                        reason=error.message,
                    )
                    self._streaming = False
                    continue
                if self._optional and isinstance(error, NotFound | Forbidden):
                    self._set_synced()
                log.warning("watch failed, listing again", kind=self._watch.kind, reason=error.message)
            if self._progress:
                failures = 0
            await self._clock.sleep(BACKOFF.delay(failures))
            failures += 1

    async def _relist(self) -> str:
        listing = await self._client.list(self._watch.kind, self._query(), decode=self._decode)
        self._delete_all_but({self._identify(item) for item in listing.items})
        self._dispatch([event for item in listing.items for event in self._changes(item)])
        self.version = listing.resource_version
        self._set_synced()
        return listing.resource_version

    async def _stream(self) -> str:
        """Lists as the beginning of a watch; returns the version reached when the watch ends."""
        present: set[object] | None = set()
        version = ""
        query = self._query(send_initial_events=True, resource_version_match="NotOlderThan")
        try:
            async with aclosing(self._batches(query)) as batches:
                async for batch in batches:
                    version = _last_version(batch) or version
                    present = self._on_initial_batch(batch, present)
                    if present is None:
                        self.version = version
        except Unavailable:
            if present is not None:
                raise
        if present is not None:
            raise Unavailable("the stream ended before the initial events were complete")
        return version

    def _on_initial_batch(self, batch: Sequence[Event], present: set[object] | None) -> set[object] | None:
        """Handles a batch that may contain initial events; returns their objects, None once they are complete."""
        for position, event in enumerate(batch):
            if present is None:
                self._on_batch(batch[position:])
                break
            if event.type is EventType.BOOKMARK:
                if _ends_initial_events(event.object):
                    self._delete_all_but(present)
                    present = None
                    self._set_synced()
            elif event.type is EventType.ADDED:
                present.add(self._identify(event.object))
                self._dispatch(self._changes(event.object))
            else:
                self._on_batch((event,))
        return present

    async def _follow(self, version: str) -> None:
        """Watches from `version`, resuming after each end, until the server answers with an error."""
        failures = 0
        while True:
            try:
                async with aclosing(self._batches(self._query(resource_version=version))) as batches:
                    async for batch in batches:
                        version = _last_version(batch) or version
                        failures = 0
                        self._progress = True
                        self._on_batch(batch)
                        self.version = version
            except (Unavailable, TooManyRequests) as error:
                log.info("watch interrupted", kind=self._watch.kind, reason=error.message)
            await self._clock.sleep(BACKOFF.delay(failures))
            failures += 1

    def _batches(self, query: Query) -> AsyncGenerator[Sequence[Event], None]:
        return watch_batches(self._client, self._watch.kind, query, decode=self._decode)

    def _query(self, **more: Any) -> Query:
        watch = self._watch
        return Query(namespace=watch.namespace, labels=watch.labels, fields=watch.fields, **more)

    def _set_synced(self) -> None:
        if not self.synced.is_set():
            self.synced.set()
            if self._on_synced is not None:
                self._on_synced()

    def _delete_all_but(self, present: set[object]) -> None:
        deleted = [item for identity, item in self._known.items() if identity not in present]
        self._dispatch([Event(EventType.DELETED, self._watch.kind, item) for item in deleted])

    def _changes(self, item: Any) -> list[Event]:
        """Returns the events that lead from the known version of a listed object to this one."""
        kind, known = self._watch.kind, self._known.get(self._identify(item))
        if known is None:
            return [Event(EventType.ADDED, kind, item)]
        if _uid(known) != _uid(item):  # deleted and created again during the gap
            return [Event(EventType.DELETED, kind, known), Event(EventType.ADDED, kind, item)]
        if not _version(item) or _version(known) != _version(item):
            return [Event(EventType.MODIFIED, kind, item)]
        return []

    def _on_batch(self, batch: Sequence[Event]) -> None:
        """Dispatches a batch of a watch without its bookmarks."""
        if any(event.type is EventType.BOOKMARK for event in batch):
            batch = [event for event in batch if event.type is not EventType.BOOKMARK]
        self._dispatch(batch)

    def _dispatch(self, batch: Sequence[Event]) -> None:
        if not batch:
            return
        known, identify = self._known, self._identify
        for event in batch:
            identity = event.key or identify(event.object)
            if event.type is EventType.DELETED:
                known.pop(identity, None)
            else:
                known[identity] = event.object
        self._handler(batch)


def each_event(handler: Callable[[Event], None]) -> BatchHandler:
    """Returns a batch handler that calls `handler` with each event."""

    def on_batch(batch: Sequence[Event]) -> None:
        for event in batch:
            handler(event)

    return on_batch


def _last_version(batch: Sequence[Event]) -> str:
    """Returns the resource version that a batch leads to."""
    return next((version for event in reversed(batch) if (version := _version(event.object))), "")


def _version(item: Any) -> str:
    """Returns the resource version; a decoder that drops metadata must keep `resource_version`."""
    if isinstance(item, dict):
        return str(item["metadata"].get("resourceVersion", ""))
    return str(getattr(item, "resource_version", ""))


def _uid(item: Any) -> str:
    if isinstance(item, dict):
        return str(item["metadata"].get("uid", ""))
    return str(getattr(item, "uid", ""))


def _ends_initial_events(bookmark: Any) -> bool:
    """Whether a bookmark ends the initial events; one without annotations, which a decoder may drop, does."""
    if isinstance(bookmark, dict):
        return annotations_of(bookmark).get(INITIAL_EVENTS_END) == "true"
    return True
