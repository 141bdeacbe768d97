"""Reads stored objects for admission: the newest state, committed or not."""

import orjson

from volcano.apiserver.registry.kind_table import KindTable, from_storage
from volcano.apiserver.storage.content_cache import ContentCache
from volcano.apiserver.storage.store import Collection, Store
from volcano.kube.api.kinds import (
    LIMIT_RANGE,
    NAMESPACE,
    POD,
    PRIORITY_CLASS,
    RESOURCE_QUOTA,
    RUNTIME_CLASS,
    SERVICE_ACCOUNT,
    Kind,
)
from volcano.kube.api.manifest import Key, Manifest

# Kinds that admission reads for every pod: decoded once per version, not per pod.
_DECODED_ONCE = frozenset(
    {LIMIT_RANGE, NAMESPACE, PRIORITY_CLASS, RESOURCE_QUOTA, RUNTIME_CLASS, SERVICE_ACCOUNT}
)
MOST_NAMESPACES = 1024


class StoreLookup:
    """Decodes objects on request. They may be shared and are read-only."""

    def __init__(self, store: Store, kinds: KindTable) -> None:
        self._store = store
        self._kinds = kinds
        self._decoded_once: ContentCache[Manifest] = ContentCache()
        self._whole: dict[tuple[str, str], tuple[int, list[Manifest]]] = {}  # by kind and namespace

    def find(self, kind: Kind, key: Key) -> Manifest | None:
        served = self._kinds.served(kind)
        record = self._store.get(served.storage.resource, key)
        return self._decode(kind, record.data) if record is not None else None

    def all(self, kind: Kind, namespace: str = "") -> list[Manifest]:
        served = self._kinds.served(kind)
        collection = self._store.collection(served.storage.resource)
        if kind in _DECODED_ONCE:
            return self._unless_changed(kind, collection, namespace)
        records = (collection.records[key] for key in collection.range(namespace))
        if from_storage(served) is None:
            return [self._store.manifest(record) for record in records]
        return [self._decode(kind, record.data) for record in records]

    def pods_on_node(self, node: str) -> list[Manifest]:
        """The pods bound to a node, by the index of the store."""
        pods = self._store.collection(POD.resource)
        _, index = pods.indexes["spec.nodeName"]
        return [self._store.manifest(pods.records[key]) for key in index.get(node, ())]

    def _unless_changed(self, kind: Kind, collection: Collection, namespace: str) -> list[Manifest]:
        """All objects of a kind that rarely changes: the same list until it does."""
        place, state = (collection.name, namespace), collection.history.newest_version()
        known = self._whole.get(place)
        if known is not None and known[0] == state:
            return known[1]
        if len(self._whole) >= MOST_NAMESPACES:
            self._whole.clear()
        found = [self._decode(kind, collection.records[key].data) for key in collection.range(namespace)]
        self._whole[place] = state, found
        return found

    def _decode(self, kind: Kind, data: bytes) -> Manifest:
        if kind not in _DECODED_ONCE:
            return self._decoded(kind, data)
        known = self._decoded_once.get(data)
        if known is None:
            self._decoded_once.put(data, known := self._decoded(kind, data))
        return known

    def _decoded(self, kind: Kind, data: bytes) -> Manifest:
        manifest: Manifest = orjson.loads(data)
        rewrite = from_storage(self._kinds.served(kind))
        if rewrite is not None:
            rewrite(manifest)
        return manifest
