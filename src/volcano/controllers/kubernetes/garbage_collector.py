"""Garbage collector: deletes objects whose owners are deleted, in the background, in the foreground, or not at all."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from volcano.clock import Instant
from volcano.controllers.kubernetes.served_kinds import ServedKinds
from volcano.kube.client import Event, EventType, Options
from volcano.kube.controller import NOTHING, Plan, Reconciler, Watch
from volcano.kube.kinds import CRD, EVENT, EVENTS_EVENT, Kind
from volcano.kube.manifest import Key, Manifest, is_deleting, key_of, owners_of, uid_of
from volcano.kube.operations import Concurrent, Delete, Get, Operation, Patch

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
# Uids of deleted owners that are cached; the absence of others is verified again.
ABSENT_REMEMBERED = 10_000


class ObjectRef(NamedTuple):
    """The work queue's key: one object of any kind."""

    kind: Kind
    key: Key


class OwnerStates(NamedTuple):
    """The uids of an object's owners by the state of the owners, and those whose absence has to be verified."""

    present: tuple[str, ...]
    absent: tuple[str, ...]
    waiting: tuple[str, ...]  # being deleted in the foreground
    unverified: tuple[Get, ...]


class GarbageCollector(Reconciler[ObjectRef]):
    """Watches all kinds but events, as Kubernetes' garbage collector does, and keeps the graph of owners.

    Informers of different kinds are not ordered: an owner that was neither seen nor seen deleted is read before its
    dependents are deleted, and deletions are bound to the version that was decided on.
    """

    name = "garbage-collector"

    def __init__(self) -> None:
        super().__init__()
        self._kinds = ServedKinds(ignored=(EVENT, EVENTS_EVENT))
        self._dependents: dict[str, dict[ObjectRef, None]] = {}  # by the uid of the owner
        self._absent: dict[str, None] = {}  # uids of owners that do not exist
        self.watches: Sequence[Watch] = tuple(map(Watch, self._kinds.stored()))

    def on_event(self, event: Event) -> None:
        if event.type is EventType.BOOKMARK:
            return
        key = event.object_key()
        known = self.indexer.get(event.kind, key)
        if not self.indexer.update(event, key, known):
            return
        new: Manifest | None = None if event.type is EventType.DELETED else event.object
        if known is not None and (new is None or uid_of(known) != uid_of(new)):
            self._on_deleted(ObjectRef(event.kind, key), known)
            known = None
        if new is not None:
            self._on_changed(ObjectRef(event.kind, key), known, new)
        if event.kind is CRD and self._kinds.on_event(event):
            self._on_kinds_changed()

    def keys(self, event: Event) -> Iterable[ObjectRef]:
        # `on_event` enqueues only what a change concerns.
        return (ObjectRef(event.kind, event.object_key()),)

    def reconcile(self, key: ObjectRef, now: Instant) -> Plan:
        manifest = self.indexer.get(key.kind, key.key)
        if manifest is None:
            return NOTHING
        if is_deleting(manifest):
            finalizers = _finalizers(manifest)
            if FOREGROUND in finalizers:
                return self._finish_foreground(key, manifest)
            return self._orphan(key, manifest) if ORPHAN in finalizers else NOTHING
        return self._follow_owners(key, manifest)

    def on_unsubscribed(self, watch: Watch) -> None:
        for manifest in self.indexer.all(watch.kind):
            self._link(ObjectRef(watch.kind, key_of(manifest)), owners_of(manifest), ())
        super().on_unsubscribed(watch)

    def on_written(self, operation: Operation, result: Manifest) -> None:
        if isinstance(operation, Get) and not result:
            self._remember_absent(operation.uid)

    # The graph

    def _on_changed(self, ref: ObjectRef, known: Manifest | None, new: Manifest) -> None:
        before = owners_of(known) if known is not None else ()
        after = owners_of(new)
        if before != after:
            self._link(ref, before, after)
            self.enqueue(ref)
            self._enqueue_waiting(ref, before)
        if is_deleting(new) and (FOREGROUND in (finalizers := _finalizers(new)) or ORPHAN in finalizers):
            self.enqueue(ref)

    def _on_deleted(self, ref: ObjectRef, known: Manifest) -> None:
        uid = uid_of(known)
        if dependents := self._dependents.get(uid):
            self._remember_absent(uid)
            self._enqueue_all(dependents)
        owners = owners_of(known)
        self._link(ref, owners, ())
        self._enqueue_waiting(ref, owners)

    def _link(
        self, ref: ObjectRef, before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]]
    ) -> None:
        for owner in before:
            dependents = self._dependents.get(owner["uid"])
            if dependents is not None:
                dependents.pop(ref, None)
                if not dependents:
                    del self._dependents[owner["uid"]]
        for owner in after:
            self._dependents.setdefault(owner["uid"], {})[ref] = None

    def _enqueue_waiting(self, dependent: ObjectRef, owners: Iterable[Mapping[str, Any]]) -> None:
        """Enqueues former owners that may have waited for this dependent."""
        for reference in owners:
            owner = self._owner(dependent, reference)
            known = self.indexer.get(owner.kind, owner.key) if owner is not None else None
            if owner is not None and known is not None and is_deleting(known):
                self.enqueue(owner)

    def _on_kinds_changed(self) -> None:
        """Watches the kinds that are served now; owners of a new kind may be known to be absent from now on."""
        before = {watch.kind for watch in self.watches}
        self.watches = tuple(map(Watch, self._kinds.stored()))
        added = {watch.kind for watch in self.watches} - before
        for dependents in self._dependents.values() if added else ():
            for ref in dependents:
                manifest = self.indexer.get(ref.kind, ref.key)
                owners = owners_of(manifest) if manifest is not None else ()
                if any(self._kinds.find(owner["apiVersion"], owner["kind"]) in added for owner in owners):
                    self.enqueue(ref)

    def _enqueue_all(self, refs: Iterable[ObjectRef]) -> None:
        for ref in refs:
            self.enqueue(ref)

    def _remember_absent(self, uid: str) -> None:
        self._absent[uid] = None
        if len(self._absent) > ABSENT_REMEMBERED:
            del self._absent[next(iter(self._absent))]

    # Decisions

    def _follow_owners(self, ref: ObjectRef, manifest: Manifest) -> Plan:
        owners = self._classify(ref, manifest)
        if owners.unverified:
            return Plan([Concurrent(owners.unverified)])
        if not owners.absent and not owners.waiting:
            return NOTHING
        if owners.present:
            return Plan([_without_owners(ref, manifest, owners.absent + owners.waiting)])
        propagation = (
            "Foreground" if owners.waiting and uid_of(manifest) in self._dependents else "Background"
        )
        if ORPHAN in _finalizers(manifest):
            propagation = "Orphan"
        options = Options(
            uid=uid_of(manifest),
            resource_version=manifest["metadata"].get("resourceVersion", ""),
            propagation=propagation,
        )
        return Plan([Delete(ref.kind, ref.key, options, if_present=True)])

    def _classify(self, ref: ObjectRef, manifest: Manifest) -> OwnerStates:
        present: list[str] = []
        absent: list[str] = []
        waiting: list[str] = []
        unverified: list[Get] = []
        for reference in owners_of(manifest):
            uid: str = reference["uid"]
            if uid in self._absent:
                absent.append(uid)
                continue
            owner = self._owner(ref, reference)
            if owner is None:
                present.append(uid)  # the existence of an object of an unknown kind cannot be verified
                continue
            known = self.indexer.get(owner.kind, owner.key)
            if known is None or uid_of(known) != uid:
                unverified.append(Get(owner.kind, owner.key, uid))
            else:
                is_waiting = is_deleting(known) and FOREGROUND in _finalizers(known)
                (waiting if is_waiting else present).append(uid)
        return OwnerStates(tuple(present), tuple(absent), tuple(waiting), tuple(unverified))

    def _owner(self, dependent: ObjectRef, reference: Mapping[str, Any]) -> ObjectRef | None:
        """The object an owner reference names, in the dependent's namespace unless its kind is cluster-scoped."""
        kind = self._kinds.find(reference["apiVersion"], reference["kind"])
        if kind is None:
            return None
        return ObjectRef(kind, Key(dependent.key.namespace if kind.namespaced else "", reference["name"]))

    def _finish_foreground(self, ref: ObjectRef, manifest: Manifest) -> Plan:
        """Removes the finalizer of an owner once no dependent that blocks its deletion is left."""
        uid = uid_of(manifest)
        dependents = [
            (dependent, known)
            for dependent in self._dependents.get(uid, ())
            if (known := self.indexer.get(dependent.kind, dependent.key)) is not None
        ]
        if not any(_blocks(known, uid) for _, known in dependents):
            return Plan([_without_finalizer(ref, manifest, FOREGROUND)])
        self._enqueue_all(dependent for dependent, known in dependents if not is_deleting(known))
        return NOTHING

    def _orphan(self, ref: ObjectRef, manifest: Manifest) -> Plan:
        """Removes the references of dependents to the owner, then the finalizer of the owner."""
        uid = uid_of(manifest)
        released = tuple(
            _without_owners(dependent, known, (uid,))
            for dependent in self._dependents.get(uid, ())
            if (known := self.indexer.get(dependent.kind, dependent.key)) is not None
        )
        return Plan([Concurrent(released)] if released else [_without_finalizer(ref, manifest, ORPHAN)])


def _blocks(dependent: Manifest, owner: str) -> bool:
    return any(ref["uid"] == owner and ref.get("blockOwnerDeletion") for ref in owners_of(dependent))


def _finalizers(manifest: Manifest) -> Sequence[str]:
    return manifest["metadata"].get("finalizers") or ()


def _without_owners(ref: ObjectRef, manifest: Manifest, uids: tuple[str, ...]) -> Patch:
    left = [owner for owner in owners_of(manifest) if owner["uid"] not in uids]
    return _patch(ref, manifest, {"ownerReferences": left or None})


def _without_finalizer(ref: ObjectRef, manifest: Manifest, name: str) -> Patch:
    left = [finalizer for finalizer in _finalizers(manifest) if finalizer != name]
    return _patch(ref, manifest, {"finalizers": left or None})


def _patch(ref: ObjectRef, manifest: Manifest, metadata: Manifest) -> Patch:
    """A patch of the very version that was decided on: lists are replaced as a whole."""
    expected = {name: manifest["metadata"][name] for name in ("uid", "resourceVersion")}
    return Patch(ref.kind, ref.key, {"metadata": {**expected, **metadata}}, if_present=True)
