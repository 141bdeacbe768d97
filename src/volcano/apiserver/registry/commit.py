"""The commit path: writes a prepared object to the store and returns once the write is durable."""

from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from random import Random
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import orjson

from volcano.apiserver.errors import already_exists
from volcano.apiserver.interfaces import Attributes, Served
from volcano.apiserver.registry import namespaces, object_meta
from volcano.apiserver.registry.deletion import is_finished
from volcano.apiserver.registry.kind_table import to_storage
from volcano.apiserver.registry.result import Reply, reply_of
from volcano.apiserver.storage.history import StoredObject
from volcano.apiserver.storage.store import Store
from volcano.kube.api.errors import ApiError
from volcano.kube.api.manifest import Key, Manifest


class _HasStore(Protocol):
    store: Store


P = ParamSpec("P")
R = TypeVar("R", bound=_HasStore)


def after_commit(
    verb: Callable[Concatenate[R, P], Awaitable[Reply]],
) -> Callable[Concatenate[R, P], Coroutine[Any, Any, Reply]]:
    """Raises a verb's errors only after the state they were computed from is durable: otherwise a client that reads
    again after a conflict could read the state from before."""

    @wraps(verb)
    async def call(self: R, /, *args: P.args, **kwargs: P.kwargs) -> Reply:
        try:
            return await verb(self, *args, **kwargs)
        except ApiError:
            await self.store.durable(self.store.version)
            raise

    return call


async def insert(
    store: Store, request: Attributes, served: Served, manifest: Manifest, random: Random, retries: int
) -> Reply:
    """Stores a new object. A generated name that is taken is generated again up to `retries` times."""
    metadata = manifest["metadata"]
    rewrite = to_storage(served)
    if rewrite is not None:
        rewrite(manifest)
    name = served.storage.resource
    while True:
        key = Key(metadata.get("namespace", ""), metadata["name"])
        if store.get(name, key) is None:
            break
        if not retries:
            raise already_exists(served.kind, metadata["name"])
        retries -= 1
        del metadata["name"]
        object_meta.choose_name(served.kind, metadata, random)
    namespaces.check_creation(store, served.kind, key)  # again, as admission may have taken a while
    if request.options.dry_run:
        return reply_of(served, orjson.dumps(manifest), created=True)
    record = store.put(name, manifest, None)
    await store.durable(record.version)
    return reply_of(served, record.data, created=True)


async def replace(
    store: Store, request: Attributes, served: Served, new: Manifest, old: Manifest, record: StoredObject
) -> Reply:
    """Stores a changed object in place of `record`, or removes it when its last finalizer is removed. Raises Stale."""
    name = served.storage.resource
    if new == old:
        # A write that changes nothing keeps the version, and confirms it as durable like any other.
        await store.durable(record.version)
        return reply_of(served, record.data)
    rewrite = to_storage(served)
    if rewrite is not None:
        rewrite(new)
    if request.options.dry_run:
        return reply_of(served, orjson.dumps(new))
    if is_finished(served.storage, new):
        data = store.remove(name, new, record)
        await store.durable(store.version)
        return reply_of(served, data)
    written = store.put(name, new, record)
    await store.durable(written.version)
    return reply_of(served, written.data)
