"""Events without spam: the same thing said again is a count, many like it are summed up, too many are dropped."""

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from volcano.clock import Instant
from volcano.kube.events import event, reference_to, shortened
from volcano.kube.flowcontrol import TokenBucket
from volcano.kube.kinds import EVENT
from volcano.kube.manifest import Manifest, key_of
from volcano.kube.operations import Create, Operation, Patch

# As client-go: 25 events about an object at once, then one in five minutes; from the tenth message that differs
# from the others in its text alone within ten minutes, they are summed up under one event.
BURST = 25
RATE = 1 / 300
SIMILAR = 10
SIMILAR_SECONDS = 600.0
REMEMBERED = 4096
SUMMARY = "(combined from similar events): "

Value = TypeVar("Value")


class _Recent(Generic[Value]):
    """The entries used last; older ones are forgotten."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: OrderedDict[Hashable, Value] = OrderedDict()

    def get(self, key: Hashable) -> Value | None:
        if key in self._entries:
            self._entries.move_to_end(key)
        return self._entries.get(key)

    def put(self, key: Hashable, value: Value) -> Value:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._limit:
            self._entries.popitem(last=False)
        return value


@dataclass(slots=True)
class _Similar:
    """Messages said about one object for one reason of late."""

    messages: set[str] = field(default_factory=set)
    last: float = 0.0


@dataclass(slots=True)
class _Written:
    """An event already on the server."""

    manifest: Manifest
    count: int = 1


class EventRecorder:
    """Turns what happened into writes of core Events; keeps what it needs to count and to hold back."""

    def __init__(self, component: str, instance: str = "", *, remembered: int = REMEMBERED) -> None:
        self._component = component
        self._instance = instance
        self._made = 0
        self._buckets: _Recent[TokenBucket] = _Recent(remembered)
        self._similar: _Recent[_Similar] = _Recent(remembered)
        self._written: _Recent[_Written] = _Recent(remembered)
        self._by_key: _Recent[_Written] = _Recent(remembered)

    def record(
        self, about: Mapping[str, Any], kind: str, reason: str, message: str, now: Instant
    ) -> Operation | None:
        """What to write for this event: a new one, a higher count on one that is there, or nothing at all.

        `about` is the object concerned or a reference to it; `kind` is NORMAL or WARNING.
        """
        target = reference_to(about)
        who = (target["kind"], target.get("namespace", ""), target["name"], target.get("uid", ""))
        if self._is_spam((*who, kind), now):
            return None
        text = shortened(message)
        similar = (*who, kind, reason)
        identity: Hashable = (*similar, text)
        if self._too_many(similar, text, now):
            identity, text = similar, shortened(SUMMARY + message)
        return self._write(identity, target, kind, reason, text, now)

    def replacement(self, patch: Patch) -> Create | None:
        """What to create when a count could not be raised because the event has expired on the server."""
        for written in self._written._entries.values():
            if written.manifest["metadata"]["name"] == patch.key.name:
                fresh = {
                    **written.manifest,
                    "count": written.count,
                    "lastTimestamp": patch.patch["lastTimestamp"],
                }
                return Create(EVENT, fresh)
        return None

    def _is_spam(self, source: Hashable, now: Instant) -> bool:
        bucket = self._buckets.get(source) or self._buckets.put(source, TokenBucket(RATE, BURST))
        return not bucket.take(now.monotonic)

    def _too_many(self, key: Hashable, text: str, now: Instant) -> bool:
        seen = self._similar.get(key)
        if seen is None or now.monotonic - seen.last > SIMILAR_SECONDS:
            seen = self._similar.put(key, _Similar())
        seen.last = now.monotonic
        if len(seen.messages) < SIMILAR:
            seen.messages.add(text)
        return len(seen.messages) >= SIMILAR

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
        self._by_key.put(key_of(manifest), self._written.put(identity, _Written(manifest)))
        return Create(EVENT, dict(manifest))

    def _manifest(self, target: Manifest, kind: str, reason: str, text: str, now: Instant) -> Manifest:
        self._made += 1  # two events in one moment still get two names
        return event(
            target,
            f"{target['name']}.{int(now.wall * 1e9) + self._made:x}",
            severity=kind,
            reason=reason,
            message=text,
            now=now,
            component=self._component,
            instance=self._instance,
        )
