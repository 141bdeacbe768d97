"""Write-back: a bounded number of workers write decisions: bindings and evictions first, status debounced."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from volcano.base.clock import Clock, Instant
from volcano.base.log import Log
from volcano.base.workqueue import Backoff, Waker
from volcano.kube.api.errors import ApiError, InternalError, NotFound, Timeout, TooManyRequests, Unavailable
from volcano.kube.client.operations import Operation, perform
from volcano.kube.client.protocol import Client
from volcano.model.decisions import Bind, Decision, Evict, ReserveClaim, SetPodCondition
from volcano.model.job import PodGroup
from volcano.scheduler.writeback.operations import OperationBuilder, release_patches
from volcano.scheduler.writeback.read_back import DEFINITE_ERRORS
from volcano.scheduler.writeback.scheduled_events import ScheduledEvents
from volcano.scheduler.writeback.status_queue import StatusQueue, condition_key, group_keys, status_key

log = Log("writeback")

BIND_WORKERS = 32
STATUS_WORKERS = 4  # few: status patches must not slow bindings down on a busy server
BATCH = 16  # writes of one worker before other tasks of the event loop run
RETRY_BACKOFF = Backoff(first=0.05, longest=5.0)  # between attempts of one write
REJECTION_BACKOFF = Backoff(first=0.05, longest=60.0)  # before a rejected decision is given up
ATTEMPTS = 8
TRANSIENT = (Unavailable, TooManyRequests, Timeout)
BIND_FAILED = "SchedulerError"  # reason of the condition and event of a pod that cannot be bound

# A binding was written: the time, and the seconds that its volume claims and the binding itself took.
OnBound = Callable[[Bind, Instant, float, float], None]


class WriteBack:
    """Accepts decisions at any rate and writes them as fast as the server accepts them.

    Bindings, evictions and urgent status changes are written in the order decided. Other status changes wait in the
    status queue and are written by a few workers of their own.
    """

    def __init__(
        self,
        client: Client,
        builder: OperationBuilder,
        clock: Clock,
        *,
        on_rejected: Callable[[Decision], None],
        read_back: Callable[[Bind | Evict], Awaitable[bool]] | None = None,
        on_bound: OnBound = lambda decision, now, claims, binding: None,
        workers: int = BIND_WORKERS,
        scheduled_events: bool = False,
    ) -> None:
        """`read_back` applies the pod as the server has it; returns whether the decision was carried out.

        With `scheduled_events`, an event is recorded for each pod that is bound.
        """
        self._client = client
        self._builder = builder
        self._clock = clock
        self._on_rejected = on_rejected
        self._read_back = read_back
        self._on_bound = on_bound
        self._workers = workers
        self._bindings: deque[Bind | Evict] = deque()
        self._urgent: deque[Decision] = deque()  # status changes that controllers wait for
        self._statuses = StatusQueue()
        self._failures: dict[str, int] = {}
        self._reported: dict[str, str] = {}  # by task: the failure of its binding that its condition has
        self._events: ScheduledEvents | None = None
        if scheduled_events:
            self._events = ScheduledEvents(client, clock, builder.component, lambda: bool(self._bindings))
        self._work = asyncio.Event()
        self._status_waker = Waker(clock)
        self._status_lock = asyncio.Lock()
        self._in_flight = 0
        self.writes = 0

    @property
    def pending(self) -> int:
        """Number of decisions that are not written yet."""
        events = len(self._events) if self._events is not None else 0
        return len(self._bindings) + len(self._urgent) + len(self._statuses) + self._in_flight + events

    def submit(self, decisions: Iterable[Decision]) -> None:
        """Queues decisions; returns at once."""
        now = self._clock.now().monotonic
        for decision in decisions:
            if isinstance(decision, Bind | Evict):
                self._statuses.discard(condition_key(decision.namespace, decision.name))
                self._bindings.append(decision)
            elif (urgent := self._statuses.put(decision, now)) is not None:
                self._urgent.append(urgent)
        if self._bindings or self._urgent:
            self._work.set()
        if self._statuses:
            self._status_waker.wake()

    def withdraw(self, group: PodGroup) -> None:
        """Discards the status changes of a deleted PodGroup."""
        for key in group_keys(group.namespace, group.name):
            self._statuses.discard(key)

    async def run(self) -> None:
        """Writes until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._bind_worker())
                for _ in range(STATUS_WORKERS):
                    group.create_task(self._status_worker())
                if self._events is not None:
                    group.create_task(self._events.run())
        finally:
            self._status_waker.close()

    async def _bind_worker(self) -> None:
        while True:
            await self._work.wait()
            for _ in range(BATCH):
                if not self._bindings and not self._urgent:
                    self._work.clear()
                    break
                await self._write(self._urgent.popleft() if self._urgent else self._bindings.popleft())
            await asyncio.sleep(0)  # an in-process client never suspends: let other tasks run

    async def _status_worker(self) -> None:
        while True:
            async with self._status_lock:  # one worker at a time waits for the queue
                decision = await self._next_status()
            await self._write(decision)
            await asyncio.sleep(0)

    async def _next_status(self) -> Decision:
        while True:
            self._status_waker.clear()
            decision = self._statuses.get(self._clock.now().monotonic)
            if decision is not None:
                return decision
            await self._status_waker.wait(self._statuses.next_due())

    async def _write(self, decision: Decision) -> None:
        self._in_flight += 1
        try:
            await self._perform_all(decision)
        finally:
            self._in_flight -= 1

    async def _perform_all(self, decision: Decision) -> None:
        started = self._clock.now()
        times = [started.monotonic]  # after each operation
        try:
            for operation in self._builder.operations(decision, started):
                await self._perform(operation)
                times.append(self._clock.now().monotonic)
        except ApiError as error:
            await self._give_up(decision, error)
        except Exception as error:  # a bug in one write must not end the worker
            log.error("write failed", decision=type(decision).__name__, error=error)
            self._reject(decision, InternalError(str(error)))
        else:
            self.writes += 1
            if isinstance(decision, Bind):
                self._failures.pop(decision.task, None)
                self._reported.pop(decision.task, None)
                if self._events is not None:
                    self._events.add(decision)
                claims_bound, bound = times[-2:]  # the binding is the last operation
                self._on_bound(decision, self._clock.now(), claims_bound - times[0], bound - claims_bound)

    async def _perform(self, operation: Operation) -> None:
        """Performs one operation; transient errors are retried with back-off."""
        for attempt in range(ATTEMPTS):
            try:
                await perform(self._client, operation)
                return
            except TRANSIENT as error:
                if attempt == ATTEMPTS - 1:
                    raise
                log.info("write retried", reason=error.message)
                await self._clock.sleep(max(RETRY_BACKOFF.delay(attempt), error.retry_after))

    async def _give_up(self, decision: Decision, error: ApiError) -> None:
        """Rejects a decision after an error: at once if its object was deleted, otherwise after a back-off."""
        if isinstance(error, NotFound) and not isinstance(decision, Bind):
            self._reject(decision, error)  # the watch reports the deletion
            return
        definite = isinstance(error, DEFINITE_ERRORS)
        if isinstance(decision, Bind) and definite:
            await self._release_claims(decision)
            if not await self._report_failure(decision, error):
                self._reject(decision, error)  # the pod was deleted
                return
        await self._back_off(decision)
        if isinstance(decision, Bind | Evict) and self._read_back and not definite:
            carried_out = await self._read_back(decision)
            if isinstance(decision, Bind) and not carried_out:
                await self._release_claims(decision)
                await self._report_failure(decision, error)
        self._reject(decision, error)

    async def _release_claims(self, decision: Bind) -> None:
        """Releases the resource claims of a pod that was not bound."""
        for claim in decision.claims:
            if not isinstance(claim, ReserveClaim):
                continue
            for operation in release_patches(claim):
                try:
                    await self._perform(operation)
                    break
                except NotFound:
                    break
                except ApiError as error:
                    log.info(
                        "claim not released", claim=f"{claim.namespace}/{claim.name}", reason=error.message
                    )

    async def _report_failure(self, decision: Bind, error: ApiError) -> bool:
        """Sets the condition of a pod that cannot be bound, and records an event; returns whether the pod exists."""
        message = f"failed to bind to node {decision.node}: {error.message}"
        if self._reported.get(decision.task) == message:
            return True
        condition = SetPodCondition(decision.task, decision.namespace, decision.name, BIND_FAILED, message)
        try:
            for operation in self._builder.operations(condition, self._clock.now()):
                await self._perform(operation)
        except NotFound:
            return False
        except ApiError as failure:
            log.info(
                "condition not written", pod=f"{decision.namespace}/{decision.name}", reason=failure.message
            )
        else:
            self._reported[decision.task] = message
        return True

    async def _back_off(self, decision: Decision) -> None:
        """Delays the next attempt for a pod whose bindings or evictions are rejected repeatedly."""
        if not isinstance(decision, Bind | Evict):
            return
        failures = self._failures.get(decision.task, 0)
        self._failures[decision.task] = failures + 1
        await self._clock.sleep(REJECTION_BACKOFF.delay(failures))

    def _reject(self, decision: Decision, error: ApiError) -> None:
        log.info(
            "write rejected",
            decision=type(decision).__name__,
            object="/".join(status_key(decision)[1:]),
            reason=error.message,
        )
        self._on_rejected(decision)
