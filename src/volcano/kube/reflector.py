"""Keeping a controller informed: list, then watch, and list again when history is gone or the server was away."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any

import orjson

from volcano.clock import Clock
from volcano.kube.client import Client, Decode, Event, EventType, Query
from volcano.kube.controller import Watch
from volcano.kube.errors import ApiError, BadRequest, Gone, Invalid, TooManyRequests, Unavailable
from volcano.kube.manifest import Manifest, annotations_of, key_of
from volcano.kube.watch_batches import groups
from volcano.log import Log

log = Log("mirror")

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0
# On the bookmark that ends the initial events of a streaming list.
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Reflector:
    """Feeds every change of some objects to a sink, a group at a time, for as long as `run` runs.

    After a gap (410, a restarted server) it lists afresh and tells the sink of everything that is new, changed or
    gone, and of nothing else: `identify` says where an object lives, in a way that equals its `Key`. A DELETED event
    after a gap carries the object as it was last seen. With `streaming`, the first list comes as a watch where the
    server can do that.
    """

    def __init__(
        self,
        client: Client,
        watch: Watch,
        sink: Callable[[Sequence[Event]], None],
        clock: Clock,
        *,
        decode: Decode = orjson.loads,
        identify: Callable[[Manifest], object] = key_of,
        on_synced: Callable[[], None] | None = None,
        streaming: bool = False,
    ) -> None:
        self._client = client
        self._watch = watch
        self._sink = sink
        self._clock = clock
        self._decode = decode
        self._identify = identify
        self._on_synced = on_synced
        self._streaming = streaming
        self._known: dict[object, Any] = {}
        self._progress = False
        self.synced = asyncio.Event()

    def objects(self) -> list[Any]:
        """Everything known at present."""
        return list(self._known.values())

    async def run(self) -> None:
        """Runs until cancelled; no refusal or lost connection ends it."""
        pause = FIRST_PAUSE
        while True:
            self._progress = False
            try:
                await self._follow(await (self._stream() if self._streaming else self._relist()))
            except Gone:
                log.info("history gone, listing again", kind=self._watch.kind)
            except ApiError as error:
                if self._streaming and isinstance(error, Invalid | BadRequest):
                    log.info("no streaming lists here", kind=self._watch.kind, reason=error.message)
                    self._streaming = False
                    continue
                log.warning("watch broken, will list again", kind=self._watch.kind, reason=error.message)
            pause = FIRST_PAUSE if self._progress else min(pause * 2, LONGEST_PAUSE)
            await self._clock.sleep(pause)

    async def _relist(self) -> str:
        listing = await self._client.list(self._watch.kind, self._query(), decode=self._decode)
        self._drop_all_but({self._identify(item) for item in listing.items})
        self._tell([event for item in listing.items for event in self._news_of(item)])
        self._announce()
        return listing.resource_version

    async def _stream(self) -> str:
        """The list as the beginning of a watch; returns the version reached when the watch ends."""
        present: set[object] | None = set()
        version = ""
        query = self._query(send_initial_events=True, resource_version_match="NotOlderThan")
        try:
            async with aclosing(self._groups(query)) as told:
                async for group in told:
                    version = _reached(group) or version
                    present = self._begin(group, present)
        except Unavailable:
            if present is not None:
                raise
        if present is not None:
            raise Unavailable("the stream ended before it had told everything")
        return version

    def _begin(self, group: Sequence[Event], present: set[object] | None) -> set[object] | None:
        """Hears of a group that may be about what is present; None once all of that has been told."""
        for position, event in enumerate(group):
            if present is None:
                self._hear(group[position:])
                break
            if event.type is EventType.BOOKMARK:
                if _ends_initial_events(event.object):
                    self._drop_all_but(present)
                    present = None
                    self._announce()
            elif event.type is EventType.ADDED:
                present.add(self._identify(event.object))
                self._tell(self._news_of(event.object))
            else:
                self._hear((event,))
        return present

    async def _follow(self, version: str) -> None:
        """Watches from `version`, resuming after each end, until the server refuses."""
        pause = FIRST_PAUSE
        while True:
            try:
                async with aclosing(self._groups(self._query(resource_version=version))) as told:
                    async for group in told:
                        version = _reached(group) or version
                        pause = FIRST_PAUSE
                        self._progress = True
                        self._hear(group)
            except (Unavailable, TooManyRequests) as error:
                log.info("watch interrupted", kind=self._watch.kind, reason=error.message)
            await self._clock.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _groups(self, query: Query) -> AsyncGenerator[Sequence[Event], None]:
        return groups(self._client, self._watch.kind, query, decode=self._decode)

    def _query(self, **more: Any) -> Query:
        watch = self._watch
        return Query(namespace=watch.namespace, labels=watch.labels, fields=watch.fields, **more)

    def _announce(self) -> None:
        if not self.synced.is_set():
            self.synced.set()
            if self._on_synced is not None:
                self._on_synced()

    def _drop_all_but(self, present: set[object]) -> None:
        gone = [item for identity, item in self._known.items() if identity not in present]
        self._tell([Event(EventType.DELETED, self._watch.kind, item) for item in gone])

    def _news_of(self, item: Any) -> list[Event]:
        """What there is to tell of a listed object that the sink does not know yet."""
        kind, known = self._watch.kind, self._known.get(self._identify(item))
        if known is None:
            return [Event(EventType.ADDED, kind, item)]
        if _uid(known) != _uid(item):  # a namesake took its place while we were not looking
            return [Event(EventType.DELETED, kind, known), Event(EventType.ADDED, kind, item)]
        if not _version(item) or _version(known) != _version(item):
            return [Event(EventType.MODIFIED, kind, item)]
        return []

    def _hear(self, group: Sequence[Event]) -> None:
        """Passes on what a watch told, but for how far it has come."""
        if any(event.type is EventType.BOOKMARK for event in group):
            group = [event for event in group if event.type is not EventType.BOOKMARK]
        self._tell(group)

    def _tell(self, group: Sequence[Event]) -> None:
        if not group:
            return
        known, identify = self._known, self._identify
        for event in group:
            identity = event.key or identify(event.object)
            if event.type is EventType.DELETED:
                known.pop(identity, None)
            else:
                known[identity] = event.object
        self._sink(group)


def each_event(sink: Callable[[Event], None]) -> Callable[[Sequence[Event]], None]:
    """A sink of groups for one who wants to be told of each change by itself."""

    def each(group: Sequence[Event]) -> None:
        for event in group:
            sink(event)

    return each


def _reached(group: Sequence[Event]) -> str:
    """The version up to which a group has told everything."""
    return next((version for event in reversed(group) if (version := _version(event.object))), "")


def _version(item: Any) -> str:
    """The version of an object; a decoder that drops metadata must keep `resource_version`."""
    if isinstance(item, dict):
        return str(item["metadata"].get("resourceVersion", ""))
    return str(getattr(item, "resource_version", ""))


def _uid(item: Any) -> str:
    if isinstance(item, dict):
        return str(item["metadata"].get("uid", ""))
    return str(getattr(item, "uid", ""))


def _ends_initial_events(bookmark: Any) -> bool:
    """Bookmarks of a streaming list that a decoder has stripped of annotations count as its end."""
    if isinstance(bookmark, dict):
        return annotations_of(bookmark).get(INITIAL_EVENTS_END) == "true"
    return True
