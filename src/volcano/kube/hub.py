"""One mirror for many readers: brains in one process that watch the same objects are told by one watch."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from volcano.clock import Clock
from volcano.kube.client import Client, Event, EventType
from volcano.kube.mirror import Mirror
from volcano.kube.reconciler import Watch

Sink = Callable[[Event], None]


class Hub:
    """Shares mirrors among subscribers, and so the manifests: nobody may change what he is told of.

    A mirror runs while somebody subscribes to it. Whoever comes late is told first of everything there is.
    """

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._shared: dict[Watch, _Shared] = {}

    @contextmanager
    def subscription(self, watch: Watch, sink: Sink) -> Iterator[Mirror]:
        """Tells `sink` of every change for as long as the block lasts; the mirror says when it has listed once.

        The block must also await `following(watch)`, which raises what ends the mirror, should anything do so.
        """
        shared = self._shared.get(watch)
        if shared is None or shared.task.done():
            shared = self._shared[watch] = _Shared(self._client, watch, self._clock)
        shared.add(sink)
        try:
            yield shared.mirror
        finally:
            shared.sinks.remove(sink)
            if not shared.sinks:
                shared.task.cancel()
                if self._shared.get(watch) is shared:
                    del self._shared[watch]

    async def following(self, watch: Watch) -> None:
        """Runs as long as the mirror of `watch` does; cancelling it leaves the mirror to the others."""
        await asyncio.shield(self._shared[watch].task)


class _Shared:
    """A mirror at work and whom it tells."""

    def __init__(self, client: Client, watch: Watch, clock: Clock) -> None:
        self.sinks: list[Sink] = []
        self._watch = watch
        self.mirror = Mirror(client, watch, self._tell, clock)
        self.task = asyncio.create_task(self.mirror.run(), name=f"mirror of {watch.kind}")

    def add(self, sink: Sink) -> None:
        for item in self.mirror.objects():
            sink(Event(EventType.ADDED, self._watch.kind, item))
        self.sinks.append(sink)

    def _tell(self, event: Event) -> None:
        for sink in list(self.sinks):
            sink(event)
