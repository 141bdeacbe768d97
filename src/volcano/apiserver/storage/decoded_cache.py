"""Stored objects as manifests again: those written last as they were, others decoded but for what is known already."""

from typing import Any

import msgspec
import orjson

from volcano.apiserver.storage.content_cache import ContentCache
from volcano.apiserver.storage.history import Record
from volcano.kube.manifest import Manifest

KEPT, LARGEST = 2048, 16 * 1024  # how many objects, of how many bytes each, stay decoded after a write


class DecodedCache:
    """What was written last, as it was before it was encoded: most of it is soon written again, or looked at."""

    __slots__ = ("_parts", "_places")

    def __init__(self) -> None:
        # Every version has its place, which it leaves to the one that comes a whole round later.
        self._places: list[tuple[int, Manifest]] = [(0, {})] * KEPT
        self._parts: ContentCache[Any] = ContentCache()

    def keep(self, record: Record, manifest: Manifest) -> None:
        """Takes over an object, which nobody may change any more."""
        if len(record.data) <= LARGEST:
            self._places[record.version % KEPT] = record.version, manifest

    def manifest(self, record: Record) -> Manifest:
        """The object of a record, decoded unless it is known. It is shared: nobody may change it."""
        version, known = self._places[record.version % KEPT]
        return known if version == record.version else decode(record.data, self._parts)


class _Encoded(msgspec.Struct, forbid_unknown_fields=True):
    """An object of the usual parts, most of which wait to be decoded."""

    apiVersion: str  # noqa: N815 - as Kubernetes writes it
    kind: str
    metadata: dict[str, msgspec.Raw]
    spec: msgspec.Raw
    status: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


_decoder = msgspec.json.Decoder(_Encoded)


def decode(data: bytes, parts: ContentCache[Any]) -> Manifest:
    """A stored object. Its spec and managers are those of one before, if they were written alike: by number they are
    nearly all of its parts. Nobody may change them."""
    try:
        encoded = _decoder.decode(data)
    except msgspec.MsgspecError:  # an object of other parts
        whole: Manifest = orjson.loads(data)
        return whole
    metadata = {
        name: _shared(value, parts) if name == "managedFields" else orjson.loads(memoryview(value))
        for name, value in encoded.metadata.items()
    }
    spec = _shared(encoded.spec, parts)
    manifest = {"apiVersion": encoded.apiVersion, "kind": encoded.kind, "metadata": metadata, "spec": spec}
    if encoded.status is not msgspec.UNSET:
        manifest["status"] = encoded.status
    return manifest


def _shared(raw: msgspec.Raw, parts: ContentCache[Any]) -> Any:
    key = bytes(raw)
    known = parts.get(key)
    if known is None:
        parts.put(key, known := orjson.loads(key))
    return known
