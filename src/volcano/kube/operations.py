"""Writes as values: what a controller wants done, and the one function that does it."""

from dataclasses import dataclass
from typing import Any

from volcano.kube.client import DEFAULTS, Client, Options
from volcano.kube.errors import AlreadyExists, ApiError, NotFound
from volcano.kube.kinds import Kind
from volcano.kube.manifest import Key, Manifest, key_of, uid_of


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object, or post to a subresource such as `binding` or `eviction` of the one it names.

    With `if_absent` an object that is already there is no refusal: it is read, and is the answer.
    With `optional` a refusal does not end the work it belongs to.
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
    """Replace an object; refused when its resourceVersion is no longer the newest."""

    kind: Kind
    manifest: Manifest
    subresource: str = ""
    options: Options = DEFAULTS

    @property
    def key(self) -> Key:
        return key_of(self.manifest)


@dataclass(frozen=True, slots=True)
class Patch:
    """Change some fields of an object; a merge patch unless the options say otherwise.

    With `if_present` an object that is gone is no refusal: the answer is then empty.
    """

    kind: Kind
    key: Key
    patch: Any
    subresource: str = ""
    options: Options = DEFAULTS
    if_present: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """Ask for an object's deletion. With `if_present` an object that is gone is no refusal: the answer is empty."""

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


Operation = Create | Update | Patch | Delete | Get


@dataclass(frozen=True, slots=True)
class Together:
    """Writes whose order does not matter, done side by side; a refusal of one does not stop the others."""

    operations: tuple[Operation, ...]


async def perform(client: Client, operation: Operation) -> Manifest:
    """Does one write; returns the object the server answered with. Raises the server's `ApiError`.

    A refusal that the operation allows for is answered instead: see `if_absent`, `if_present` and `optional`.
    """
    try:
        return await _write(client, operation)
    except ApiError as refusal:
        match operation:
            case Create(if_absent=True) if isinstance(refusal, AlreadyExists):
                return await client.get(operation.kind, operation.key)
            case Create(optional=True):
                return refusal.status()
            case Patch(if_present=True) | Delete(if_present=True) if isinstance(refusal, NotFound):
                return {}
            case Get() if isinstance(refusal, NotFound):
                return {}
        raise


def refused(answer: Manifest) -> bool:
    """Whether an answer says that a write was refused: a failure Status."""
    return answer.get("kind") == "Status" and answer.get("status") == "Failure"


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
