"""Work that follows from writes: seen in the store, done through the registry, tried again when refused."""

import asyncio
import heapq
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from volcano.apiserver.registry.registry import Registry
from volcano.apiserver.storage.history import Change
from volcano.kube.errors import ApiError
from volcano.log import Log

log = Log("janitor")

Item = TypeVar("Item")
FIRST_RETRY = 0.1
LONGEST_RETRY = 30.0
# Items tended before others get their turn.
BURST = 32


class Janitor(ABC, Generic[Item]):
    """Tends items one by one. It hears of every write at once, and after a restart it looks at everything anew.

    Its writes are not waited for until they last: should they be taken back, it hears of that too.
    """

    name = ""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.store = registry.store
        self._ready: dict[Item, None] = {}
        self._due: list[tuple[float, int, Item]] = []
        self._failures: dict[Item, int] = {}
        self._count = 0
        self._wake = asyncio.Event()
        self.survey()
        self.store.observers.append(self.observe)

    @abstractmethod
    def observe(self, collection: str, change: Change) -> None:
        """Hears of one write; `add`s what needs tending. Cheap."""

    @abstractmethod
    def survey(self) -> None:
        """Looks at everything there is, as after a restart."""

    @abstractmethod
    async def tend(self, item: Item) -> None:
        """Does what an item needs. May be called when nothing is needed."""

    def add(self, item: Item) -> None:
        """Asks for an item to be tended soon."""
        self._ready[item] = None
        self._wake.set()

    def next_due(self) -> float | None:
        """The monotonic moment at which there is work; minus infinity for now, None when there is none."""
        if self._ready:
            return float("-inf")
        return self._due[0][0] if self._due else None

    async def work(self, most: int = BURST) -> None:
        """Tends what is ready, up to `most` items. Suspends only where admission does."""
        now = self.registry.clock.now().monotonic
        while self._due and self._due[0][0] <= now:
            self._ready[heapq.heappop(self._due)[2]] = None
        for item in list(self._ready)[:most]:
            del self._ready[item]
            try:
                await self.tend(item)
            except ApiError as refusal:
                self._retry(item, refusal.message, now)
            else:
                self._failures.pop(item, None)

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            self._wake.clear()
            await self.work()
            due = self.next_due()
            now = self.registry.clock.now().monotonic
            if due is None:
                await self._wake.wait()
            elif due <= now:
                await asyncio.sleep(0)
            else:
                await self._wait(due - now)

    async def _wait(self, seconds: float) -> None:
        woken = asyncio.ensure_future(self._wake.wait())
        timer = asyncio.ensure_future(self.registry.clock.sleep(seconds))
        try:
            await asyncio.wait((woken, timer), return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
            timer.cancel()

    def _retry(self, item: Item, reason: str, now: float) -> None:
        failures = self._failures.get(item, 0)
        self._failures[item] = failures + 1
        self._count += 1
        delay = min(FIRST_RETRY * 2.0 ** min(failures, 10), LONGEST_RETRY)
        heapq.heappush(self._due, (now + delay, self._count, item))
        log.info("will try again", janitor=self.name, item=item, reason=reason)
