"""Writes as values: what a brain wants done, and the one function that does it."""

from dataclasses import dataclass
from typing import Any

from volcano.kube.client import DEFAULTS, Client, Options
from volcano.kube.kinds import Kind
from volcano.kube.manifest import Key, Manifest, key_of


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object, or post to a subresource such as `binding` or `eviction` of the one it names."""

    kind: Kind
    manifest: Manifest
    subresource: str = ""
    options: Options = DEFAULTS

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
    """Change some fields of an object; a merge patch unless the options say otherwise."""

    kind: Kind
    key: Key
    patch: Any
    subresource: str = ""
    options: Options = DEFAULTS


@dataclass(frozen=True, slots=True)
class Delete:
    """Ask for an object's deletion."""

    kind: Kind
    key: Key
    options: Options = DEFAULTS


Operation = Create | Update | Patch | Delete


async def perform(client: Client, operation: Operation) -> Manifest:
    """Does one write; returns the object the server answered with. Raises the server's `ApiError`."""
    match operation:
        case Create(kind, manifest, subresource, options):
            return await client.create(kind, manifest, subresource=subresource, options=options)
        case Update(kind, manifest, subresource, options):
            return await client.update(kind, manifest, subresource=subresource, options=options)
        case Patch(kind, key, patch, subresource, options):
            return await client.patch(kind, key, patch, subresource=subresource, options=options)
        case Delete(kind, key, options):
            return await client.delete(kind, key, options=options)
