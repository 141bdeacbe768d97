"""What a reconciler has seen: the newest version of each object, found by key, owner or label."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

from volcano.kube.client import Event, EventType
from volcano.kube.kinds import Kind
from volcano.kube.manifest import Key, Manifest, controller_of, uid_of, version_of
from volcano.log import Log

log = Log("index")

# The values under which an object can be found in a secondary index.
Facet = Callable[[Manifest], Iterable[Hashable]]
# Late events are late by seconds: older departures need not be remembered.
GONE_REMEMBERED = 10_000


class Indexer:
    """Objects of several kinds. Events may arrive late, twice or out of order: only news is taken.

    The answers to our own writes are fed in as events too, so that a reconciler never acts on a state older than
    what it wrote itself.
    """

    def __init__(self) -> None:
        self._objects: dict[Kind, dict[Key, Manifest]] = defaultdict(dict)
        self._facets: dict[Kind, dict[str, _Filing]] = {}
        self._aside: dict[Kind, dict[Key, Event]] = defaultdict(dict)  # heard of, not yet looked at
        # Versions at which objects went away, so that a late event does not bring them back.
        self._gone: dict[tuple[Kind, Key], tuple[str, int]] = {}

    def facet(self, kind: Kind, name: str, values: Facet) -> None:
        """Adds a secondary index; to be declared before the first event."""
        self._facets.setdefault(kind, {})[name] = _Filing(values)

    def by_controller(self, kind: Kind) -> None:
        """Adds the secondary index `controller`: objects by the uid of the owner that manages them."""
        self.facet(kind, "controller", _controller_uid)

    def apply(self, event: Event) -> bool:
        """Takes one event in; False when it says nothing new."""
        if event.type is EventType.BOOKMARK:
            return False
        key = event.place()
        return self.take(event, key, self.get(event.kind, key))

    def put_aside(self, event: Event, key: Key) -> None:
        """Takes an event in when somebody looks at objects of its kind, and not before; the newest of a key is enough.
        To be used for what changes nothing for anybody at present, but for a departure."""
        aside = self._aside[event.kind]
        waiting = aside.get(key)
        if waiting is not None and uid_of(waiting.object) != uid_of(event.object):
            self.take(waiting, key, self._objects[event.kind].get(key))  # a namesake: the departure matters
            waiting = None
        if waiting is None or not _is_older(event.object, waiting.object):
            aside[key] = event

    def take(self, event: Event, key: Key, known: Manifest | None) -> bool:
        """`apply` for who has found out already what is known under the key of the event's object."""
        manifest: Manifest = event.object
        kind = event.kind
        if known is None and not self._gone and event.type is not EventType.DELETED:
            self._put(kind, key, None, manifest)  # most events by far tell of something new
            return True
        if known is manifest and event.type is not EventType.DELETED:
            return False  # the watch tells of what the answer to our own write has told already
        uid, version = uid_of(manifest), version_of(manifest)
        same = known is not None and uid_of(known) == uid
        if event.type is EventType.DELETED:
            # Final for this uid: after a relist, the event carries an older version than the answer to our own write.
            if known is not None and not same:
                return False  # an older namesake went; the one we know is its successor
            self._gone[kind, key] = (uid, version)
            if len(self._gone) > GONE_REMEMBERED:
                del self._gone[next(iter(self._gone))]
            self._put(kind, key, known, None)
            return known is not None
        if known is not None and same and version_of(known) > version:
            return False
        if self._gone:
            gone = self._gone.get((kind, key))
            if gone is not None:
                if gone[0] == uid:
                    return False
                del self._gone[kind, key]
        if known is not None and same and version_of(known) == version:
            self._objects[kind][key] = manifest  # the same, but the copy that others in the process have, too
            return False
        self._put(kind, key, known, manifest)
        return True

    def drop(self, kind: Kind, namespace: str = "") -> None:
        """Removes the objects of a kind (in one namespace, if given) that is no longer watched."""
        objects = self._present(kind)
        for key in [key for key in objects if namespace in ("", key.namespace)]:
            self._put(kind, key, objects[key], None)

    def get(self, kind: Kind, key: Key) -> Manifest | None:
        """The newest version seen, or None. Callers must not change it."""
        objects = self._objects[kind]
        aside = self._aside.get(kind)
        if aside and (waiting := aside.pop(key, None)) is not None:
            self.take(waiting, key, objects.get(key))
        return objects.get(key)

    def all(self, kind: Kind) -> Iterator[Manifest]:
        """Every object of a kind."""
        return iter(list(self._present(kind).values()))

    def count(self, kind: Kind) -> int:
        return len(self._present(kind))

    def find(self, kind: Kind, facet: str, value: Hashable) -> list[Manifest]:
        """The objects under one value of a secondary index, in the order they were first seen."""
        objects = self._present(kind)
        return [objects[key] for key in self._facets[kind][facet].find(value, objects)]

    def owned(self, kind: Kind, owner: Manifest) -> list[Manifest]:
        """The objects that `owner` manages; needs `by_controller(kind)`."""
        return self.find(kind, "controller", uid_of(owner))

    def _present(self, kind: Kind) -> dict[Key, Manifest]:
        """The objects of a kind, with all that was put aside."""
        objects = self._objects[kind]
        if kind in self._aside:
            for key, event in self._aside.pop(kind).items():
                self.take(event, key, objects.get(key))
        return objects

    def _put(self, kind: Kind, key: Key, known: Manifest | None, manifest: Manifest | None) -> None:
        """Replaces what is known under a key."""
        if manifest is not None:
            self._objects[kind][key] = manifest
        elif known is not None:
            del self._objects[kind][key]
        filings = self._facets.get(kind)
        if filings is not None:
            for filing in filings.values():
                filing.changed(key, gone=manifest is None)


