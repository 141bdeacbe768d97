"""In-process client of the registry: no HTTP, the same results."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, nullcontext
from typing import Any

import orjson

from volcano.apiserver.interfaces import SYSTEM, Attributes, User
from volcano.apiserver.registry.registry import Registry
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Key, Manifest, key_of
from volcano.kube.client.protocol import DEFAULTS, EVERYTHING, Decode, Event, Listing, Options, Query
from volcano.kube.client.watch_batches import flatten

# Events per batch before other tasks run: a watcher with a long backlog must not block the event loop.
MAX_BATCH = 32


class DirectClient:
    """Acts as one user. Copies its arguments: callers keep their manifests.

    `decode` turns the results of writes into manifests; callers that change nothing may share them. With
    `concurrent_writes`, further writes wait, so that those of the cluster's own components do not delay users' writes.
    """

    def __init__(
        self,
        registry: Registry,
        user: User = SYSTEM,
        *,
        decode: Callable[[bytes], Manifest] = orjson.loads,
        concurrent_writes: int = 0,
    ) -> None:
        self._registry = registry
        self._user = user
        self._decode = decode
        self._slots = asyncio.Semaphore(concurrent_writes) if concurrent_writes else nullcontext()

    async def get(self, kind: Kind, key: Key, *, subresource: str = "") -> Manifest:
        return (await self._registry.get(kind, key, subresource=subresource)).manifest()

    async def list(self, kind: Kind, query: Query = EVERYTHING, *, decode: Decode = orjson.loads) -> Listing:
        page = await self._registry.list(kind, query)
        items = [decode(item) for item in page.items]
        return Listing(items, str(page.version), page.continue_token, page.remaining)

    async def create(
        self, kind: Kind, manifest: Manifest, *, subresource: str = "", options: Options = DEFAULTS
    ) -> Manifest:
        request = self._request("create", kind, key_of(manifest), subresource, options)
        async with self._slots:
            reply = await self._registry.create(request, _own(manifest))
        return self._decode(reply.data)

    async def update(
        self, kind: Kind, manifest: Manifest, *, subresource: str = "", options: Options = DEFAULTS
    ) -> Manifest:
        request = self._request("update", kind, key_of(manifest), subresource, options)
        async with self._slots:
            reply = await self._registry.update(request, _own(manifest))
        return self._decode(reply.data)

    async def patch(
        self, kind: Kind, key: Key, patch: Any, *, subresource: str = "", options: Options = DEFAULTS
    ) -> Manifest:
        request = self._request("patch", kind, key, subresource, options)
        async with self._slots:
            reply = await self._registry.patch(request, _own(patch))
        return self._decode(reply.data)

    async def delete(self, kind: Kind, key: Key, *, options: Options = DEFAULTS) -> Manifest:
        async with self._slots:
            return (await self._registry.delete(self._request("delete", kind, key, "", options))).manifest()

    def watch(
        self, kind: Kind, query: Query = EVERYTHING, *, decode: Decode = orjson.loads
    ) -> AsyncIterator[Event]:
        return flatten(self.watch_batches(kind, query, decode=decode))

    async def watch_batches(
        self, kind: Kind, query: Query = EVERYTHING, *, decode: Decode = orjson.loads
    ) -> AsyncGenerator[Sequence[Event], None]:
        """As `watch`, in batches of events committed together."""
        batches = self._registry.batches(kind, query)
        async with aclosing(batches):
            async for events in batches:
                for start in range(0, len(events), MAX_BATCH):
                    if start:
                        await asyncio.sleep(0)
                    batch = events[start : start + MAX_BATCH]
                    yield [Event(type_, kind, decode(data), key) for type_, data, key in batch]

    def _request(self, verb: str, kind: Kind, key: Key, subresource: str, options: Options) -> Attributes:
        return Attributes(verb, kind, key, self._user, subresource, options)


def _own(value: Any) -> Any:
    """A deep copy; encoding and decoding is the cheapest way."""
    return orjson.loads(orjson.dumps(value))
