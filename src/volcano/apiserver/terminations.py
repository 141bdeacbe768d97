"""The end of what holds other objects: namespaces and CRDs go when everything in them has gone."""

import orjson

from volcano.apiserver.interfaces import Attributes, Served
from volcano.apiserver.janitor import Janitor
from volcano.apiserver.registry.deletion import CRD_CLEANUP
from volcano.apiserver.registry.registry import Registry
from volcano.apiserver.storage.history import Change, Record
from volcano.apiserver.storage.store import Collection
from volcano.kube.client import Options
from volcano.kube.errors import Conflict, NotFound
from volcano.kube.kinds import CRD, NAMESPACE
from volcano.kube.manifest import Key, Manifest

# Objects asked to go at a time, before others get their turn.
HANDFUL = 100
NAMESPACE_FINALIZER = "kubernetes"
_NAMESPACES, _CRDS = NAMESPACE.resource, CRD.resource  # asked for with every change
_DELETING = b'"deletionTimestamp"'


class NamespaceTerminator(Janitor[str]):
    """Empties namespaces that are being deleted, then lets them go."""

    name = "namespaces"

    def __init__(self, registry: Registry) -> None:
        self._terminating: set[str] = set()
        super().__init__(registry)

    def survey(self) -> None:
        for record in self.store.collection(NAMESPACE.resource).records.values():
            self._notice(record)

    def observe(self, collection: str, change: Change) -> None:
        if collection == _NAMESPACES:
            if change.new is None:
                self._terminating.discard(change.key.name)
            else:
                self._notice(change.new)
        elif change.key.namespace in self._terminating and change.new is None:
            self.add(change.key.namespace)

    async def tend(self, item: str) -> None:
        if item not in self._terminating:
            return
        left = False
        for served in self.registry.kinds.storages():
            if served.kind.namespaced:
                collection = self.store.collection(served.storage.resource)
                keys = collection.range(item)
                left = left or bool(keys)
                if await clear(self.registry, served, collection, keys):
                    self.add(item)  # more than a handful: go on after others had their turn
                    return
        if not left:
            self.registry.edit(self.registry.kinds.served(NAMESPACE), Key("", item), _release_namespace)

    def _notice(self, namespace: Record) -> None:
        if _DELETING in namespace.data and orjson.loads(namespace.data)["metadata"].get("deletionTimestamp"):
            self._terminating.add(namespace.key.name)
            self.add(namespace.key.name)


class CrdTerminator(Janitor[str]):
    """Removes the objects of CRDs that are being deleted, then lets the CRDs go."""

    name = "crds"

    def survey(self) -> None:
        for record in self.store.collection(CRD.resource).records.values():
            self._notice(record)

    def observe(self, collection: str, change: Change) -> None:
        if collection == _CRDS:
            if change.new is not None:
                self._notice(change.new)
        elif change.new is None and self.store.get(CRD.resource, Key("", collection)) is not None:
            self.add(collection)  # a CRD is called what its collection is called

    async def tend(self, item: str) -> None:
        record = self.store.get(CRD.resource, Key("", item))
        if record is None:
            return
        metadata = orjson.loads(record.data)["metadata"]
        if not metadata.get("deletionTimestamp") or CRD_CLEANUP not in (metadata.get("finalizers") or ()):
            return
        collection, served = self.store.collection(item), self.registry.kinds.stored(item)
        if served is not None and collection.keys:
            if await clear(self.registry, served, collection, list(collection.keys)):
                self.add(item)
            return
        self.registry.edit(self.registry.kinds.served(CRD), Key("", item), _release_crd)

    def _notice(self, crd: Record) -> None:
        if _DELETING in crd.data:
            self.add(crd.key.name)


async def clear(registry: Registry, served: Served, collection: Collection, keys: list[Key]) -> bool:
    """Asks a handful of objects to go; True when more have to be asked."""
    asked = 0
    for key in keys:
        record = collection.records.get(key)
        if record is None or _is_deleting(record):
            continue
        if asked == HANDFUL:
            return True
        asked += 1
        options = Options(uid=record.uid, propagation="Background")
        try:
            await registry.delete(Attributes("delete", served.kind, key, options=options), wait=False)
        except (NotFound, Conflict):
            continue  # gone, or replaced, meanwhile
    return False


def _is_deleting(record: Record) -> bool:
    return _DELETING in record.data and bool(orjson.loads(record.data)["metadata"].get("deletionTimestamp"))


def _release_namespace(namespace: Manifest) -> None:
    spec = namespace.get("spec") or {}
    spec["finalizers"] = [name for name in spec.get("finalizers") or () if name != NAMESPACE_FINALIZER]
    namespace["spec"] = spec


def _release_crd(crd: Manifest) -> None:
    metadata = crd["metadata"]
    metadata["finalizers"] = [name for name in metadata["finalizers"] if name != CRD_CLEANUP]
