"""Shared informers: event handlers in one process that watch the same objects share one reflector."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import orjson

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest, controller_of
from volcano.kube.client.protocol import Client, Decode, Event, EventType, Watch
from volcano.kube.informers.mutation_detector import MutationDetector, process_detector
from volcano.kube.informers.reflector import BatchHandler, Reflector, each_event

log = Log("informers")

# Watches of one process receive a change within a few turns of the event loop; older entries are not needed.
DECODE_CACHE_SIZE = 2048
DECODE_CACHE_BYTES = 8 << 20  # of JSON; decoded, it needs several times as much
# Equal items of the long lists of large objects are kept once.
LARGE_OBJECT = 16 * 1024  # bytes of JSON
LONG_LIST = 32
MAX_SHARED_ITEMS = 50_000


class SharedInformerFactory:
    """Shares one reflector per watch among event handlers, and so the manifests: handlers must not modify them.

    A reflector runs while it has handlers. A handler that is added later first receives an ADDED event for each
    present object. Manifests come without `managedFields`, which are half of an object; servers keep them when an
    update leaves them out. An in-process client that decodes answers with `decode` shares those manifests too.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        decode: "SharedDecodeCache | None" = None,
        *,
        detector: MutationDetector | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._detector = detector or process_detector()
        self._informers: dict[Watch, _SharedInformer] = {}
        self.decode = decode or SharedDecodeCache(detector=self._detector)

    @contextmanager
    def add_event_handler(self, watch: Watch, handler: Callable[[Event], None]) -> Iterator["EventHandler"]:
        """Calls `handler` with every event while the block lasts.

        The block must also await `wait_stopped()` of the result, which raises the error of a handler that failed: it
        has missed events and receives no more. The other handlers of the informer are not affected.
        """
        with self.add_batch_handler(watch, each_event(handler)) as event_handler:
            yield event_handler

    @contextmanager
    def add_batch_handler(
        self, watch: Watch, handler: BatchHandler, owner_kinds: Iterable[Kind | None] | None = None
    ) -> Iterator["EventHandler"]:
        """As `add_event_handler`, for a handler of batches; with `owner_kinds`, only events of objects whose
        controller is of one of these kinds (None: that have no controller)."""
        informer = self._informers.get(watch)
        if informer is None or informer.task.done():
            informer = _SharedInformer(self._client, watch, self._clock, self.decode, self._detector)
            self._informers[watch] = informer
        event_handler = EventHandler(informer, handler, owner_kinds)
        try:
            informer.add(event_handler)
            yield event_handler
        finally:
            informer.remove(event_handler)
            if not informer.handlers:
                informer.task.cancel()
                if self._informers.get(watch) is informer:
                    del self._informers[watch]
                if self._detector is not None:
                    self._detector.check(informer.reflector.objects())

    def version(self, watch: Watch) -> str:
        """The resource version up to which the handlers of a watch have received every change; empty before its first
        list."""
        informer = self._informers.get(watch)
        return "" if informer is None else informer.reflector.version


class EventHandler:
    """A handler of batches, of all objects or of those whose controller is of certain kinds."""

    def __init__(
        self,
        informer: "_SharedInformer",
        handler: BatchHandler,
        owner_kinds: Iterable[Kind | None] | None = None,
    ) -> None:
        self._informer = informer
        self._handler = handler
        self._owner_kinds = (
            None if owner_kinds is None else frozenset(map(_api_version_and_kind, owner_kinds))
        )
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def synced(self) -> asyncio.Event:
        """Set when the present objects have been listed."""
        return self._informer.reflector.synced

    async def wait_stopped(self) -> None:
        """Waits until this handler fails or the informer stops, and raises the error; cancelling the wait does not
        stop the informer."""
        await asyncio.wait((self._failed, self._informer.task), return_when=asyncio.FIRST_COMPLETED)
        await (self._failed if self._failed.done() else asyncio.shield(self._informer.task))

    def dispatch(self, batch: Sequence[Event], owners: "_OwnerKinds") -> None:
        if self._owner_kinds is not None:
            batch = [event for event, kind in owners.of(batch) if kind in self._owner_kinds]
        if batch:
            self._handler(batch)

    def fail(self, error: Exception) -> None:
        """Makes `wait_stopped` raise the error."""
        self._failed.set_exception(error)

    def close(self) -> None:
        if self._failed.done() and not self._failed.cancelled():
            self._failed.exception()  # read, so that asyncio does not report it a second time
        self._failed.cancel()


