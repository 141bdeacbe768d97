"""Stored objects as manifests again: those written last as they were, others decoded but for what is known already."""

from typing import Any

import msgspec
import orjson

from volcano.apiserver.alike import Alike
from volcano.apiserver.history import Record
from volcano.kube.manifest import Manifest

KEPT, LARGEST = 2048, 16 * 1024  # how many objects, of how many bytes each, stay decoded after a write


class Fresh:
    """What was written last, as it was before it was encoded: most of it is soon written again, or looked at."""

    __slots__ = ("_places", "_specs")

    def __init__(self) -> None:
        # Every version has its place, which it leaves to the one that comes a whole round later.
        self._places: list[tuple[int, Manifest]] = [(0, {})] * KEPT
        self._specs: Alike[Manifest] = Alike()

    def keep(self, record: Record, manifest: Manifest) -> None:
        """Takes over an object, which nobody may change any more."""
        if len(record.data) <= LARGEST:
            self._places[record.version % KEPT] = record.version, manifest

    def manifest(self, record: Record) -> Manifest:
        """The object of a record, decoded unless it is known. It is shared: nobody may change it."""
        version, known = self._places[record.version % KEPT]
        return known if version == record.version else decode(record.data, self._specs)


class _Encoded(msgspec.Struct, forbid_unknown_fields=True):
    """An object of the usual parts, whose spec waits to be decoded."""

    apiVersion: str  # noqa: N815 - as Kubernetes writes it
    kind: str
    metadata: dict[str, Any]
    spec: msgspec.Raw
    status: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


_decoder = msgspec.json.Decoder(_Encoded)


def decode(data: bytes, specs: Alike[Manifest]) -> Manifest:
    """A stored object. Its spec is that of one before, if they were written alike: nobody may change it."""
    try:
        parts = _decoder.decode(data)
    except msgspec.MsgspecError:  # an object of other parts
        whole: Manifest = orjson.loads(data)
        return whole
    key = bytes(parts.spec)
    spec = specs.get(key)
    if spec is None:
        specs.put(key, spec := orjson.loads(key))
    manifest = {"apiVersion": parts.apiVersion, "kind": parts.kind, "metadata": parts.metadata, "spec": spec}
    if parts.status is not msgspec.UNSET:
        manifest["status"] = parts.status
    return manifest
