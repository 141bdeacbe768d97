"""Records Events as client-go: repetitions increase a count, similar ones are aggregated, excessive ones
dropped."""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from volcano.base.clock import Instant
from volcano.kube.api.events import event, reference_to, shortened
from volcano.kube.api.kinds import EVENT
from volcano.kube.api.manifest import Manifest, key_of
from volcano.kube.client.flowcontrol import TokenBucket
from volcano.kube.client.operations import Create, Operation, Patch

# As client-go: 25 events about an object at once, then one in five minutes; from the tenth message within ten
# minutes that differs from the others in its text alone, they are aggregated into one event.
BURST = 25
RATE = 1 / 300
MAX_SIMILAR = 10
SIMILAR_INTERVAL_SECONDS = 600.0
CACHE_SIZE = 4096
AGGREGATE_PREFIX = "(combined from similar events): "

Value = TypeVar("Value")


class _LruCache(Generic[Value]):
    """Cache of the most recently used entries."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: OrderedDict[Hashable, Value] = OrderedDict()

    def get(self, key: Hashable) -> Value | None:
        if key in self._entries:
            self._entries.move_to_end(key)
        return self._entries.get(key)

    def values(self) -> Iterable[Value]:
        return self._entries.values()

    def put(self, key: Hashable, value: Value) -> Value:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._limit:
            self._entries.popitem(last=False)
        return value


@dataclass(slots=True)
class _Similar:
    """Recent messages about one object with one reason."""

    messages: set[str] = field(default_factory=set)
    last: float = 0.0


@dataclass(slots=True)
class _Written:
    """An event that was written to the server."""

    manifest: Manifest
    count: int = 1


class EventRecorder:
    """Returns the writes that record events; caches what is needed to count, aggregate and drop them."""

    def __init__(self, component: str, instance: str = "", *, cache_size: int = CACHE_SIZE) -> None:
        self._component = component
        self._instance = instance
        self._created = 0
        self._buckets: _LruCache[TokenBucket] = _LruCache(cache_size)
        self._similar: _LruCache[_Similar] = _LruCache(cache_size)
        self._written: _LruCache[_Written] = _LruCache(cache_size)

    def record(
        self, about: Mapping[str, Any], kind: str, reason: str, message: str, now: Instant
    ) -> Operation | None:
        """Returns the write for an event: a new Event, a higher count on a written one, or None when it is
        dropped.

        `about` is the object concerned or a reference to it; `kind` is NORMAL or WARNING.
        """
        target = reference_to(about)
        source = (target["kind"], target.get("namespace", ""), target["name"], target.get("uid", ""))
        if self._is_spam((*source, kind), now):
            return None
        text = shortened(message)
        similar = (*source, kind, reason)
        identity: Hashable = (*similar, text)
        if self._exceeds_similar(similar, text, now):
            identity, text = similar, shortened(AGGREGATE_PREFIX + message)
        return self._write(identity, target, kind, reason, text, now)

    def replacement(self, patch: Patch) -> Create | None:
        """Returns the Event to create when its count could not be raised because it has expired on the
        server."""
        for written in self._written.values():
            if key_of(written.manifest) == patch.key:
                changes = {"count": written.count, "lastTimestamp": patch.patch["lastTimestamp"]}
                return Create(EVENT, {**written.manifest, **changes})
        return None

    def _is_spam(self, source: Hashable, now: Instant) -> bool:
        bucket = self._buckets.get(source) or self._buckets.put(source, TokenBucket(RATE, BURST))
        return not bucket.try_acquire(now.monotonic)

    def _exceeds_similar(self, key: Hashable, text: str, now: Instant) -> bool:
        seen = self._similar.get(key)
        if seen is None or now.monotonic - seen.last > SIMILAR_INTERVAL_SECONDS:
            seen = self._similar.put(key, _Similar())
        seen.last = now.monotonic
        if len(seen.messages) < MAX_SIMILAR:
            seen.messages.add(text)
        return len(seen.messages) >= MAX_SIMILAR

    def _write(
        self, identity: Hashable, target: Manifest, kind: str, reason: str, text: str, now: Instant
    ) -> Operation:
        written = self._written.get(identity)
        if written is not None:
            written.count += 1
            written.manifest["message"] = text
            change = {"count": written.count, "lastTimestamp": now.timestamp(), "message": text}
            return Patch(EVENT, key_of(written.manifest), change)
        manifest = self._manifest(target, kind, reason, text, now)
        self._written.put(identity, _Written(manifest))
        return Create(EVENT, dict(manifest))

    def _manifest(self, target: Manifest, kind: str, reason: str, text: str, now: Instant) -> Manifest:
        self._created += 1  # distinguishes events of the same moment
        return event(
            target,
            f"{target['name']}.{int(now.wall * 1e9) + self._created:x}",
            severity=kind,
            reason=reason,
            message=text,
            now=now,
            component=self._component,
            instance=self._instance,
        )
