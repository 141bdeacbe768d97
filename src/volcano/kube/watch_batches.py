"""Changes in the groups in which a client hears of them, so that whoever is told is told once a group."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Protocol, cast

from volcano.kube.client import Client, Decode, Event, Query
from volcano.kube.kinds import Kind


class BatchWatcher(Protocol):
    """A client whose watches also come in groups: what one commit or one read from the network brought."""

    def watch_batches(
        self, kind: Kind, query: Query, *, decode: Decode
    ) -> AsyncGenerator[Sequence[Event], None]:
        """As `watch`, several events at a time; no group is empty."""
        ...


def groups(
    client: Client, kind: Kind, query: Query, *, decode: Decode
) -> AsyncGenerator[Sequence[Event], None]:
    """What `client.watch` tells, in the client's own groups if it has any, else one by one."""
    if _has_groups(client):
        return cast(BatchWatcher, client).watch_batches(kind, query, decode=decode)
    return _one_by_one(client.watch(kind, query, decode=decode))


async def members(groups: AsyncGenerator[Sequence[Event], None]) -> AsyncGenerator[Event, None]:
    """The events of groups, one after the other: how a client of groups offers `watch`."""
    async with aclosing(groups):
        async for group in groups:
            for event in group:
                yield event


async def _one_by_one(events: AsyncIterator[Event]) -> AsyncGenerator[Sequence[Event], None]:
    async for event in events:
        yield (event,)


def _has_groups(client: Client) -> bool:
    """Whoever makes a client of another and changes `watch` alone wants to be asked for every event."""
    for cls in type(client).__mro__:
        if "watch_batches" in vars(cls):
            return True
        if "watch" in vars(cls):
            return False
    return False
