"""Expiry of Events: one hour after its last write an Event is removed, as with kube-apiserver's --event-ttl."""

import asyncio
from collections import OrderedDict

import orjson

from volcano.apiserver.storage.history import Change, StoredObject
from volcano.apiserver.storage.store import Store
from volcano.base.clock import Clock, parse_timestamp
from volcano.base.log import Log
from volcano.kube.api.kinds import EVENT
from volcano.kube.api.manifest import Key, Manifest

log = Log("events")

TTL = 3600.0  # seconds
# Expired events are removed at most this late, and so many before other tasks run.
INTERVAL = 10.0
BATCH = 100


class EventExpiry:
    """Removes expired Events from the store while `run` runs."""

    def __init__(self, store: Store, clock: Clock, ttl: float = TTL) -> None:
        self._store = store
        self._clock = clock
        self._ttl = ttl
        self._expiries: OrderedDict[Key, float] = OrderedDict()  # wall time; the earliest first
        self._resync()
        store.listeners.add("event expiry", self._on_change, self._resync)

    async def run(self) -> None:
        while True:
            while self.remove_expired(BATCH) == BATCH:
                await asyncio.sleep(0)
            await self._clock.sleep(INTERVAL)

    def remove_expired(self, limit: int) -> int:
        """Removes up to `limit` expired Events; returns how many."""
        now, removed = self._clock.now().wall, 0
        while self._expiries and removed < limit:
            key, expiry = next(iter(self._expiries.items()))
            if expiry > now:
                break
            del self._expiries[key]
            record = self._store.get(EVENT.resource, key)
            if record is not None:
                self._store.remove(EVENT.resource, orjson.loads(record.data), record)
                removed += 1
        return removed

    def _on_change(self, collection: str, change: Change) -> None:
        if collection != EVENT.resource:
            return
        if change.new is None:
            self._expiries.pop(change.key, None)
        else:
            self._expiries[change.key] = self._clock.now().wall + self._ttl
            self._expiries.move_to_end(change.key)

    def _resync(self) -> None:
        """Takes over the present Events; when they were written last is read from them."""
        now = self._clock.now().wall
        written = [
            (min(_last_written(record), now), record.key)
            for record in self._store.collection(EVENT.resource).records.values()
        ]
        self._expiries = OrderedDict((key, moment + self._ttl) for moment, key in sorted(written))


def _last_written(record: StoredObject) -> float:
    manifest: Manifest = orjson.loads(record.data)
    series = manifest.get("series") or {}
    texts = (
        manifest["metadata"].get("creationTimestamp"),
        manifest.get("lastTimestamp"),
        manifest.get("eventTime"),
        series.get("lastObservedTime"),
        *(entry.get("time") for entry in manifest["metadata"].get("managedFields") or ()),
    )
    return max((_wall(text) for text in texts), default=0.0)


def _wall(text: object) -> float:
    try:
        return parse_timestamp(text) if isinstance(text, str) else 0.0
    except ValueError:
        return 0.0
