"""Runs controllers against a client: informers in, operations out, results back."""

import asyncio
import heapq
from collections.abc import Callable, Iterator, Sequence

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.base.workqueue import Waker
from volcano.kube.api.errors import ApiError, InternalError
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.operations import Operation, perform
from volcano.kube.client.protocol import Client, Event
from volcano.kube.controllers.controller import (
    Controller,
    HandlesBatches,
    Reconciler,
    SteppedWhenDue,
    WorkItem,
    WorkResult,
)
from volcano.kube.controllers.subscriptions import Subscriptions
from volcano.kube.controllers.write_loops import WriteLoopMetrics
from volcano.kube.informers.shared_informers import SharedInformerFactory

log = Log("runner")

MAX_CONCURRENT_ITEMS = 64
STAGES_AT_ONCE = 20
MAX_REJECTIONS = 50  # of concurrent writes
MAX_CONCURRENT_WRITES = 32  # within concurrent ranges; those of earlier items go first
STEP_RETRY_SECONDS = 1.0  # after a step that raised


class ControllerRunner:
    """Runs one controller. Work items of different keys are done concurrently, those of one key in order."""

    def __init__(
        self,
        controller: Controller,
        client: Client,
        clock: Clock,
        *,
        concurrency: int = MAX_CONCURRENT_ITEMS,
        on_ready: Callable[[], None] | None = None,
        informers: SharedInformerFactory | None = None,
        write_loops: WriteLoopMetrics | None = None,
    ) -> None:
        """Runners of one process share `informers`, so that each object is watched and decoded once."""
        self._controller = controller
        if isinstance(controller, Reconciler):
            controller.write_loops.metrics = write_loops
        self._stepped_when_due = isinstance(controller, SteppedWhenDue)
        self._client = client
        self._clock = clock
        self._item_slots = asyncio.Semaphore(concurrency)
        self._write_slots = PrioritySemaphore(MAX_CONCURRENT_WRITES)
        self._ranges_started = 0
        self._waker = Waker(clock)
        self._tasks: set[asyncio.Task[None]] = set()
        self._on_ready = on_ready
        self._step_failed = False
        self._subscriptions = Subscriptions(
            informers or SharedInformerFactory(client, clock),
            controller,
            self._on_batch if isinstance(controller, HandlesBatches) else self._on_events,
            self._waker.wake,
        )

    async def run(self) -> None:
        """Runs until cancelled. The first step follows the first list of every watched kind."""
        async with asyncio.TaskGroup() as group:
            try:
                await self._loop(group)
            finally:
                self._waker.close()
                self._subscriptions.close()
                await self._cancel_writes()

    async def _cancel_writes(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_events(self, batch: Sequence[Event]) -> None:
        on_event = self._controller.on_event
        for event in batch:
            try:
                on_event(event)
            except Exception as error:  # a bug that one object triggers must not stop the events of others
                log.error(
                    "event handler failed", controller=self._controller.name, kind=event.kind, error=error
                )
        self._wake_if_due()

    def _on_batch(self, batch: Sequence[Event]) -> None:
        """As `_on_events`, for a controller that handles batches."""
        assert isinstance(self._controller, HandlesBatches)
        try:
            self._controller.on_events(batch)
        except Exception as error:  # a bug that one object triggers must not stop the events of others
            log.error("event handler failed", controller=self._controller.name, error=error)
        self._wake_if_due()

    def _wake_if_due(self) -> None:
        # Most events concern few controllers: those that know it say whether events require a step before the timer.
        if (
            self._subscriptions.are_outdated()
            or not self._stepped_when_due
            or not self._waker.wakes_by(self._controller.next_due())
        ):
            self._waker.wake()

    async def _loop(self, group: asyncio.TaskGroup) -> None:
        while True:
            self._waker.clear()
            if not self._subscriptions.update(group):
                await self._waker.wait()  # until more of them are synced, or other ones are needed
                continue
            if self._on_ready is not None:
                self._on_ready()
                self._on_ready = None
            for item in self._step():
                task = asyncio.create_task(self._process(item))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            due = self._controller.next_due()
            if self._step_failed:
                await self._clock.sleep(STEP_RETRY_SECONDS)  # the failed work is still due
            elif due is not None and due <= self._clock.now().monotonic:
                await asyncio.sleep(0)  # more work is due; other tasks run first
            else:
                await self._waker.wait(due)

    def _step(self) -> list[WorkItem]:
        self._step_failed = False
        try:
            return self._controller.step(self._clock.now())
        except Exception as error:  # a controller's bug must not end the process
            log.error("step failed", controller=self._controller.name, error=error)
            self._step_failed = True
            return []

    async def _process(self, item: WorkItem) -> None:
        results: list[Manifest] = []
        error: ApiError | None = None
        async with self._item_slots:
            for number, (operations, concurrent) in enumerate(_stages(item), start=1):
                if number % STAGES_AT_ONCE == 0:
                    await asyncio.sleep(0)  # a write to a store in memory does not suspend
                answers = await (self._write_all(operations) if concurrent else self._write(operations[0]))
                errors = [answer for answer in answers if isinstance(answer, ApiError)]
                if concurrent:
                    results += [
                        answer.status() if isinstance(answer, ApiError) else answer for answer in answers
                    ]
                else:
                    results += [answer for answer in answers if not isinstance(answer, ApiError)]
                if errors:
                    error = errors[0]
                    log.info(
                        "write rejected", controller=self._controller.name, key=item.key, reason=error.message
                    )
                    break
        try:
            self._controller.on_result(WorkResult(item, tuple(results), error), self._clock.now())
        except Exception as bug:  # a bug that one result triggers must not stop the other items
            log.error("result handler failed", controller=self._controller.name, key=item.key, error=bug)
        self._waker.wake()

    async def _write(self, operation: Operation) -> list[Manifest | ApiError]:
        try:
            return [await perform(self._client, operation)]
        except ApiError as error:
            return [error]
        except Exception as error:  # a bug in the client: the key is retried with back-off
            log.error("write failed", controller=self._controller.name, key=operation.key, error=error)
            return [InternalError(str(error))]

    async def _write_all(self, operations: Sequence[Operation]) -> list[Manifest | ApiError]:
        """Does writes concurrently, a limited number at a time; returns the answers in the order of the writes.

        After many rejections, by a quota for example, the other writes are left for the next try.
        """
        answers: list[Manifest | ApiError] = [{}] * len(operations)
        pending = iter(enumerate(operations))
        self._ranges_started += 1
        priority = self._ranges_started
        rejections: list[ApiError] = []

        async def worker() -> None:
            for position, operation in pending:
                if len(rejections) >= MAX_REJECTIONS:
                    answers[position] = rejections[-1]
                    continue
                await self._write_slots.acquire(priority)
                try:
                    answer = (await self._write(operation))[0]
                finally:
                    self._write_slots.release()
                answers[position] = answer
                if isinstance(answer, ApiError):
                    rejections.append(answer)
                    await asyncio.sleep(0)  # a rejected write may not have suspended

        await asyncio.gather(*(worker() for _ in range(min(MAX_CONCURRENT_WRITES, len(operations)))))
        return answers


class PrioritySemaphore:
    """A semaphore whose waiters are served by priority, lowest number first.

    So the pods of one gang are created before those of the next: the first gang can start while the next is created.
    """

    def __init__(self, value: int) -> None:
        self._value = value
        self._arrivals = 0
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []

    async def acquire(self, priority: int) -> None:
        if self._value > 0:
            self._value -= 1
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._arrivals += 1
        heapq.heappush(self._waiters, (priority, self._arrivals, waiter))
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.release()  # acquired at the same moment as cancelled
            raise

    def release(self) -> None:
        while self._waiters:
            _, _, waiter = heapq.heappop(self._waiters)
            if not waiter.done():
                waiter.set_result(None)
                return
        self._value += 1


def _stages(item: WorkItem) -> Iterator[tuple[Sequence[Operation], bool]]:
    """Yields the operations of an item in order: one at a time, or a range of concurrent ones (True)."""
    position = 0
    for start, stop in (*item.concurrent, (len(item.operations), len(item.operations))):
        for operation in item.operations[position:start]:
            yield (operation,), False
        if start < stop:
            yield item.operations[start:stop], True
        position = stop