class _Filing:
    """A secondary index, brought up to date when it is asked: objects change far more often than anybody looks."""

    def __init__(self, values: Facet) -> None:
        self._values = values
        self._unfiled: dict[Key, None] = {}  # what changed since
        self._filed: dict[Key, tuple[Hashable, ...]] = {}  # under which values
        self._buckets: dict[Hashable, dict[Key, None]] = {}

    def changed(self, key: Key, *, gone: bool) -> None:
        if gone and key not in self._filed:
            self._unfiled.pop(key, None)
        else:
            self._unfiled[key] = None

    def find(self, value: Hashable, objects: Mapping[Key, Manifest]) -> Iterable[Key]:
        if self._unfiled:
            for key in self._unfiled:
                self._file(key, objects.get(key))
            self._unfiled.clear()
        return self._buckets.get(value, ())

    def _file(self, key: Key, manifest: Manifest | None) -> None:
        """Files an object anew; most changes leave it where it is."""
        before = self._filed.get(key, ())
        after = self._values_of(key, manifest)
        if before == after:
            return
        for value in before:
            bucket = self._buckets.get(value, {})
            bucket.pop(key, None)
            if not bucket:
                self._buckets.pop(value, None)
        for value in after:
            self._buckets.setdefault(value, {})[key] = None
        if after:
            self._filed[key] = after
        else:
            del self._filed[key]

    def _values_of(self, key: Key, manifest: Manifest | None) -> tuple[Hashable, ...]:
        try:
            return () if manifest is None else tuple(self._values(manifest))
        except Exception as error:  # one object nobody understands must not hide the others
            log.error("object not filed", key=key, error=error)
            return ()


def _is_older(manifest: Manifest, than: Manifest) -> bool:
    return version_of(manifest) < version_of(than)


def _controller_uid(manifest: Manifest) -> Iterable[Hashable]:
    owner = controller_of(manifest)
    return (owner["uid"],) if owner else ()
