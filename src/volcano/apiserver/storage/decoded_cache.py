"""Cache of decoded objects: recent writes are kept as manifests, others are decoded with shared parts."""

from typing import Any

import msgspec
import orjson

from volcano.apiserver.storage.content_cache import ContentCache
from volcano.apiserver.storage.history import StoredObject
from volcano.kube.api.manifest import Manifest

KEPT, LARGEST = 2048, 16 * 1024  # number and size in bytes of objects that stay decoded after a write
KEPT_BYTES = 8 << 20  # of their JSON; decoded, they need several times as much


class DecodedCache:
    """Recently written objects in decoded form: most are soon read or written again."""

    __slots__ = ("_bytes", "_parts", "_places")

    def __init__(self) -> None:
        self._clear()
        self._parts: ContentCache[Any] = ContentCache()

    def keep(self, record: StoredObject, manifest: Manifest) -> None:
        """Takes over an object, which is read-only from then on."""
        size = len(record.data)
        if size > LARGEST:
            return
        if self._bytes + size > KEPT_BYTES:
            self._clear()
        place = record.version % KEPT
        self._bytes += size - self._places[place][2]
        self._places[place] = record.version, manifest, size

    def manifest(self, record: StoredObject) -> Manifest:
        """The object of a record, decoded unless cached. It is shared and read-only."""
        version, known, _ = self._places[record.version % KEPT]
        return known if version == record.version else decode(record.data, self._parts)

    def _clear(self) -> None:
        # A ring indexed by version: each slot is overwritten one round later.
        self._places: list[tuple[int, Manifest, int]] = [(0, {}, 0)] * KEPT
        self._bytes = 0


class _Encoded(msgspec.Struct, forbid_unknown_fields=True):
    """An object with the usual fields, most of them not decoded yet."""

    apiVersion: str  # noqa: N815 - as Kubernetes writes it
    kind: str
    metadata: dict[str, msgspec.Raw]
    spec: msgspec.Raw
    status: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


_decoder = msgspec.json.Decoder(_Encoded)


def decode(data: bytes, parts: ContentCache[Any]) -> Manifest:
    """A stored object. Its spec and managed fields are shared with equal ones decoded before, as they are
    most of its values; they are read-only."""
    try:
        encoded = _decoder.decode(data)
    except msgspec.MsgspecError:  # an object with other fields
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
