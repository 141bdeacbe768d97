"""Watch events in batches, so that each batch is dispatched once."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Protocol, cast

from volcano.kube.api.kinds import Kind
from volcano.kube.client.protocol import Client, Decode, Event, Query


class BatchWatcher(Protocol):
    """A client that can watch in batches: the events of one commit or of one read from the network."""

    def watch_batches(
        self, kind: Kind, query: Query, *, decode: Decode
    ) -> AsyncGenerator[Sequence[Event], None]:
        """As `watch`, several events at a time; no batch is empty."""
        ...


def watch_batches(
    client: Client, kind: Kind, query: Query, *, decode: Decode
) -> AsyncGenerator[Sequence[Event], None]:
    """Watches in the client's own batches if it has any, else in batches of one event."""
    if _has_batches(client):
        return cast(BatchWatcher, client).watch_batches(kind, query, decode=decode)
    return _one_by_one(client.watch(kind, query, decode=decode))


async def flatten(batches: AsyncGenerator[Sequence[Event], None]) -> AsyncGenerator[Event, None]:
    """Yields the events of batches one by one: implements `watch` on top of `watch_batches`."""
    async with aclosing(batches):
        async for batch in batches:
            for event in batch:
                yield event


async def _one_by_one(events: AsyncIterator[Event]) -> AsyncGenerator[Sequence[Event], None]:
    async for event in events:
        yield (event,)


def _has_batches(client: Client) -> bool:
    """Whether the client's batches are those of its `watch`: a subclass that overrides only `watch` has none."""
    for cls in type(client).__mro__:
        if "watch_batches" in vars(cls):
            return True
        if "watch" in vars(cls):
            return False
    return False
