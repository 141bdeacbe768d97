"""Table of served kinds: built-in ones and those of CRDs, each in one or several versions."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import orjson

from volcano.apiserver.errors import unserved
from volcano.apiserver.interfaces import Served
from volcano.apiserver.registry.event_conversion import from_core_event, to_core_event
from volcano.apiserver.schema import autoscaler_conversion
from volcano.apiserver.storage.history import Change
from volcano.apiserver.storage.store import Store
from volcano.base.log import Log
from volcano.kube.api.kinds import CRD, EVENTS_EVENT, HORIZONTAL_POD_AUTOSCALER_V1, Kind
from volcano.kube.api.manifest import Manifest

log = Log("kinds")

Address = tuple[str, str, str]  # group, version, plural
# Converts a manifest to another version, in place.
Rewrite = Callable[[Manifest], None]
# The kinds that a CRD defines; none while it is not established.
Serve = Callable[[Manifest], Sequence[Served]]
_CRDS = CRD.resource
# Conversions of built-in kinds that are stored as another one: to it, and from it.
_BUILT_IN_CONVERSIONS: dict[Kind, tuple[Rewrite, Rewrite]] = {
    EVENTS_EVENT: (to_core_event, from_core_event),
    HORIZONTAL_POD_AUTOSCALER_V1: (autoscaler_conversion.to_v2, autoscaler_conversion.from_v2),
}


def address_of(kind: Kind) -> Address:
    return kind.group, kind.version, kind.plural


class KindTable:
    """The kinds served now. `generation` grows with every change, so that discovery can be cached."""

    def __init__(self, served: Iterable[Served] = ()) -> None:
        self._served: dict[Address, Served] = {}
        self._by_manifest: dict[tuple[str, str], Served] = {}
        self._of_crd: dict[str, tuple[Served, ...]] = {}
        self._stored: dict[str, Served] = {}
        self._stored_at = -1
        self.generation = 0
        self.add(served)

    def __iter__(self) -> Iterator[Served]:
        """Everything served, in the order it was added."""
        return iter(list(self._served.values()))

    def find(self, group: str, version: str, plural: str) -> Served | None:
        """The kind served at a path."""
        return self._served.get((group, version, plural))

    def by_manifest(self, api_version: str, kind: str) -> Served | None:
        """The kind of a manifest's apiVersion and kind."""
        return self._by_manifest.get((api_version, kind))

    def served(self, kind: Kind) -> Served:
        """How a kind is served now. Raises NotFound when it is not."""
        found = self._served.get((kind.group, kind.version, kind.plural))
        if found is None:
            raise unserved()
        return found

    def prune(self, kind: Kind, manifest: Manifest) -> None:
        """Removes fields that the schema of a kind does not know. Raises BadRequest for values of the wrong type."""
        self.served(kind).strategy.prune(manifest)

    def stored(self, resource: str) -> Served | None:
        """The kind stored under a resource name, in its storage version (or any served one)."""
        if self._stored_at != self.generation:
            self._stored_at = self.generation
            self._stored = {served.storage.resource: served for served in self.storages()}
        return self._stored.get(resource)

    def storages(self) -> list[Served]:
        """One entry for every stored kind: that of the storage version."""
        found: dict[str, Served] = {}
        for served in self._served.values():
            name = served.storage.resource
            if name not in found or address_of(served.kind) == address_of(served.storage):
                found[name] = served
        return list(found.values())

    def add(self, served: Iterable[Served]) -> None:
        """Adds kinds; an entry of the same group, version and plural is replaced."""
        for entry in served:
            self._served[address_of(entry.kind)] = entry
            self._by_manifest[entry.kind.api_version, entry.kind.kind] = entry
        self.generation += 1

    def set_crd(self, name: str, served: Sequence[Served]) -> None:
        """Replaces the kinds of a CRD; none to stop serving it."""
        before = self._of_crd.pop(name, ())
        if before == tuple(served):
            if served:
                self._of_crd[name] = before
            return
        for entry in before:
            self._served.pop(address_of(entry.kind), None)
            self._by_manifest.pop((entry.kind.api_version, entry.kind.kind), None)
        if served:
            self._of_crd[name] = tuple(served)
        self.add(served)

    def follow(self, store: Store, serve: Serve) -> None:
        """Updates the table with every change of a CRD in the store."""
        crds = store.collection(_CRDS)

        def on_change(collection: str, change: Change) -> None:
            if collection == _CRDS:
                data = change.new.data if change.new is not None else None
                self.set_crd(change.key.name, serve(orjson.loads(data)) if data is not None else ())

        def resync() -> None:
            for name in self._of_crd.keys() - {key.name for key in crds.records}:
                self.set_crd(name, ())
            for record in list(crds.records.values()):
                served: Sequence[Served] = ()
                try:
                    served = serve(orjson.loads(record.data))
                except Exception as error:  # one CRD that cannot be served must not hide the others
                    log.error("CRD cannot be served", crd=record.key.name, error=error)
                self.set_crd(record.key.name, served)

        resync()
        store.listeners.add("kinds of CRDs", on_change, resync)


def to_storage(served: Served) -> Rewrite | None:
    """Returns the conversion from the served to the storage version; None when they are the same, and for kinds
    that a webhook converts (`conversion`)."""
    if served.kind is served.storage or served.conversion is not None:
        return None
    if address_of(served.kind) == address_of(served.storage):
        return None
    built_in = _BUILT_IN_CONVERSIONS.get(served.kind)
    return built_in[0] if built_in is not None else _rename(served.storage)


def from_storage(served: Served) -> Rewrite | None:
    """Returns the conversion from the storage to the served version; None when they are the same.

    A CRD's objects may have been stored under another version before, so that every version but a CRD's
    only one is converted.
    """
    if served.conversion is not None:
        return None
    built_in = _BUILT_IN_CONVERSIONS.get(served.kind)
    if built_in is not None:
        return built_in[1]
    if not served.crd and (
        served.kind is served.storage or address_of(served.kind) == address_of(served.storage)
    ):
        return None
    return _rename(served.kind)


def reader(served: Served) -> Callable[[bytes], bytes] | None:
    """`from_storage` on encoded objects; None when the bytes can be used as they are."""
    rewrite = from_storage(served)
    if rewrite is None:
        return None
    right = orjson.dumps(served.kind.api_version)

    def convert(data: bytes) -> bytes:
        # Stored objects begin with their apiVersion: most are recognized as converted without decoding.
        if data.startswith(b'{"apiVersion":' + right):
            return data
        manifest = orjson.loads(data)
        rewrite(manifest)
        return orjson.dumps(manifest)

    return convert


def _rename(kind: Kind) -> Rewrite:
    def rewrite(manifest: Manifest) -> None:
        manifest["apiVersion"] = kind.api_version

    return rewrite
