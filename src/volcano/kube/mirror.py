"""Keeping a brain informed: list, then watch, and list again when history is gone or the server was away."""

import asyncio
from collections.abc import Callable

import orjson

from volcano.clock import Clock
from volcano.kube.client import Client, Decode, Event, EventType, Query
from volcano.kube.errors import ApiError, Gone
from volcano.kube.manifest import Manifest, key_of
from volcano.kube.reconciler import Watch
from volcano.log import Log

log = Log("mirror")

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0


class Mirror:
    """Feeds every change of some objects to a sink, for as long as `run` runs.

    After a gap (410, a restarted server) it lists afresh and tells the sink of everything that is new, changed or
    gone: `identify` says under which key, `forget` makes the object handed on with a DELETED event.
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
    ) -> None:
        self._client = client
        self._watch = watch
        self._sink = sink
        self._clock = clock
        self._decode = decode
        self._identify = identify
        self._on_synced = on_synced
        self._known: dict[object, Manifest] = {}
        self.synced = asyncio.Event()

    async def run(self) -> None:
        """Runs until cancelled; no refusal or lost connection ends it."""
        pause = FIRST_PAUSE
        while True:
            try:
                version = await self._relist()
                pause = FIRST_PAUSE
                await self._follow(version)
            except Gone:
                log.info("history gone, listing again", kind=self._watch.kind)
            except ApiError as error:
                log.warning("watch broken, will try again", kind=self._watch.kind, reason=error.message)
                await self._clock.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    async def _relist(self) -> str:
        kind, watch = self._watch.kind, self._watch
        query = Query(namespace=watch.namespace, labels=watch.labels, fields=watch.fields)
        listing = await self._client.list(kind, query, decode=self._decode)
        present = {self._identify(item): item for item in listing.items}
        for identity in [identity for identity in self._known if identity not in present]:
            self._emit(Event(EventType.DELETED, kind, self._known[identity]))
        for item in listing.items:
            self._emit(Event(EventType.ADDED, kind, item))
        if not self.synced.is_set():
            self.synced.set()
            if self._on_synced is not None:
                self._on_synced()
        return listing.resource_version

    async def _follow(self, version: str) -> None:
        """Watches from `version`, resuming after each clean end, until history is gone."""
        watch = self._watch
        pause = FIRST_PAUSE
        while True:
            query = Query(
                namespace=watch.namespace, labels=watch.labels, fields=watch.fields, resource_version=version
            )
            try:
                async for event in self._client.watch(watch.kind, query, decode=self._decode):
                    version = _version(event, version)
                    pause = FIRST_PAUSE
                    if event.type is not EventType.BOOKMARK:
                        self._emit(event)
            except Gone:
                raise
            except ApiError as error:
                log.info("watch interrupted", kind=watch.kind, reason=error.message)
                await self._clock.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                await self._clock.sleep(FIRST_PAUSE)

    def _emit(self, event: Event) -> None:
        identity = self._identify(event.object)
        if event.type is EventType.DELETED:
            self._known.pop(identity, None)
        else:
            self._known[identity] = event.object
        self._sink(event)


def _version(event: Event, version: str) -> str:
    """The version to resume from after this event; a decoder that drops metadata must keep `resource_version`."""
    if isinstance(event.object, dict):
        found: str = event.object["metadata"].get("resourceVersion", version)
        return found
    return str(getattr(event.object, "resource_version", version))
