"""The client protocol: seven verbs, implemented by the in-process store and by the HTTP client."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import msgspec
import orjson

from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Key, Manifest, key_of

# Decodes the JSON bytes of one object to the representation that the caller keeps.
Decode = Callable[[bytes], Any]


class PatchType(StrEnum):
    """The media types of the four kinds of patch."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class EventType(StrEnum):
    """Types of watch events."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class Event(msgspec.Struct, frozen=True):  # created for every change by every watch; a dataclass is slower
    """One change of one object. `object` is the decoder's result; a manifest by default.

    `key` is set by sources that know it; see `object_key`.
    """

    type: EventType
    kind: Kind
    object: Any
    key: Key | None = None

    def object_key(self) -> Key:
        """Returns the namespace and name of the object, read from its manifest only when `key` is not set."""
        return self.key or key_of(self.object)


@dataclass(frozen=True, slots=True)
class Listing:
    """A consistent list: the objects, the version to watch from, and the token of the next page, if any."""

    items: list[Any]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a write. Empty values mean the server's default."""

    patch_type: PatchType = PatchType.MERGE
    field_manager: str = ""
    force: bool = False
    dry_run: bool = False
    field_validation: str = ""  # Strict, Warn or Ignore
    grace_seconds: int | None = None
    propagation: str = ""  # Background, Foreground or Orphan
    uid: str = ""  # precondition
    resource_version: str = ""  # precondition


@dataclass(frozen=True, slots=True)
class Query:
    """Selects the objects of a list or watch."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    send_initial_events: bool = False  # watch only: stream the present objects first, then a bookmark
    bookmarks: bool = True  # watch only
    timeout_seconds: int = 0  # watch only


@dataclass(frozen=True, slots=True)
class Watch:
    """Objects of which a controller or an informer receives events."""

    kind: Kind
    namespace: str = ""
    labels: str = ""
    fields: str = ""


DEFAULTS = Options()
EVERYTHING = Query()


class Client(Protocol):
    """The seven verbs. A subresource such as `binding` or `status` is an argument, not a verb.

    Every verb raises a subclass of `ApiError` when the server rejects it and `Unavailable` when it cannot
    be reached.
    """

    async def get(self, kind: Kind, key: Key, *, subresource: str = "") -> Manifest: ...

    async def list(
        self, kind: Kind, query: Query = EVERYTHING, *, decode: Decode = orjson.loads
    ) -> Listing: ...

    async def create(
        self, kind: Kind, manifest: Manifest, *, subresource: str = "", options: Options = DEFAULTS
    ) -> Manifest:
        """Creates an object; with a subresource (`binding`, `eviction`, `token`), posts to that of the named one."""
        ...

    async def update(
        self, kind: Kind, manifest: Manifest, *, subresource: str = "", options: Options = DEFAULTS
    ) -> Manifest: ...

    async def patch(
        self, kind: Kind, key: Key, patch: Any, *, subresource: str = "", options: Options = DEFAULTS
    ) -> Manifest: ...

    async def delete(self, kind: Kind, key: Key, *, options: Options = DEFAULTS) -> Manifest:
        """Requests deletion; returns the object as last seen (it may still be terminating) or a Status."""
        ...

    def watch(
        self, kind: Kind, query: Query = EVERYTHING, *, decode: Decode = orjson.loads
    ) -> AsyncIterator[Event]:
        """Yields changes after `query.resource_version`; ends when the server ends it, raises `Gone` when
        history expired."""
        ...
