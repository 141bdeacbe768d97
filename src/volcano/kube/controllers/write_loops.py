"""Protection against write loops: delays a controller's key that rewrites the same object over and over.

Controllers that undo each other's writes, or a controller that never reaches a stable state, would otherwise write as
fast as the API server answers. Progress is not a loop: many pods that start one after the other change counters, and
each write differs from those before it. So two kinds of writes are counted, both within a minute: writes that repeat an
earlier one, and writes that follow the previous one without any event of another object. Neither counts once the spec
of the object was changed by others. A new spec of another object of the same key, such as of a Deployment whose
ReplicaSet is written, is a user's wish, too, unless it comes as often as only a loop of several controllers causes it.
"""

import re
from collections.abc import Hashable
from dataclasses import dataclass, field

import orjson
from prometheus_client import Counter

from volcano.base.log import Log
from volcano.base.metrics import CollectorRegistry
from volcano.base.workqueue import Backoff
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.operations import Operation, Patch, Update
from volcano.kube.informers.indexer import Indexer

log = Log("reconciler")

WINDOW = 60.0
# Rewrites of one object within a minute that are not delayed.
MAX_REWRITES = 60
# Keys that are followed; a key in a loop is written again and again, and so is never the oldest.
MAX_TRACKED = 2048
# Least seconds between two changes of other objects' specs that end a delay.
WISH_INTERVAL = 2.0
# Delays of a key that keeps looping; a minute without a loop resets them.
DELAYS = Backoff(first=1.0, longest=30.0)
# Times and versions differ in every write of a loop.
_TIME = re.compile(rb'"\d{4}-\d\d-\d\dT[^"]*"')
_VERSION = re.compile(rb'"(?:resourceVersion|observedGeneration)":(?:"[^"]*"|\d+)')


class WriteLoopMetrics:
    """Counters of looping objects and of delayed reconciliations."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("controller", "kind")
        self._loops = Counter(
            "volcano_controller_write_loops",
            "Objects that a controller began to rewrite in a loop",
            labels,
            registry=registry,
        )
        self._delayed = Counter(
            "volcano_controller_throttled_reconciles",
            "Reconciliations delayed because their writes loop",
            labels,
            registry=registry,
        )

    def on_loop(self, controller: str, kind: Kind) -> None:
        self._loops.labels(controller, kind.kind).inc()

    def on_delayed(self, controller: str, kind: Kind) -> None:
        self._delayed.labels(controller, kind.kind).inc()


@dataclass(slots=True)
class _Rewrites:
    """Recent writes of one object for one key."""

    started: float  # of the window
    writes: set[int] = field(default_factory=set)  # fingerprints in the window
    repeated: int = 0
    unprovoked: int = 0  # consecutive writes without an event of another object between them
    is_provoked: bool = True  # such an event arrived since the last write
    generation: int | None = None  # after the last write
    changes_spec: bool = False  # a write may have changed the spec: other generations are no sign of progress
    has_new_wish: bool = False  # the spec of another object of the key was changed
    wished_at: float = float("-inf")  # when that was last taken into account
    loops: int = 0  # consecutive delays
    looped_at: float = 0.0
    due: float = 0.0  # until then the key is not reconciled

    def reset(self, now: float) -> None:
        self.started = now
        self.writes.clear()
        self.repeated = self.unprovoked = self.loops = 0
        self.changes_spec = False
        self.due = 0.0

    def accept_wish(self, now: float) -> bool:
        """Ends a delay, and counts anew, after a change of another object's spec; returns whether there was one."""
        if not self.has_new_wish or now - self.wished_at < WISH_INTERVAL:
            return False
        self.has_new_wish, self.wished_at, self.due = False, now, 0.0
        if not self.loops:
            self.writes.clear()
            self.repeated = self.unprovoked = 0
        return True

    def start_window(self, now: float, limit: int) -> None:
        """Starts to count anew; the next repetition of a loop that was seen within the last minute delays it again."""
        if not self.loops or now - self.looped_at >= WINDOW:
            self.reset(now)
        self.started = now
        if self.loops:
            self.repeated = self.unprovoked = limit


