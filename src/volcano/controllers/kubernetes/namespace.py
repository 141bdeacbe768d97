"""Deletion of namespaces and CRDs: their contents are deleted first."""

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Sequence

from volcano.clock import Instant
from volcano.controllers.kubernetes.served_kinds import ServedKinds
from volcano.kube.client import Event, EventType, Options
from volcano.kube.controller import NOTHING, Plan, Reconciler, Watch
from volcano.kube.kinds import CRD, NAMESPACE, Kind
from volcano.kube.manifest import Key, Manifest, is_deleting, uid_of
from volcano.kube.operations import Concurrent, Delete, Operation, Patch, Update

NAMESPACE_FINALIZER = "kubernetes"
CRD_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
# Objects deleted in one step of one namespace or CRD, before others are processed.
BATCH = 100


class _ContentsController(Reconciler[str]):
    """Deletes the objects in a holder (a namespace or a CRD) that is being deleted, then removes its
    finalizer.

    Contents are watched only while their holder is being deleted.
    """

    kind: Kind

    def __init__(self) -> None:
        super().__init__()
        self.kinds = ServedKinds()
        self._terminating: dict[str, None] = {}
        self._indexed: set[Kind] = set()
        self._base = tuple(dict.fromkeys((Watch(self.kind), Watch(CRD))))
        self.watches: Sequence[Watch] = self._base

    @abstractmethod
    def contents(self, holder: str) -> Iterable[Watch]:
        """Watches of all objects in a holder."""

    @abstractmethod
    def release(self, holder: Manifest) -> Operation | None:
        """Removes the finalizer from a holder without contents; None when it has been removed."""

    @abstractmethod
    def is_terminating(self, holder: Manifest) -> bool: ...

    def on_event(self, event: Event) -> None:
        super().on_event(event)
        if event.kind is CRD and event.type is not EventType.BOOKMARK:
            self.kinds.on_event(event)
        if event.kind is self.kind or event.kind is CRD:
            self._update_watches(event)

    def reconcile(self, key: str, now: Instant) -> Plan:
        holder = self.indexer.get(self.kind, Key("", key))
        if holder is None or not self.is_terminating(holder):
            return NOTHING
        operations: list[Operation] = []
        left = False
        for watch in self.contents(key):
            for item in self.indexer.by_index(watch.kind, "namespace", watch.namespace):
                left = True
                if not is_deleting(item) and len(operations) < BATCH:
                    operations.append(_delete(watch.kind, item))
        if left:
            return Plan([Concurrent(tuple(operations))] if operations else ())
        released = self.release(holder)
        return Plan([released]) if released is not None else NOTHING

    def _update_watches(self, event: Event) -> None:
        """Watches the contents of exactly the holders that are being deleted."""
        if event.kind is self.kind:
            name = event.object["metadata"]["name"]
            if event.type is not EventType.DELETED and self.is_terminating(event.object):
                self._terminating[name] = None
            else:
                self._terminating.pop(name, None)
        contents = [watch for name in self._terminating for watch in self.contents(name)]
        if len(contents) + len(self._base) != len(self.watches) or set(contents).difference(self.watches):
            for kind in {watch.kind for watch in contents} - self._indexed:
                self._indexed.add(kind)
                self.indexer.add_index(kind, "namespace", _namespaces)
            self.watches = (*self._base, *contents)


class NamespaceController(_ContentsController):
    """Empties namespaces that are being deleted, then removes them."""

    name = "namespace"
    kind = NAMESPACE

    def keys(self, event: Event) -> Iterable[str]:
        place = event.object_key()
        return (place.name,) if event.kind is NAMESPACE else (place.namespace,) if place.namespace else ()

    def contents(self, holder: str) -> Iterable[Watch]:
        return [Watch(kind, namespace=holder) for kind in self.kinds.stored() if kind.namespaced]

    def is_terminating(self, holder: Manifest) -> bool:
        return is_deleting(holder)

    def release(self, holder: Manifest) -> Operation | None:
        if NAMESPACE_FINALIZER not in _finalizers(holder):
            return None
        left = [name for name in _finalizers(holder) if name != NAMESPACE_FINALIZER]
        return Update(NAMESPACE, {**holder, "spec": {**holder["spec"], "finalizers": left}}, "finalize")


class CrdFinalizer(_ContentsController):
    """Deletes the objects of CRDs that are being deleted, then the CRDs."""

    name = "crd-finalizer"
    kind = CRD

    def keys(self, event: Event) -> Iterable[str]:
        # A CRD is named after the resource it defines.
        return (event.object_key().name if event.kind is CRD else event.kind.resource,)

    def contents(self, holder: str) -> Iterable[Watch]:
        kind = self.kinds.of_crd(holder)
        return () if kind is None else (Watch(kind),)

    def is_terminating(self, holder: Manifest) -> bool:
        return is_deleting(holder) and CRD_FINALIZER in (holder["metadata"].get("finalizers") or ())

    def release(self, holder: Manifest) -> Operation:
        metadata = holder["metadata"]
        left = [name for name in metadata["finalizers"] if name != CRD_FINALIZER]
        expected = {name: metadata[name] for name in ("uid", "resourceVersion")}
        patch = {"metadata": {**expected, "finalizers": left or None}}
        return Patch(CRD, Key("", metadata["name"]), patch, if_present=True)


def _delete(kind: Kind, item: Manifest) -> Delete:
    metadata = item["metadata"]
    options = Options(uid=uid_of(item), propagation="Background")
    return Delete(kind, Key(metadata.get("namespace", ""), metadata["name"]), options, if_present=True)


def _namespaces(item: Manifest) -> Iterable[Hashable]:
    """The namespace of an object, and the empty one of watches of all namespaces."""
    return "", item["metadata"].get("namespace", "")


def _finalizers(namespace: Manifest) -> Sequence[str]:
    return (namespace.get("spec") or {}).get("finalizers") or ()