class _OwnerKinds:
    """Kinds of the controllers of a batch's objects, computed once and only if a handler needs them."""

    def __init__(self) -> None:
        self._computed: list[tuple[Event, tuple[str, str] | None]] | None = None

    def of(self, batch: Sequence[Event]) -> list[tuple[Event, tuple[str, str] | None]]:
        if self._computed is None:
            self._computed = [(event, _owner_kind(event.object)) for event in batch]
        return self._computed


def _api_version_and_kind(kind: Kind | None) -> tuple[str, str] | None:
    return None if kind is None else (kind.api_version, kind.kind)


def _owner_kind(manifest: Manifest) -> tuple[str, str] | None:
    owner = controller_of(manifest)
    return None if owner is None else (owner.get("apiVersion", ""), owner.get("kind", ""))


class _SharedInformer:
    """A running reflector and its event handlers."""

    def __init__(
        self, client: Client, watch: Watch, clock: Clock, decode: Decode, detector: MutationDetector | None
    ) -> None:
        self.handlers: list[EventHandler] = []
        self._watch = watch
        self._detector = detector
        self.reflector = Reflector(client, watch, self._dispatch, clock, decode=decode)
        self.task = asyncio.create_task(self.reflector.run(), name=f"informer of {watch.kind}")

    def add(self, handler: EventHandler) -> None:
        present = [Event(EventType.ADDED, self._watch.kind, item) for item in self.reflector.objects()]
        handler.dispatch(present, _OwnerKinds())
        self.handlers.append(handler)

    def remove(self, handler: EventHandler) -> None:
        """Removes a handler, which may have been removed already because it failed."""
        if handler in self.handlers:
            self.handlers.remove(handler)
        handler.close()

    def _dispatch(self, batch: Sequence[Event]) -> None:
        if self._detector is not None:
            for event in batch:
                self._detector.add(event.object)
        owners = _OwnerKinds()
        for handler in list(self.handlers):
            try:
                handler.dispatch(batch, owners)
            except Exception as error:  # its owner starts again; the other handlers must not miss the batch
                log.error("event handler failed, removed", kind=self._watch.kind, error=error)
                self.handlers.remove(handler)
                handler.fail(error)


class SharedDecodeCache:
    """Decodes the same bytes to the same manifest, within and across informers.

    An in-process server sends a change to all its watches as one bytes object, whose hash Python caches: looking it
    up costs next to nothing.
    """

    def __init__(self, size: int = DECODE_CACHE_SIZE, *, detector: MutationDetector | None = None) -> None:
        self._size = size
        self._detector = detector or process_detector()
        self._manifests: OrderedDict[bytes, Manifest] = OrderedDict()
        self._bytes = 0
        self._items: dict[bytes, Any] = {}  # of long lists

    def __call__(self, data: bytes) -> Manifest:
        manifest = self._manifests.get(data)
        if manifest is None:
            manifest = orjson.loads(data)
            manifest.get("metadata", {}).pop("managedFields", None)
            self._store(data, manifest)
        return manifest

    def remember(self, data: bytes, manifest: Manifest) -> None:
        """Stores a manifest that was just encoded as `data`, which saves decoding it; it must not change any more."""
        metadata = {name: value for name, value in manifest["metadata"].items() if name != "managedFields"}
        self._store(data, {**manifest, "metadata": metadata})

    def _share_items(self, value: Any) -> None:
        """Replaces the items of long lists by equal ones of earlier objects.

        Each pod of a job with a thousand tasks has thousands of variables, which are the same in all pods.
        """
        if isinstance(value, dict):
            for item in value.values():
                self._share_items(item)
        elif isinstance(value, list):
            if len(value) < LONG_LIST:
                for item in value:
                    self._share_items(item)
                return
            if len(self._items) > MAX_SHARED_ITEMS:
                self._items.clear()
            value[:] = [self._items.setdefault(orjson.dumps(item), item) for item in value]

    def _store(self, data: bytes, manifest: Manifest) -> None:
        if data not in self._manifests:
            self._bytes += len(data)
        self._manifests[data] = manifest
        if len(data) > LARGE_OBJECT:
            self._share_items(manifest)
        if self._detector is not None:
            self._detector.add(manifest)
        while len(self._manifests) > self._size or self._bytes > DECODE_CACHE_BYTES:
            oldest, _ = self._manifests.popitem(last=False)
            self._bytes -= len(oldest)
