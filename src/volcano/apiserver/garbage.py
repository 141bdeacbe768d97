"""Garbage collection: objects whose owners are gone go too; owners wait for them, or let them go, if asked to."""

from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from volcano.apiserver.interfaces import Attributes, Served
from volcano.apiserver.janitor import Janitor
from volcano.apiserver.registry.deletion import FOREGROUND, ORPHAN
from volcano.apiserver.registry.registry import Registry
from volcano.apiserver.storage.history import Change
from volcano.apiserver.storage.store import Place
from volcano.kube.client import Options
from volcano.kube.errors import Conflict, NotFound
from volcano.kube.manifest import Manifest, owners_of

_FOREGROUND, _ORPHAN = b'"foregroundDeletion"', b'"orphan"'


@dataclass(frozen=True, slots=True)
class Owners:
    """The owner references of one object, by what has become of the owners."""

    present: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()  # being deleted, and waiting for their dependents to go first


class Collector(Janitor[Place]):
    """Tends objects that have owners, and owners that are being deleted."""

    name = "garbage"

    def __init__(self, registry: Registry) -> None:
        self._generation = 0
        super().__init__(registry)

    def survey(self) -> None:
        self._generation = self.registry.kinds.generation
        for collection in self.store.collections():
            for record in collection.records.values():
                if record.owners or _has_collector_finalizer(record.data):
                    self.add(Place(collection.name, record.key))

    def observe(self, collection: str, change: Change) -> None:
        old, new = change.old, change.new
        if self._generation != self.registry.kinds.generation:
            self._reconsider()
        if new is None:
            assert old is not None, "a change has at least one side"
            self._add_all(self.store.dependents.get(old.uid, ()))
            # An owner may have been waiting for this one to go.
            self._add_all(place for uid in old.owners if (place := self.store.places.get(uid)) is not None)
            return
        if new.owners and (old is None or old.owners != new.owners):
            self.add(Place(collection, change.key))
        if _has_collector_finalizer(new.data):
            self.add(Place(collection, change.key))
        if old is not None and old.owners != new.owners:
            self._add_all(place for uid in old.owners if (place := self.store.places.get(uid)) is not None)

    async def tend(self, item: Place) -> None:
        served = self.registry.kinds.stored(item.collection)
        record = self.store.get(item.collection, item.key)
        if served is None or record is None:
            return
        manifest = orjson.loads(record.data)
        metadata = manifest["metadata"]
        if metadata.get("deletionTimestamp"):
            finalizers = metadata.get("finalizers") or ()
            if FOREGROUND in finalizers:
                await self._finish_foreground(served, item, metadata["uid"])
            elif ORPHAN in finalizers:
                await self._orphan(served, item, metadata["uid"])
            return
        await self._follow_owners(served, item, manifest)

    def _add_all(self, places: Iterable[Place]) -> None:
        for place in places:
            self.add(place)

    def _reconsider(self) -> None:
        """Kinds have come or gone: owners of unknown kinds may be known to be absent now."""
        self._generation = self.registry.kinds.generation
        for uid, places in self.store.dependents.items():
            if uid not in self.store.places:
                self._add_all(places)

    async def _follow_owners(self, served: Served, place: Place, manifest: Manifest) -> None:
        owners = self._classify(place, manifest)
        if not owners.absent and not owners.waiting:
            return
        if owners.present:
            self._drop_references(served, place, owners.absent + owners.waiting)
            return
        uid = manifest["metadata"]["uid"]
        has_dependents = bool(self.store.dependents.get(uid))
        propagation = "Foreground" if owners.waiting and has_dependents else "Background"
        if ORPHAN in (manifest["metadata"].get("finalizers") or ()):
            propagation = "Orphan"
        request = Attributes(
            "delete", served.kind, place.key, options=Options(uid=uid, propagation=propagation)
        )
        try:
            await self.registry.delete(request, wait=False)
        except (NotFound, Conflict):
            return  # gone, or replaced by a namesake, meanwhile

    def _classify(self, place: Place, manifest: Manifest) -> Owners:
        present: list[str] = []
        absent: list[str] = []
        waiting: list[str] = []
        for reference in owners_of(manifest):
            uid = reference["uid"]
            owner = self.store.places.get(uid)
            if owner is not None and owner.key.namespace in ("", place.key.namespace):
                (waiting if self._waits_for_dependents(owner) else present).append(uid)
            elif self.registry.kinds.by_manifest(reference["apiVersion"], reference["kind"]) is None:
                present.append(uid)  # nobody can tell whether it exists
            else:
                absent.append(uid)
        return Owners(tuple(present), tuple(absent), tuple(waiting))

    def _waits_for_dependents(self, owner: Place) -> bool:
        record = self.store.get(owner.collection, owner.key)
        if record is None or _FOREGROUND not in record.data:
            return False
        metadata = orjson.loads(record.data)["metadata"]
        return bool(metadata.get("deletionTimestamp")) and FOREGROUND in (metadata.get("finalizers") or ())

    async def _finish_foreground(self, served: Served, place: Place, uid: str) -> None:
        """Lets an owner go once no dependent that blocks its deletion is left."""
        dependents = list(self.store.dependents.get(uid, ()))
        if not any(self._blocks(dependent, uid) for dependent in dependents):
            self.registry.edit(served, place.key, lambda manifest: _without_finalizer(manifest, FOREGROUND))
            return
        for dependent in dependents:
            if not self._is_going(dependent):
                self.add(dependent)

    def _blocks(self, dependent: Place, owner: str) -> bool:
        record = self.store.get(dependent.collection, dependent.key)
        if record is None:
            return False
        references = owners_of(orjson.loads(record.data))
        return any(ref["uid"] == owner and ref.get("blockOwnerDeletion") for ref in references)

    def _is_going(self, place: Place) -> bool:
        record = self.store.get(place.collection, place.key)
        return record is None or bool(orjson.loads(record.data)["metadata"].get("deletionTimestamp"))

    async def _orphan(self, served: Served, place: Place, uid: str) -> None:
        """Takes the owner's reference off its dependents, then lets it go."""
        for dependent in list(self.store.dependents.get(uid, ())):
            kind = self.registry.kinds.stored(dependent.collection)
            if kind is not None:
                self._drop_references(kind, dependent, (uid,))
        self.registry.edit(served, place.key, lambda manifest: _without_finalizer(manifest, ORPHAN))

    def _drop_references(self, served: Served, place: Place, uids: tuple[str, ...]) -> None:
        def drop(manifest: Manifest) -> None:
            metadata = manifest["metadata"]
            left = [ref for ref in metadata.get("ownerReferences") or () if ref["uid"] not in uids]
            metadata["ownerReferences"] = left
            if not left:
                del metadata["ownerReferences"]

        self.registry.edit(served, place.key, drop)


def _without_finalizer(manifest: Manifest, name: str) -> None:
    metadata = manifest["metadata"]
    left = [finalizer for finalizer in metadata.get("finalizers") or () if finalizer != name]
    metadata["finalizers"] = left
    if not left:
        del metadata["finalizers"]


def _has_collector_finalizer(data: bytes) -> bool:
    """Whether an encoded object may be waiting for the collector; decoding tells for sure."""
    return _FOREGROUND in data or _ORPHAN in data
