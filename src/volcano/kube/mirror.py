"""Keeping a brain informed: list, then watch, and list again when history is gone or the server was away."""

import asyncio
from collections.abc import Callable
from typing import Any

import orjson

from volcano.clock import Clock
from volcano.kube.client import Client, Decode, Event, EventType, Query
from volcano.kube.errors import ApiError, BadRequest, Gone, Invalid, TooManyRequests, Unavailable
from volcano.kube.manifest import Manifest, annotations_of, key_of
from volcano.kube.reconciler import Watch
from volcano.log import Log

log = Log("mirror")

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0
# On the bookmark that ends the initial events of a streaming list.
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Mirror:
    """Feeds every change of some objects to a sink, for as long as `run` runs.

    After a gap (410, a restarted server) it lists afresh and tells the sink of everything that is new, changed or
    gone, and of nothing else: `identify` says under which key. A DELETED event after a gap carries the object as it
    was last seen. With `streaming`, the first list comes as a watch where the server can do that.
    """

    def __init__(
        self,
        client: Client,
        watch: Watch,
        sink: Callable[[Event], None],
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
        for item in listing.items:
            self._take(item)
        self._announce()
        return listing.resource_version

    async def _stream(self) -> str:
        """The list as the beginning of a watch; returns the version reached when the watch ends."""
        present: set[object] | None = set()
        version = ""
        query = self._query(send_initial_events=True, resource_version_match="NotOlderThan")
        try:
            async for event in self._client.watch(self._watch.kind, query, decode=self._decode):
                version = _version(event.object) or version
                if event.type is EventType.BOOKMARK:
                    if present is not None and _ends_initial_events(event.object):
                        self._drop_all_but(present)
                        present = None
                        self._announce()
                elif present is not None and event.type is EventType.ADDED:
                    present.add(self._identify(event.object))
                    self._take(event.object)
                else:
                    self._emit(event)
        except Unavailable:
            if present is not None:
                raise
        if present is not None:
            raise Unavailable("the stream ended before it had told everything")
        return version

    async def _follow(self, version: str) -> None:
        """Watches from `version`, resuming after each end, until the server refuses."""
        pause = FIRST_PAUSE
        while True:
            try:
                query = self._query(resource_version=version)
                async for event in self._client.watch(self._watch.kind, query, decode=self._decode):
                    version = _version(event.object) or version
                    pause = FIRST_PAUSE
                    self._progress = True
                    if event.type is not EventType.BOOKMARK:
                        self._emit(event)
            except (Unavailable, TooManyRequests) as error:
                log.info("watch interrupted", kind=self._watch.kind, reason=error.message)
            await self._clock.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _query(self, **more: Any) -> Query:
        watch = self._watch
        return Query(namespace=watch.namespace, labels=watch.labels, fields=watch.fields, **more)

    def _announce(self) -> None:
        if not self.synced.is_set():
            self.synced.set()
            if self._on_synced is not None:
                self._on_synced()

    def _drop_all_but(self, present: set[object]) -> None:
        for identity in [identity for identity in self._known if identity not in present]:
            self._emit(Event(EventType.DELETED, self._watch.kind, self._known[identity]))

    def _take(self, item: Any) -> None:
        """Tells of a listed object what the sink does not know yet."""
        kind, known = self._watch.kind, self._known.get(self._identify(item))
        if known is None:
            self._emit(Event(EventType.ADDED, kind, item))
        elif _uid(known) != _uid(item):  # a namesake took its place while we were not looking
            self._emit(Event(EventType.DELETED, kind, known))
            self._emit(Event(EventType.ADDED, kind, item))
        elif not _version(item) or _version(known) != _version(item):
            self._emit(Event(EventType.MODIFIED, kind, item))

    def _emit(self, event: Event) -> None:
        identity = self._identify(event.object)
        if event.type is EventType.DELETED:
            self._known.pop(identity, None)
        else:
            self._known[identity] = event.object
        self._sink(event)


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
