"""Write-back: decisions are written by a bounded number of hands, bindings first, words few and late, refusals told."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from volcano.clock import Clock, Instant
from volcano.kube.client import Client
from volcano.kube.errors import ApiError, InternalError, NotFound, Timeout, TooManyRequests, Unavailable
from volcano.kube.operations import Operation, perform
from volcano.log import Log
from volcano.model.decisions import Bind, Decision, Evict
from volcano.scheduler.cycle_timer import woken_or_late
from volcano.scheduler.writeback.operations import OperationBuilder
from volcano.scheduler.writeback.read_back import DEFINITE_ERRORS
from volcano.scheduler.writeback.status_queue import StatusQueue, about_group, subject_of, unschedulable

log = Log("writeback")

HANDS = 32
TALKERS = (
    4  # hands for words: a server that is busy with bindings is not kept from them by what we have to say
)
AT_ONCE = 16  # writes by one hand before it lets others work
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
TRIES = 8
PASSING = (Unavailable, TooManyRequests, Timeout)

# A binding was written: when, and the seconds that its volumes and it itself took.
Bound = Callable[[Bind, Instant, float, float], None]


class WriteBack:
    """Takes decisions at any rate and writes them as fast as the server takes them.

    Bindings, evictions and what others wait for are written in the order decided. What is merely said waits until
    there is no more news of it for a while, and then for one of a few hands of its own.
    """

    def __init__(
        self,
        client: Client,
        builder: OperationBuilder,
        clock: Clock,
        *,
        refused: Callable[[Decision], None],
        make_sure: Callable[[Bind | Evict], Awaitable[None]] | None = None,
        bound: Bound = lambda decision, now, settling, binding: None,
        hands: int = HANDS,
    ) -> None:
        self._client = client
        self._builder = builder
        self._clock = clock
        self._refused = refused
        self._make_sure = make_sure
        self._bound = bound
        self._hands = hands
        self._deeds: deque[Bind | Evict] = deque()
        self._urgent: deque[Decision] = deque()  # words that others wait for
        self._statuses = StatusQueue()
        self._failures: dict[str, int] = {}
        self._work = asyncio.Event()
        self._talk = asyncio.Event()
        self._turn = asyncio.Lock()
        self._waiting = 0
        self.writes = 0

    @property
    def pending(self) -> int:
        """How many decisions are not written yet."""
        return len(self._deeds) + len(self._urgent) + len(self._statuses) + self._waiting

    def submit(self, decisions: Iterable[Decision]) -> None:
        """Takes decisions over; returns at once."""
        now = self._clock.now().monotonic
        for decision in decisions:
            if isinstance(decision, Bind | Evict):
                self._statuses.drop(unschedulable(decision.namespace, decision.name))
                self._deeds.append(decision)
            elif (urgent := self._statuses.put(decision, now)) is not None:
                self._urgent.append(urgent)
        if self._deeds or self._urgent:
            self._work.set()
        if self._statuses:
            self._talk.set()

    def withdraw(self, namespace: str, group: str) -> None:
        """A PodGroup is gone: nothing more is to be said about it."""
        for subject in about_group(namespace, group):
            self._statuses.drop(subject)

    async def run(self) -> None:
        """Writes until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._hands):
                group.create_task(self._hand())
            for _ in range(TALKERS):
                group.create_task(self._talker())

    async def _hand(self) -> None:
        while True:
            await self._work.wait()
            for _ in range(AT_ONCE):
                if not self._deeds and not self._urgent:
                    self._work.clear()
                    break
                await self._write(self._urgent.popleft() if self._urgent else self._deeds.popleft())
            await asyncio.sleep(0)  # in process nothing ever waits: let others have their turn

    async def _talker(self) -> None:
        while True:
            async with self._turn:  # one of us waits for the next word
                word = await self._next_word()
            await self._write(word)
            await asyncio.sleep(0)

    async def _next_word(self) -> Decision:
        while (word := self._statuses.take(self._clock.now().monotonic)) is None:
            due = self._statuses.next_due()
            self._talk.clear()
            if due is None:
                await self._talk.wait()
            else:
                await woken_or_late(self._talk, self._clock, due - self._clock.now().monotonic)
        return word

    async def _write(self, decision: Decision) -> None:
        self._waiting += 1
        try:
            await self._try(decision)
        finally:
            self._waiting -= 1

    async def _try(self, decision: Decision) -> None:
        begun = self._clock.now()
        moments = [begun.monotonic]  # when each write was done
        try:
            for operation in self._builder.operations(decision, begun):
                await self._patiently(operation)
                moments.append(self._clock.now().monotonic)
        except NotFound as error:
            self._settle(decision, error)  # the object is gone: the watch will tell
        except ApiError as error:
            await self._pause_after_refusal(decision)
            await self._clear_up(decision, error)
            self._settle(decision, error)
        except Exception as error:  # our own bug must not end the hand
            log.error("write failed", decision=type(decision).__name__, error=error)
            self._settle(decision, InternalError(str(error)))
        else:
            self.writes += 1
            if isinstance(decision, Bind):
                self._failures.pop(decision.task, None)
                settled, done = moments[-2:]  # the binding is the last of its writes
                self._bound(decision, self._clock.now(), settled - moments[0], done - settled)

    async def _patiently(self, operation: Operation) -> None:
        """One write; what may pass is tried again with growing pauses."""
        pause = FIRST_PAUSE
        for attempt in range(TRIES):
            try:
                await perform(self._client, operation)
                return
            except PASSING as error:
                if attempt == TRIES - 1:
                    raise
                log.info("write delayed", reason=error.message)
                await self._clock.sleep(max(pause, error.retry_after))
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _pause_after_refusal(self, decision: Decision) -> None:
        """A pod whose binding is refused again and again is held ever longer before it is tried anew."""
        if not isinstance(decision, Bind | Evict):
            return
        failures = self._failures.get(decision.task, 0)
        self._failures[decision.task] = failures + 1
        await self._clock.sleep(min(FIRST_PAUSE * 2**failures, 60.0))

    async def _clear_up(self, decision: Decision, error: ApiError) -> None:
        """Has the server looked at where what it said leaves open what was done."""
        if isinstance(decision, Bind | Evict) and self._make_sure and not isinstance(error, DEFINITE_ERRORS):
            await self._make_sure(decision)

    def _settle(self, decision: Decision, error: ApiError) -> None:
        log.info(
            "refused", decision=type(decision).__name__, about=subject_of(decision)[1:], reason=error.message
        )
        self._refused(decision)
