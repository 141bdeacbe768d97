"""Conversion of custom resources between the version they are stored in and the version of a request, by webhook.

Kinds without a conversion webhook are converted in `kind_table`, which suspends nowhere.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import orjson

from volcano.apiserver.interfaces import Served
from volcano.apiserver.registry.kind_table import address_of
from volcano.apiserver.registry.result import Reply
from volcano.apiserver.storage.history import StoredObject
from volcano.apiserver.storage.watch_cache import EncodedEvent, Watcher
from volcano.base.clock import Clock
from volcano.kube.api.errors import InternalError
from volcano.kube.api.manifest import Manifest

# Converts objects to an apiVersion by the webhook of a CRD's `spec.conversion`. Raises InternalError.
ConvertFunction = Callable[[Mapping[str, Any], list[Manifest], str], Awaitable[list[Manifest]]]


async def no_webhooks(
    conversion: Mapping[str, Any], objects: list[Manifest], api_version: str
) -> list[Manifest]:
    """Conversion of a registry that has no webhooks."""
    raise InternalError("conversion webhooks are not available")


class Conversions:
    """Converts the objects of kinds that have a conversion webhook. Objects of the wanted version stay as they are."""

    def __init__(self, convert: ConvertFunction = no_webhooks) -> None:
        self._convert = convert

    async def to_served(self, served: Served, items: Sequence[bytes]) -> list[bytes]:
        """Stored objects in the version they are served in, by one call for all."""
        wanted = served.kind.api_version
        right = b'{"apiVersion":' + orjson.dumps(wanted)
        result = list(items)
        others = {
            index: manifest
            for index, data in enumerate(items)
            if not data.startswith(right) and (manifest := orjson.loads(data)).get("apiVersion") != wanted
        }
        if others:
            converted = await self._call(served, list(others.values()), wanted)
            for index, manifest in zip(others, converted, strict=True):
                result[index] = orjson.dumps(_in_order(manifest))
        return result

    async def decoded(self, served: Served, record: StoredObject) -> Manifest:
        """A new copy of a stored object in the version it is served in."""
        (data,) = await self.to_served(served, [record.data])
        manifest: Manifest = orjson.loads(data)
        return manifest

    async def to_storage(self, served: Served, manifest: Manifest) -> Manifest:
        """An object in the storage version."""
        if address_of(served.kind) == address_of(served.storage):
            return manifest
        (converted,) = await self._call(served, [manifest], served.storage.api_version)
        return _in_order(converted)

    async def reply(self, served: Served, reply: Reply) -> Reply:
        """A reply in the version of the request."""
        (data,) = await self.to_served(served, [reply.data])
        return Reply(data, reply.created, reply.warnings)

    async def _call(self, served: Served, manifests: list[Manifest], api_version: str) -> list[Manifest]:
        return await self._convert(served.conversion or {}, manifests, api_version)


def _in_order(manifest: Manifest) -> Manifest:
    """The object with its apiVersion first, as all stored objects have it."""
    return {
        "apiVersion": manifest["apiVersion"],
        "kind": manifest["kind"],
        "metadata": manifest["metadata"],
        **manifest,
    }


class ConvertingWatcher:
    """A watch of a kind that has a conversion webhook: each batch of events is converted by one call."""

    def __init__(self, watcher: Watcher, conversions: Conversions, served: Served) -> None:
        self._watcher = watcher
        self._conversions = conversions
        self._served = served

    async def batches(
        self, clock: Clock, *, timeout: float = 0, bookmarks: bool = False
    ) -> AsyncGenerator[list[EncodedEvent], None]:
        """Batches of events. Raises InternalError if a conversion fails."""
        batches = self._watcher.batches(clock, timeout=timeout, bookmarks=bookmarks)
        async with aclosing(batches):
            async for batch in batches:
                yield await self._converted(batch)

    async def _converted(self, batch: list[EncodedEvent]) -> list[EncodedEvent]:
        objects = [event.data for event in batch if event.key is not None]
        converted = iter(await self._conversions.to_served(self._served, objects))
        return [event if event.key is None else event._replace(data=next(converted)) for event in batch]

    def close(self) -> None:
        self._watcher.close()
