"""Reads of any served kind: get, list and watch."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import replace

import orjson

from volcano.apiserver.errors import not_found, unserved
from volcano.apiserver.interfaces import Served
from volcano.apiserver.registry import subresources
from volcano.apiserver.registry.conversion import Conversions, ConvertingWatcher
from volcano.apiserver.registry.kind_table import KindTable, from_storage, reader
from volcano.apiserver.registry.lookup import StoreLookup
from volcano.apiserver.registry.result import Reply
from volcano.apiserver.storage.history import StoredObject
from volcano.apiserver.storage.pagination import Page, parse_version, read_page, select_all
from volcano.apiserver.storage.selection import Selection, select
from volcano.apiserver.storage.store import Store
from volcano.apiserver.storage.watch_cache import EncodedEvent, Watcher
from volcano.base.clock import Clock
from volcano.kube.api.errors import Cause, Invalid
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import EVERYTHING, Query


class ReadRegistry:
    """The reading verbs. They return encoded objects, as of the newest version that is durable."""

    def __init__(
        self,
        store: Store,
        kinds: KindTable,
        clock: Clock,
        lookup: StoreLookup,
        conversions: Conversions | None = None,
    ) -> None:
        self.store = store
        self.kinds = kinds
        self.clock = clock
        self.lookup = lookup
        self.conversions = conversions or Conversions()

    async def get(self, kind: Kind, key: Key, *, subresource: str = "") -> Reply:
        """One object, or a subresource of it. Raises NotFound."""
        served = self.served(kind, subresource)
        record = self.store.get_committed(served.storage.resource, key)
        if record is None:
            raise not_found(served.kind, key.name)
        if subresource == "scale":
            manifest = await self.decoded(served, record)
            return Reply(orjson.dumps(subresources.scale_of(served, manifest, self.lookup)))
        if served.conversion is not None:
            return await self.conversions.reply(served, Reply(record.data))
        convert = reader(served)
        return Reply(record.data if convert is None else convert(record.data))

    async def list(self, kind: Kind, query: Query = EVERYTHING) -> Page:
        """Some or all objects of a kind, as of one version."""
        served = self.served(kind)
        collection = self.store.collection(served.storage.resource)
        page = read_page(self.store, collection, served.kind, _selection(served, query), query)
        if served.conversion is not None:
            return replace(page, items=await self.conversions.to_served(served, page.items))
        convert = reader(served)
        return page if convert is None else replace(page, items=[convert(item) for item in page.items])

    def open_feed(self, kind: Kind, query: Query = EVERYTHING) -> Watcher | ConvertingWatcher:
        """Events of a kind in the version it is served in. Raises Gone, BadRequest or NotFound at once."""
        served, watcher = self.served(kind), self.open_watcher(kind, query)
        if served.conversion is not None:
            return ConvertingWatcher(watcher, self.conversions, served)
        return watcher

    def open_watcher(self, kind: Kind, query: Query = EVERYTHING) -> Watcher:
        """A position in the history of a kind, to read events from; of a kind that a webhook converts, in the
        version they are stored in. Raises Gone, BadRequest or NotFound at once."""
        served = self.served(kind)
        selection = _selection(served, query)
        collection = self.store.collection(served.storage.resource)
        with ExitStack() as undo:
            watcher = Watcher(self.store, collection, selection, served.kind, reader(served))
            undo.callback(watcher.close)
            if query.send_initial_events:
                if query.resource_version_match != "NotOlderThan":
                    raise _invalid_options(
                        "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                        "resourceVersionMatch",
                    )
                watcher.begin(select_all(self.store, collection, selection), mark_end=query.bookmarks)
            elif query.resource_version in ("", "0"):
                watcher.begin(select_all(self.store, collection, selection), mark_end=False)
            else:
                watcher.resume(parse_version(query.resource_version))
            undo.pop_all()
        return watcher

    def batches(self, kind: Kind, query: Query = EVERYTHING) -> AsyncGenerator[Sequence[EncodedEvent], None]:
        """Events of a kind, in batches of those committed together."""
        feed = self.open_feed(kind, query)
        return feed.batches(self.clock, timeout=query.timeout_seconds, bookmarks=query.bookmarks)

    async def watch(self, kind: Kind, query: Query = EVERYTHING) -> AsyncGenerator[EncodedEvent, None]:
        """Events of a kind, one by one."""
        batches = self.batches(kind, query)
        async with aclosing(batches):
            async for batch in batches:
                for event in batch:
                    yield event

    def served(self, kind: Kind, subresource: str = "") -> Served:
        """How a kind is served now. Raises NotFound for kinds and subresources that are not."""
        served = self.kinds.served(kind)
        if subresource and subresource not in served.kind.subresources:
            raise unserved()
        return served

    async def decoded(self, served: Served, record: StoredObject) -> Manifest:
        """A new copy of a stored object in the version it is served in."""
        if served.conversion is not None:
            return await self.conversions.decoded(served, record)
        return self.decode(served, record)

    def decode(self, served: Served, record: StoredObject) -> Manifest:
        """A new copy of a stored object of a kind without a conversion webhook."""
        manifest: Manifest = orjson.loads(record.data)
        rewrite = from_storage(served)
        if rewrite is not None:
            rewrite(manifest)
        return manifest


def _selection(served: Served, query: Query) -> Selection:
    namespace = query.namespace if served.kind.namespaced else ""
    return select(
        served.kind, served.storage, namespace, query.labels, query.fields, served.selectable_fields
    )


def _invalid_options(message: str, field: str) -> Invalid:
    return Invalid(
        f'ListOptions.meta.k8s.io "" is invalid: {field}: Forbidden: {message}',
        causes=[Cause("FieldValueForbidden", f"Forbidden: {message}", field)],
    )
