"""Reading stored objects for admission: the newest state, also what is not yet settled."""

import orjson

from volcano.apiserver.kindtable import KindTable, from_storage
from volcano.apiserver.store import Store
from volcano.kube.kinds import Kind
from volcano.kube.manifest import Key, Manifest


class StoreLookup:
    """Decodes on every call: what it returns is the caller's own."""

    def __init__(self, store: Store, kinds: KindTable) -> None:
        self._store = store
        self._kinds = kinds

    def find(self, kind: Kind, key: Key) -> Manifest | None:
        served = self._kinds.served(kind)
        record = self._store.get(served.storage.resource, key)
        return self._decoded(kind, record.data) if record is not None else None

    def all(self, kind: Kind, namespace: str = "") -> list[Manifest]:
        served = self._kinds.served(kind)
        collection = self._store.collection(served.storage.resource)
        return [self._decoded(kind, collection.records[key].data) for key in collection.range(namespace)]

    def _decoded(self, kind: Kind, data: bytes) -> Manifest:
        manifest: Manifest = orjson.loads(data)
        rewrite = from_storage(self._kinds.served(kind))
        if rewrite is not None:
            rewrite(manifest)
        return manifest
