"""Writes as values, and the function that performs them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from volcano.kube.api.errors import AlreadyExists, ApiError, NotFound
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Key, Manifest, key_of, uid_of
from volcano.kube.client.protocol import DEFAULTS, Client, Options


@dataclass(frozen=True, slots=True)
class Create:
    """Creates an object, or posts to a subresource such as `binding` or `eviction` of the one it names.

    With `if_absent`, an object that already exists is read and returned instead of the error.
    With `optional`, an error does not end the work item: its Status is returned.
    """

    kind: Kind
    manifest: Manifest
    subresource: str = ""
    options: Options = DEFAULTS
    if_absent: bool = False
    optional: bool = False

    @property
    def key(self) -> Key:
        return key_of(self.manifest)


@dataclass(frozen=True, slots=True)
class Update:
    """Replaces an object; a conflict when its resourceVersion is not the newest."""

    kind: Kind
    manifest: Manifest
    subresource: str = ""
    options: Options = DEFAULTS

    @property
    def key(self) -> Key:
        return key_of(self.manifest)


@dataclass(frozen=True, slots=True)
class Patch:
    """Patches an object; with a merge patch unless the options say otherwise.

    With `if_present`, the result is empty instead of an error when the object does not exist.
    """

    kind: Kind
    key: Key
    patch: Any
    subresource: str = ""
    options: Options = DEFAULTS
    if_present: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes an object. With `if_present`, the result is empty instead of an error when it does not exist."""

    kind: Kind
    key: Key
    options: Options = DEFAULTS
    if_present: bool = False


@dataclass(frozen=True, slots=True)
class Get:
    """Read the newest version of an object; the result is empty when there is none, or only one with another `uid`."""

    kind: Kind
    key: Key
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A request to another server than the API server, on behalf of the object that configures it.

    The function may read objects; it returns an answer without `metadata`, and raises an ApiError when it fails.
    """

    kind: Kind
    key: Key
    function: Callable[[Client], Awaitable[Manifest]]


Operation = Create | Update | Patch | Delete | Get | Call


@dataclass(frozen=True, slots=True)
class Concurrent:
    """Writes whose order does not matter, done concurrently; an error of one does not stop the others."""

    operations: tuple[Operation, ...]


async def perform(client: Client, operation: Operation) -> Manifest:
    """Does one write; returns the object in the server's answer. Raises the server's `ApiError`, unless the
    operation allows for it with `if_absent`, `if_present` or `optional`.
    """
    try:
        return await _write(client, operation)
    except ApiError as error:
        match operation:
            case Create(if_absent=True) if isinstance(error, AlreadyExists):
                return await client.get(operation.kind, operation.key)
            case Create(optional=True):
                return error.status()
            case Patch(if_present=True) | Delete(if_present=True) if isinstance(error, NotFound):
                return {}
            case Get() if isinstance(error, NotFound):
                return {}
        raise


def is_rejected(result: Manifest) -> bool:
    """Whether the result of a write is a Failure Status."""
    return result.get("kind") == "Status" and result.get("status") == "Failure"


async def _write(client: Client, operation: Operation) -> Manifest:
    match operation:
        case Create(kind, manifest, subresource, options):
            return await client.create(kind, manifest, subresource=subresource, options=options)
        case Update(kind, manifest, subresource, options):
            return await client.update(kind, manifest, subresource=subresource, options=options)
        case Patch(kind, key, patch, subresource, options):
            return await client.patch(kind, key, patch, subresource=subresource, options=options)
        case Delete(kind, key, options):
            return await client.delete(kind, key, options=options)
        case Get(kind, key, uid):
            found = await client.get(kind, key)
            return found if uid in ("", uid_of(found)) else {}
        case Call(function=function):
            return await function(client)
