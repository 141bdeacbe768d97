"""Runs controllers against a client: informers in, operations out, results back."""

import asyncio
import heapq
from collections.abc import Callable, Iterator, Sequence

from volcano.clock import Clock
from volcano.kube.client import Client, Event
from volcano.kube.controller import Controller, Reconciler, WorkItem, WorkResult
from volcano.kube.errors import ApiError, InternalError
from volcano.kube.informers import SharedInformerFactory
from volcano.kube.manifest import Manifest
from volcano.kube.operations import Operation, perform
from volcano.kube.subscriptions import Subscriptions
from volcano.log import Log

log = Log("runner")

CONCURRENCY = 64  # pieces of work at a time
ABREAST = 32  # writes at a time within groups; those of earlier work go first
AFTER_FAILURE = 1.0  # seconds before a controller that broke is asked again


class ControllerRunner:
    """One controller at work. Work under different keys is done in parallel, under one key in order."""

    def __init__(
        self,
        controller: Controller,
        client: Client,
        clock: Clock,
        *,
        concurrency: int = CONCURRENCY,
        on_ready: Callable[[], None] | None = None,
        informers: SharedInformerFactory | None = None,
    ) -> None:
        """Runners in one process share `informers`, so that each object is watched and decoded once."""
        self._controller = controller
        self._knows_its_keys = isinstance(controller, Reconciler)
        self._client = client
        self._clock = clock
        self._slots = asyncio.Semaphore(concurrency)
        self._line = Line(ABREAST)
        self._begun = 0
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._on_ready = on_ready
        self._failed = False
        self._alarm: tuple[float, asyncio.Task[None]] | None = (
            None  # when it goes off, and what waits for that
        )
        self._subscriptions = Subscriptions(
            informers or SharedInformerFactory(client, clock), controller, self._handle, self._wake.set
        )

    async def run(self) -> None:
        """Runs until cancelled. Nothing is decided before every watched kind has been listed once."""
        async with asyncio.TaskGroup() as group:
            try:
                await self._drive(group)
            finally:
                self._disarm()
                self._subscriptions.close()
                await self._abandon()

    async def _abandon(self) -> None:
        """Ends the writes that are still under way: nobody would hear of them."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _handle(self, group: Sequence[Event]) -> None:
        on_event = self._controller.on_event
        for event in group:
            try:
                on_event(event)
            except Exception as error:  # one object a controller cannot take must not keep it from the others
                log.error("event not taken", controller=self._controller.name, kind=event.kind, error=error)
        if self._subscriptions.are_outdated() or not self._can_sleep_on():
            self._wake.set()

    def _can_sleep_on(self) -> bool:
        """Whether events have left nothing to do before the alarm rings: most concern few of those who hear of them.
        Reconcilers work off keys and know when there are none; other controllers may want a look at any event."""
        if not self._knows_its_keys:
            return False
        due = self._controller.next_due()
        return due is None or (self._alarm is not None and self._alarm[0] <= due)

    async def _drive(self, group: asyncio.TaskGroup) -> None:
        while True:
            self._wake.clear()
            if not self._subscriptions.update(group):
                await self._wake.wait()  # until more of them are synced, or other ones are needed
                continue
            if self._on_ready is not None:
                self._on_ready()
                self._on_ready = None
            for work in self._step():
                task = asyncio.create_task(self._do(work))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            due = self._controller.next_due()
            if self._failed:
                await self._clock.sleep(AFTER_FAILURE)  # what it could not do is due still
            elif due is not None and due <= self._clock.now().monotonic:
                await asyncio.sleep(0)  # more to do at once; let others run first
            else:
                await self._wait(due)

    def _step(self) -> list[WorkItem]:
        self._failed = False
        try:
            return self._controller.step(self._clock.now())
        except Exception as error:  # a controller's bug must not end the process
            log.error("step failed", controller=self._controller.name, error=error)
            self._failed = True
            return []

    async def _wait(self, due: float | None) -> None:
        """Until something happens or the moment has come. An alarm that goes off too early does no harm: most waits
        end by an event long before, and setting it anew each time would cost more than looking once in vain."""
        if due is not None and (self._alarm is None or due < self._alarm[0]):
            self._disarm()
            self._alarm = (due, asyncio.create_task(self._ring_at(due)))
        await self._wake.wait()

    async def _ring_at(self, due: float) -> None:
        await self._clock.sleep(due - self._clock.now().monotonic)
        self._alarm = None
        self._wake.set()

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm[1].cancel()
            self._alarm = None

    async def _do(self, work: WorkItem) -> None:
        results: list[Manifest] = []
        refusal: ApiError | None = None
        async with self._slots:
            for operations, side_by_side in _stages(work):
                answers = await (self._abreast(operations) if side_by_side else self._one(operations[0]))
                refusals = [answer for answer in answers if isinstance(answer, ApiError)]
                if side_by_side:
                    results += [
                        answer.status() if isinstance(answer, ApiError) else answer for answer in answers
                    ]
                else:
                    results += [answer for answer in answers if not isinstance(answer, ApiError)]
                if refusals:
                    refusal = refusals[0]
                    log.info(
                        "write refused",
                        controller=self._controller.name,
                        key=work.key,
                        reason=refusal.message,
                    )
                    break
        try:
            self._controller.on_result(WorkResult(work, tuple(results), refusal), self._clock.now())
        except Exception as error:
            log.error("outcome not taken", controller=self._controller.name, key=work.key, error=error)
        self._wake.set()

    async def _one(self, operation: Operation) -> list[Manifest | ApiError]:
        try:
            return [await perform(self._client, operation)]
        except ApiError as refusal:
            return [refusal]
        except Exception as error:  # our own bug: the key is tried again later
            log.error("write failed", controller=self._controller.name, key=operation.key, error=error)
            return [InternalError(str(error))]

    async def _abreast(self, operations: Sequence[Operation]) -> list[Manifest | ApiError]:
        """Does writes side by side, a limited number at a time; the answers are in the order of the writes."""
        answers: list[Manifest | ApiError] = [{}] * len(operations)
        waiting = iter(enumerate(operations))
        self._begun += 1
        place = self._begun

        async def work_off() -> None:
            for position, operation in waiting:
                await self._line.enter(place)
                try:
                    answers[position] = (await self._one(operation))[0]
                finally:
                    self._line.leave()

        await asyncio.gather(*(work_off() for _ in range(min(ABREAST, len(operations)))))
        return answers


class Line:
    """Lets a limited number in at a time; whoever has the lowest place goes first.

    So the pods of one gang are made before those of the next: the first can start while the others are being made.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._arrivals = 0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    async def enter(self, place: int) -> None:
        if self._room > 0:
            self._room -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._arrivals += 1
        heapq.heappush(self._waiting, (place, self._arrivals, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()  # it was our turn just when we were told to go
            raise

    def leave(self) -> None:
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._room += 1


def _stages(work: WorkItem) -> Iterator[tuple[Sequence[Operation], bool]]:
    """The writes of a piece of work in order: one at a time, or a group to be done side by side."""
    position = 0
    for start, stop in (*work.groups, (len(work.operations), len(work.operations))):
        for operation in work.operations[position:start]:
            yield (operation,), False
        if start < stop:
            yield work.operations[start:stop], True
        position = stop