class WriteLoopDetector:
    """Rewrites of objects, by the key that was reconciled. Reads no clock."""

    def __init__(self, controller: str, limit: int = MAX_REWRITES) -> None:
        self.metrics: WriteLoopMetrics | None = None
        self._controller = controller
        self._limit = limit
        self._recent: dict[Hashable, dict[tuple[Kind, Key], _Rewrites]] = {}
        self._next_cleanup = 0.0

    def on_written(self, key: Hashable, operation: Operation, result: Manifest, now: float) -> None:
        """Records a successful write."""
        if not isinstance(operation, Patch | Update) or operation.subresource not in ("", "status"):
            return
        self._clean_up(now)
        objects = self._recent[key] = self._recent.pop(key, {})  # the last one written is the newest
        if len(self._recent) > MAX_TRACKED:
            del self._recent[next(iter(self._recent))]
        entry = objects.setdefault((operation.kind, operation.key), _Rewrites(now))
        if now - entry.started >= WINDOW:
            entry.start_window(now, self._limit)
        entry.changes_spec |= _changes_spec(operation)
        entry.accept_wish(now)
        if self._was_changed_by_others(entry, result):
            entry.reset(now)
        fingerprint = _fingerprint(operation.patch if isinstance(operation, Patch) else operation.manifest)
        entry.repeated += fingerprint in entry.writes
        entry.writes.add(fingerprint)
        entry.unprovoked = 0 if entry.is_provoked else entry.unprovoked + 1
        entry.is_provoked = False
        entry.generation = _generation(result)
        if entry.repeated > self._limit or entry.unprovoked > self._limit:
            self._delay(key, operation, entry, now)

    def on_event(
        self,
        key: Hashable,
        kind: Kind,
        object_key: Key,
        *,
        known: Manifest | None = None,
        new: Manifest | None = None,
    ) -> None:
        """Records an event that queues a key, with the versions of the object before and after it."""
        objects = self._recent.get(key)
        if objects is None:
            return
        own = objects.get((kind, object_key))
        is_wish = known is not None and new is not None and _generation(known) != _generation(new)
        is_wish = is_wish and (own is None or not own.changes_spec)
        for written, entry in objects.items():
            if written != (kind, object_key):
                entry.is_provoked = True
                entry.has_new_wish |= is_wish

    def on_enqueued(self, key: Hashable) -> None:
        """Records that a key was queued for another reason than its own object."""
        for entry in (self._recent.get(key) or {}).values():
            entry.is_provoked = True

    def delay(self, key: Hashable, indexer: Indexer, now: float) -> float:
        """Seconds for which a key must not be reconciled."""
        longest = 0.0
        for (kind, object_key), entry in (self._recent.get(key) or {}).items():
            if entry.due <= now:
                continue
            if entry.accept_wish(now):
                continue
            present = indexer.get(kind, object_key)
            if present is not None and self._was_changed_by_others(entry, present):
                entry.reset(now)
                continue
            longest = max(longest, entry.due - now)
            if self.metrics is not None:
                self.metrics.on_delayed(self._controller, kind)
        return longest

    @staticmethod
    def _was_changed_by_others(entry: _Rewrites, present: Manifest) -> bool:
        """Whether the spec of an object was changed since the last write, by other writers than this one."""
        return not entry.changes_spec and _generation(present) != entry.generation

    def _delay(self, key: Hashable, operation: Operation, entry: _Rewrites, now: float) -> None:
        if entry.loops == 0:
            log.warning(
                "object rewritten in a loop, its reconciliation is delayed",
                controller=self._controller,
                key=key,
                kind=operation.kind.kind,
                object=operation.key,
                writes_per_minute=max(entry.repeated, entry.unprovoked),
            )
            if self.metrics is not None:
                self.metrics.on_loop(self._controller, operation.kind)
        entry.due = now + DELAYS.delay(entry.loops)
        entry.looped_at = now
        entry.loops += 1

    def _clean_up(self, now: float) -> None:
        """Drops objects that were not rewritten for a while."""
        if now < self._next_cleanup:
            return
        self._next_cleanup = now + WINDOW
        for key, objects in list(self._recent.items()):
            for written, entry in list(objects.items()):
                if now - max(entry.started, entry.due) >= 2 * WINDOW:
                    del objects[written]
            if not objects:
                del self._recent[key]


def _changes_spec(operation: Patch | Update) -> bool:
    """Whether a write may change the spec."""
    if operation.subresource:
        return False
    body = operation.patch if isinstance(operation, Patch) else operation.manifest
    return not isinstance(body, dict) or not body.keys() <= {"apiVersion", "kind", "metadata", "status"}


def _fingerprint(body: object) -> int:
    text = orjson.dumps(body, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    return hash(_VERSION.sub(b"", _TIME.sub(b"", text)))


def _generation(manifest: Manifest) -> int | None:
    generation: int | None = (manifest.get("metadata") or {}).get("generation")
    return generation
