"""Compaction: removes old changes from the history, as kube-apiserver has etcd do every five minutes."""

from volcano.apiserver.storage.store import Store
from volcano.base.clock import Clock

INTERVAL = (
    300.0  # seconds; changes are kept for one to two of these, unless the limits of the history remove them
)


class Compactor:
    """Compacts a store while `run` runs."""

    def __init__(self, store: Store, clock: Clock, interval: float = INTERVAL) -> None:
        self._store = store
        self._clock = clock
        self._interval = interval

    async def run(self) -> None:
        while True:
            version = self._store.committed_version
            await self._clock.sleep(self._interval)
            self._store.compact(version)
