"""Write-back: decisions are written by a bounded number of hands, bindings first, status coalesced, refusals told."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from volcano.clock import Clock, Instant
from volcano.kube.client import Client
from volcano.kube.errors import ApiError, InternalError, NotFound, Timeout, TooManyRequests, Unavailable
from volcano.kube.operations import Operation, perform
from volcano.log import Log
from volcano.model.decisions import Bind, Decision, Evict
from volcano.scheduler.lowering import Lowering

log = Log("writeback")

HANDS = 32
AT_ONCE = 16  # writes by one hand before it lets others work
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
TRIES = 8
PASSING = (Unavailable, TooManyRequests, Timeout)

# A binding was written: when, and the seconds that its volumes and it itself took.
Bound = Callable[[Bind, Instant, float, float], None]


class WriteBack:
    """Takes decisions at any rate and writes them as fast as the server takes them.

    Bindings and evictions are written in the order decided, before anything that is merely said. What is said about an
    object and not written yet is replaced by what is said about it next.
    """

    def __init__(
        self,
        client: Client,
        lowering: Lowering,
        clock: Clock,
        *,
        refused: Callable[[Decision], None],
        bound: Bound = lambda decision, now, settling, binding: None,
        hands: int = HANDS,
    ) -> None:
        self._client = client
        self._lowering = lowering
        self._clock = clock
        self._refused = refused
        self._bound = bound
        self._hands = hands
        self._deeds: deque[Bind | Evict] = deque()
        self._words: dict[object, Decision] = {}
        self._failures: dict[str, int] = {}
        self._work = asyncio.Event()
        self._waiting = 0
        self.writes = 0

    @property
    def pending(self) -> int:
        """How many decisions are not written yet."""
        return len(self._deeds) + len(self._words) + self._waiting

    def submit(self, decisions: Iterable[Decision]) -> None:
        """Takes decisions over; returns at once."""
        for decision in decisions:
            if isinstance(decision, Bind | Evict):
                self._deeds.append(decision)
            else:
                self._words[_subject(decision)] = decision
        if self._deeds or self._words:
            self._work.set()

    async def run(self) -> None:
        """Writes until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._hands):
                group.create_task(self._hand())

    async def _hand(self) -> None:
        while True:
            await self._work.wait()
            for _ in range(AT_ONCE):
                if not self._deeds and not self._words:
                    self._work.clear()
                    break
                self._waiting += 1
                try:
                    await self._write(self._next())
                finally:
                    self._waiting -= 1
            await asyncio.sleep(0)  # in process nothing ever waits: let others have their turn

    def _next(self) -> Decision:
        if self._deeds:
            return self._deeds.popleft()
        return self._words.pop(next(iter(self._words)))

    async def _write(self, decision: Decision) -> None:
        begun = self._clock.now()
        moments = [begun.monotonic]  # when each write was done
        try:
            for operation in self._lowering.operations(decision, begun):
                await self._patiently(operation)
                moments.append(self._clock.now().monotonic)
        except NotFound as error:
            self._settle(decision, error)  # the object is gone: the watch will tell
        except ApiError as error:
            await self._pause_after_refusal(decision)
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

    def _settle(self, decision: Decision, error: ApiError) -> None:
        log.info(
            "refused", decision=type(decision).__name__, about=_subject(decision)[1:], reason=error.message
        )
        self._refused(decision)


def _subject(decision: Decision) -> tuple[str, ...]:
    """What a decision is about: later words about the same thing replace earlier ones."""
    return (
        type(decision).__name__,
        getattr(decision, "namespace", ""),
        getattr(decision, "name", ""),
        getattr(decision, "queue", ""),
        getattr(decision, "reason", "") if type(decision).__name__ == "Tell" else "",
    )
