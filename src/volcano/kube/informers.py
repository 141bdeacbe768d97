"""One mirror for many readers: controllers in one process that watch the same objects are told by one watch."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import orjson

from volcano.clock import Clock
from volcano.kube.client import Client, Decode, Event, EventType
from volcano.kube.controller import Watch
from volcano.kube.kinds import Kind
from volcano.kube.manifest import Manifest, controller_of
from volcano.kube.reflector import Reflector, each_event

Sink = Callable[[Event], None]
BatchHandler = Callable[[Sequence[Event]], None]

# Watchers of one process hear of a change within a few turns of the loop; more need not be remembered.
REMEMBERED = 2048


class SharedInformerFactory:
    """Shares mirrors among subscribers, and so the manifests: nobody may change what he is told of.

    A mirror runs while somebody subscribes to it. Whoever comes late is told first of everything there is. Manifests
    come without `managedFields`, which are half of an object; servers keep them when an update leaves them out.
    An in-process client that decodes answers with `decode` shares those, too.
    """

    def __init__(self, client: Client, clock: Clock, decode: "SharedDecodeCache | None" = None) -> None:
        self._client = client
        self._clock = clock
        self._shared: dict[Watch, _Shared] = {}
        self.decode = decode or SharedDecodeCache()

    @contextmanager
    def subscription(self, watch: Watch, sink: Sink) -> Iterator[Reflector]:
        """Tells `sink` of every change for as long as the block lasts; the mirror says when it has listed once.

        The block must also await `following(watch)`, which raises what ends the mirror, should anything do so.
        """
        with self.subscribe_batches(watch, each_event(sink)) as mirror:
            yield mirror

    @contextmanager
    def subscribe_batches(
        self, watch: Watch, sink: BatchHandler, managers: Iterable[Kind | None] | None = None
    ) -> Iterator[Reflector]:
        """As `subscription`, for a sink that takes changes in the groups in which they come; with `managers`, only
        those of objects that one of these kinds manages (None: that nobody manages)."""
        shared = self._shared.get(watch)
        if shared is None or shared.task.done():
            shared = self._shared[watch] = _Shared(self._client, watch, self._clock, self.decode)
        listener = EventHandler(sink, managers)
        shared.add(listener)
        try:
            yield shared.mirror
        finally:
            shared.listeners.remove(listener)
            if not shared.listeners:
                shared.task.cancel()
                if self._shared.get(watch) is shared:
                    del self._shared[watch]

    async def following(self, watch: Watch) -> None:
        """Runs as long as the mirror of `watch` does; cancelling it leaves the mirror to the others."""
        await asyncio.shield(self._shared[watch].task)


class EventHandler:
    """One whom a mirror tells: of everything, or of what some kinds manage."""

    def __init__(self, sink: BatchHandler, managers: Iterable[Kind | None] | None = None) -> None:
        self._sink = sink
        self._managers = None if managers is None else frozenset(map(_named, managers))

    def tell(self, group: Sequence[Event], managers: "_Managers") -> None:
        if self._managers is not None:
            group = [event for event, manager in managers.of(group) if manager in self._managers]
        if group:
            self._sink(group)


class _Managers:
    """Who manages the objects of a group, found out once and only if somebody asks."""

    def __init__(self) -> None:
        self._found: list[tuple[Event, tuple[str, str] | None]] | None = None

    def of(self, group: Sequence[Event]) -> list[tuple[Event, tuple[str, str] | None]]:
        if self._found is None:
            self._found = [(event, _manager(event.object)) for event in group]
        return self._found


def _named(kind: Kind | None) -> tuple[str, str] | None:
    return None if kind is None else (kind.api_version, kind.kind)


def _manager(manifest: Manifest) -> tuple[str, str] | None:
    owner = controller_of(manifest)
    return None if owner is None else (owner.get("apiVersion", ""), owner.get("kind", ""))


class _Shared:
    """A mirror at work and whom it tells."""

    def __init__(self, client: Client, watch: Watch, clock: Clock, decode: Decode) -> None:
        self.listeners: list[EventHandler] = []
        self._watch = watch
        self.mirror = Reflector(client, watch, self._tell, clock, decode=decode)
        self.task = asyncio.create_task(self.mirror.run(), name=f"mirror of {watch.kind}")

    def add(self, listener: EventHandler) -> None:
        present = [Event(EventType.ADDED, self._watch.kind, item) for item in self.mirror.objects()]
        listener.tell(present, _Managers())
        self.listeners.append(listener)

    def _tell(self, group: Sequence[Event]) -> None:
        managers = _Managers()
        for listener in list(self.listeners):
            listener.tell(group, managers)


class SharedDecodeCache:
    """Hands the same manifest to everybody who asks about the same bytes, within or across mirrors.

    An in-process server tells its watchers of a change with one and the same bytes object, whose hash Python keeps:
    finding it again costs nothing.
    """

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._manifests: OrderedDict[bytes, Manifest] = OrderedDict()

    def __call__(self, data: bytes) -> Manifest:
        manifest = self._manifests.get(data)
        if manifest is None:
            manifest = orjson.loads(data)
            manifest.get("metadata", {}).pop("managedFields", None)
            self._keep(data, manifest)
        return manifest

    def remember(self, data: bytes, manifest: Manifest) -> None:
        """Takes over what was just encoded as `data`, so that nobody has to decode it; it is changed no more."""
        metadata = {name: value for name, value in manifest["metadata"].items() if name != "managedFields"}
        self._keep(data, {**manifest, "metadata": metadata})

    def _keep(self, data: bytes, manifest: Manifest) -> None:
        self._manifests[data] = manifest
        if len(self._manifests) > self._remembered:
            self._manifests.popitem(last=False)
