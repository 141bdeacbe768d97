"""Cache of the newest version of each object, found by key or through secondary indexes."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

from volcano.kube.client import Event, EventType
from volcano.kube.kinds import Kind
from volcano.kube.manifest import Key, Manifest, controller_of, uid_of, version_of
from volcano.kube.mutation_detector import MutationDetector, process_detector
from volcano.log import Log

log = Log("indexer")

# Returns the values under which an object is found in a secondary index.
IndexFunc = Callable[[Manifest], Iterable[Hashable]]
# Late events are late by seconds, and a controller waits for at most 64 x 32 results of its own writes: older deletions
# need not be remembered.
TOMBSTONES = 2048


class Indexer:
    """Objects of several kinds. Events may arrive late, twice or out of order: outdated ones are ignored.

    The results of a controller's own writes are applied as events too, so that it never acts on a state older than
    its last write. Objects are shared and must not be modified.
    """

    def __init__(self, detector: MutationDetector | None = None) -> None:
        self._detector = detector or process_detector()
        self._objects: dict[Kind, dict[Key, Manifest]] = defaultdict(dict)
        self._indexes: dict[Kind, dict[str, _SecondaryIndex]] = {}
        self._deferred: dict[Kind, dict[Key, Event]] = defaultdict(dict)
        # Versions at which objects were deleted, so that a late event does not bring them back.
        self._tombstones: dict[tuple[Kind, Key], tuple[str, int]] = {}

    def add_index(self, kind: Kind, name: str, values: IndexFunc) -> None:
        """Adds a secondary index; to be called before the first event."""
        self._indexes.setdefault(kind, {})[name] = _SecondaryIndex(values)

    def add_controller_index(self, kind: Kind) -> None:
        """Adds the secondary index `controller`: objects by the uid of the owner that controls them."""
        self.add_index(kind, "controller", _controller_uid)

    def add_namespace_index(self, *kinds: Kind) -> None:
        """Adds the secondary index `namespace` of several kinds."""
        for kind in kinds:
            self.add_index(kind, "namespace", lambda manifest: (manifest["metadata"].get("namespace", ""),))

    def apply(self, event: Event) -> bool:
        """Applies one event; False when it is outdated."""
        if event.type is EventType.BOOKMARK:
            return False
        key = event.object_key()
        return self.update(event, key, self.get(event.kind, key))

    def defer(self, event: Event, key: Key) -> None:
        """Keeps an event to apply it when objects of its kind are read; only the newest of a key is kept.

        For events that change nothing for any reader at present; not for deletions."""
        deferred = self._deferred[event.kind]
        previous = deferred.get(key)
        if previous is not None and uid_of(previous.object) != uid_of(event.object):
            # Another object of the same name: the deletion in between matters.
            self.update(previous, key, self._objects[event.kind].get(key))
            previous = None
        if previous is None or not _is_older(event.object, previous.object):
            deferred[key] = event

    def update(self, event: Event, key: Key, known: Manifest | None) -> bool:
        """Applies one event, given the object known under its key; False when the event is outdated."""
        manifest: Manifest = event.object
        kind = event.kind
        if known is None and not self._tombstones and event.type is not EventType.DELETED:
            self._put(kind, key, None, manifest)  # the most frequent case by far
            return True
        if known is manifest and event.type is not EventType.DELETED:
            return False  # the watch event of a write whose result was applied already
        uid, version = uid_of(manifest), version_of(manifest)
        same = known is not None and uid_of(known) == uid
        if event.type is EventType.DELETED:
            # Final for this uid: after a relist, the event carries an older version than the answer to our own write.
            if known is not None and not same:
                return False  # an older object of the same name was deleted; the known one is its successor
            self._tombstones[kind, key] = (uid, version)
            if len(self._tombstones) > TOMBSTONES:
                del self._tombstones[next(iter(self._tombstones))]
            self._put(kind, key, known, None)
            return known is not None
        if known is not None and same and version_of(known) > version:
            return False
        if self._tombstones:
            tombstone = self._tombstones.get((kind, key))
            if tombstone is not None:
                if tombstone[0] == uid:
                    return False
                del self._tombstones[kind, key]
        if known is not None and same and version_of(known) == version:
            self._objects[kind][key] = manifest  # equal, but the copy that others in the process share
            return False
        self._put(kind, key, known, manifest)
        return True

    def drop(self, kind: Kind, namespace: str = "") -> None:
        """Removes the objects of a kind (in one namespace, if given) that is no longer watched."""
        objects = self._current(kind)
        for key in [key for key in objects if namespace in ("", key.namespace)]:
            self._put(kind, key, objects[key], None)

    def get(self, kind: Kind, key: Key) -> Manifest | None:
        """Returns the newest version seen, or None. Callers must not modify it."""
        objects = self._objects[kind]
        deferred = self._deferred.get(kind)
        if deferred and (event := deferred.pop(key, None)) is not None:
            self.update(event, key, objects.get(key))
        return objects.get(key)

    def all(self, kind: Kind) -> Iterator[Manifest]:
        return iter(list(self._current(kind).values()))

    def count(self, kind: Kind) -> int:
        return len(self._current(kind))

    def by_index(self, kind: Kind, index: str, value: Hashable) -> list[Manifest]:
        """Returns the objects under one value of a secondary index, in the order they were first seen."""
        objects = self._current(kind)
        return [objects[key] for key in self._indexes[kind][index].keys(value, objects)]

    def owned(self, kind: Kind, owner: Manifest) -> list[Manifest]:
        """Returns the objects that `owner` controls; needs `add_controller_index(kind)`."""
        return self.by_index(kind, "controller", uid_of(owner))

    def _current(self, kind: Kind) -> dict[Key, Manifest]:
        """Returns the objects of a kind after applying deferred events."""
        objects = self._objects[kind]
        if kind in self._deferred:
            for key, event in self._deferred.pop(kind).items():
                self.update(event, key, objects.get(key))
        return objects

    def _put(self, kind: Kind, key: Key, known: Manifest | None, manifest: Manifest | None) -> None:
        if manifest is not None:
            self._objects[kind][key] = manifest
            if self._detector is not None:
                self._detector.add(manifest)
        elif known is not None:
            del self._objects[kind][key]
        indexes = self._indexes.get(kind)
        if indexes is not None:
            for index in indexes.values():
                index.mark_changed(key, deleted=manifest is None)


class _SecondaryIndex:
    """A secondary index, updated when it is read: objects change far more often than that."""

    def __init__(self, values: IndexFunc) -> None:
        self._values = values
        self._changed: dict[Key, None] = {}  # since the last read
        self._values_by_key: dict[Key, tuple[Hashable, ...]] = {}
        self._keys_by_value: dict[Hashable, dict[Key, None]] = {}

    def mark_changed(self, key: Key, *, deleted: bool) -> None:
        if deleted and key not in self._values_by_key:
            self._changed.pop(key, None)
        else:
            self._changed[key] = None

    def keys(self, value: Hashable, objects: Mapping[Key, Manifest]) -> Iterable[Key]:
        if self._changed:
            for key in self._changed:
                self._update(key, objects.get(key))
            self._changed.clear()
        return self._keys_by_value.get(value, ())

    def _update(self, key: Key, manifest: Manifest | None) -> None:
        before = self._values_by_key.get(key, ())
        after = self._values_of(key, manifest)
        if before == after:  # true for most changes
            return
        for value in before:
            keys = self._keys_by_value.get(value, {})
            keys.pop(key, None)
            if not keys:
                self._keys_by_value.pop(value, None)
        for value in after:
            self._keys_by_value.setdefault(value, {})[key] = None
        if after:
            self._values_by_key[key] = after
        else:
            del self._values_by_key[key]

    def _values_of(self, key: Key, manifest: Manifest | None) -> tuple[Hashable, ...]:
        try:
            return () if manifest is None else tuple(self._values(manifest))
        except Exception as error:  # one malformed object must not hide the others
            log.error("object not indexed", key=key, error=error)
            return ()


def _is_older(manifest: Manifest, than: Manifest) -> bool:
    return version_of(manifest) < version_of(than)


def _controller_uid(manifest: Manifest) -> Iterable[Hashable]:
    owner = controller_of(manifest)
    return (owner["uid"],) if owner else ()
