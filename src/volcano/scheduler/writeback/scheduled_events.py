"""Scheduled events of bound pods: written in batches, and only while no binding waits."""

import asyncio
from collections import deque
from collections.abc import Callable

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.kube.api.errors import ApiError
from volcano.kube.api.events import NORMAL, event
from volcano.kube.api.kinds import EVENT
from volcano.kube.client.operations import Create, perform
from volcano.kube.client.protocol import Client
from volcano.model.decisions import Bind
from volcano.scheduler.writeback.operations import pod_reference

log = Log("writeback")

INTERVAL = 0.5  # seconds between batches
BATCH = 64  # events written between two looks at the bindings
PARALLEL = 4  # few: events must not slow bindings down on a busy server
MOST = 10_000  # events that wait; the oldest are dropped beyond that


class ScheduledEvents:
    """Queue of the events to be written; `busy` reports whether bindings wait."""

    def __init__(self, client: Client, clock: Clock, component: str, busy: Callable[[], bool]) -> None:
        self._client = client
        self._clock = clock
        self._component = component
        self._busy = busy
        self._waiting: deque[Bind] = deque(maxlen=MOST)
        self._work = asyncio.Event()
        self._in_flight = 0
        self._number = 0

    def __len__(self) -> int:
        return len(self._waiting) + self._in_flight

    def add(self, decision: Bind) -> None:
        """Queues the event of a pod that was bound."""
        self._waiting.append(decision)
        self._work.set()

    async def run(self) -> None:
        """Writes until cancelled."""
        while True:
            await self._work.wait()
            await self._clock.sleep(INTERVAL)
            while self._waiting and not self._busy():
                batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
                await asyncio.gather(*(self._write(batch[i::PARALLEL]) for i in range(PARALLEL)))
            if not self._waiting:
                self._work.clear()

    async def _write(self, bound: list[Bind]) -> None:
        self._in_flight += len(bound)
        for decision in bound:
            try:
                await perform(self._client, self._event(decision))
            except ApiError as error:
                log.info(
                    "event not written", pod=f"{decision.namespace}/{decision.name}", reason=error.message
                )
            finally:
                self._in_flight -= 1

    def _event(self, decision: Bind) -> Create:
        now = self._clock.now()
        self._number += 1  # distinguishes events of the same moment
        about = pod_reference(decision.namespace, decision.name, decision.task)
        text = f"Successfully assigned {decision.namespace}/{decision.name} to {decision.node}"
        name = f"{decision.name}.{int(now.wall * 1e9) + self._number:x}"
        return Create(
            EVENT,
            event(
                about,
                name,
                severity=NORMAL,
                reason="Scheduled",
                message=text,
                now=now,
                component=self._component,
            ),
        )
