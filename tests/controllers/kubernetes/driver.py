"""Runs one controller against a registry, a step at a time: lists what it watches, then performs what it plans."""

from typing import Any

from volcano.apiserver.direct import DirectClient
from volcano.clock import VirtualClock
from volcano.kube.client import Event, EventType, Query
from volcano.kube.controller import Reconciler, Watch, WorkItem, WorkResult
from volcano.kube.errors import ApiError
from volcano.kube.manifest import Key, Manifest, key_of, uid_of
from volcano.kube.operations import perform

NOW = float("-inf")


class Driver:
    """Delivers changes only when it runs: between runs, the controller has seen nothing of what was written."""

    def __init__(
        self, controller: Reconciler[Any], client: DirectClient, clock: VirtualClock | None = None
    ) -> None:
        self.controller = controller
        self.client = client
        self.clock = clock or VirtualClock()
        self._seen: dict[Watch, dict[Key, Manifest]] = {}

    async def run(self) -> None:
        """Runs until nothing is left to do at this moment."""
        while True:
            await self.deliver()
            works = self.controller.step(self.clock.now())
            for work in works:
                self.controller.on_result(await self._perform(work), self.clock.now())
            due = self.controller.next_due()
            if not works and (due is None or due > self.clock.now().monotonic):
                return

    async def deliver(self) -> None:
        """Dispatches what has changed since the last time, following the watches of the controller."""
        pending = True
        while pending:
            watches = self.controller.watches
            for watch in [watch for watch in self._seen if watch not in watches]:
                del self._seen[watch]
                self.controller.on_unsubscribed(watch)
            for watch in watches:
                await self._deliver(watch)
            pending = self.controller.watches is not watches

    async def _deliver(self, watch: Watch) -> None:
        query = Query(namespace=watch.namespace, labels=watch.labels, fields=watch.fields)
        present = {key_of(item): item for item in (await self.client.list(watch.kind, query)).items}
        seen = self._seen.get(watch, {})
        self._seen[watch] = present
        for key, item in seen.items():
            if key not in present or uid_of(present[key]) != uid_of(item):
                self.controller.on_event(Event(EventType.DELETED, watch.kind, item))
        for key, item in present.items():
            known = seen.get(key)
            if known is None or uid_of(known) != uid_of(item):
                self.controller.on_event(Event(EventType.ADDED, watch.kind, item))
            elif known != item:
                self.controller.on_event(Event(EventType.MODIFIED, watch.kind, item))

    async def _perform(self, work: WorkItem) -> WorkResult:
        """Performs the operations of a work item in order; the first error ends it."""
        results = []
        for operation in work.operations:
            try:
                results.append(await perform(self.client, operation))
            except ApiError as error:
                return WorkResult(work, tuple(results), error)
        return WorkResult(work, tuple(results))
