"""Drives brains against a client: mirrors what they watch, performs what they ask for, tells them what came of it."""

import asyncio
from collections.abc import Callable

from volcano.clock import Clock
from volcano.kube.client import Client, Event
from volcano.kube.errors import ApiError, InternalError
from volcano.kube.manifest import Manifest
from volcano.kube.mirror import Mirror
from volcano.kube.operations import perform
from volcano.kube.reconciler import Brain, Done, Work
from volcano.log import Log

log = Log("runner")

CONCURRENCY = 64


class Runner:
    """One brain at work. Work under different keys is done in parallel, under one key in order."""

    def __init__(
        self,
        brain: Brain,
        client: Client,
        clock: Clock,
        *,
        concurrency: int = CONCURRENCY,
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        self._brain = brain
        self._client = client
        self._clock = clock
        self._slots = asyncio.Semaphore(concurrency)
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._on_ready = on_ready

    async def run(self) -> None:
        """Runs until cancelled. Nothing is decided before every watched kind has been listed once."""
        mirrors = [Mirror(self._client, watch, self._handle, self._clock) for watch in self._brain.watches]
        async with asyncio.TaskGroup() as group:
            for mirror in mirrors:
                group.create_task(mirror.run())
            for mirror in mirrors:
                await mirror.synced.wait()
            if self._on_ready is not None:
                self._on_ready()
            await self._drive()

    def _handle(self, event: Event) -> None:
        self._brain.handle(event)
        self._wake.set()

    async def _drive(self) -> None:
        while True:
            self._wake.clear()
            for work in self._step():
                task = asyncio.create_task(self._do(work))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            due = self._brain.next_due()
            if due is not None and due <= self._clock.now().monotonic:
                await asyncio.sleep(0)  # more to do at once; let others run first
                continue
            await self._wait(due)

    def _step(self) -> list[Work]:
        try:
            return self._brain.step(self._clock.now())
        except Exception as error:  # a brain's bug must not end the process
            log.error("step failed", brain=self._brain.name, error=error)
            return []

    async def _wait(self, due: float | None) -> None:
        if due is None:
            await self._wake.wait()
            return
        waiter = asyncio.create_task(self._wake.wait())
        sleeper = asyncio.create_task(self._clock.sleep(due - self._clock.now().monotonic))
        try:
            await asyncio.wait((waiter, sleeper), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiter.cancel()
            sleeper.cancel()

    async def _do(self, work: Work) -> None:
        results: list[Manifest] = []
        refusal: ApiError | None = None
        async with self._slots:
            try:
                for operation in work.operations:
                    results.append(await perform(self._client, operation))
            except ApiError as error:
                refusal = error
                log.info("write refused", brain=self._brain.name, key=work.key, reason=error.message)
            except Exception as error:  # our own bug: the key is tried again later
                refusal = InternalError(str(error))
                log.error("write failed", brain=self._brain.name, key=work.key, error=error)
        self._brain.settle(Done(work, tuple(results), refusal), self._clock.now())
        self._wake.set()
