"""Accounting in a program: opens the database, writes what the recorder found, and answers requests.

The database is used in threads of its own: the event loop never waits for it.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from volcano.accounting.api import DECAYED_USAGE, PERIODS, DecayedUsage, parse_decayed
from volcano.accounting.errors import DatabaseError
from volcano.accounting.periods import period_start
from volcano.accounting.recorder.gap import missed_since, recorded_versions
from volcano.accounting.recorder.meter import Totals
from volcano.accounting.recorder.recorder import Recorder
from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.base.metrics import CollectorRegistry
from volcano.base.workqueue import Backoff
from volcano.kube.api.errors import Unavailable
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.names import SCHEDULER_NAME
from volcano.kube.client.protocol import Client
from volcano.kube.controllers.runner import ControllerRunner
from volcano.kube.informers.shared_informers import SharedInformerFactory

if TYPE_CHECKING:
    from volcano.accounting.store.requests import Parameters
    from volcano.accounting.store.worker import DatabaseWorker

log = Log("accounting")

FLUSH_SECONDS: Final = (
    10.0  # a short run is then written once, with its end; larger batches cost less for each row
)
SEEN_SECONDS: Final = 10.0  # between writes of the time until which runs were seen
RETENTION_SECONDS: Final = 3600.0
PAUSE_SECONDS: Final = 0.2  # between parts of the retention
READERS: Final = 4
DAY: Final = 86_400.0
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class AccountingOptions:
    """Where and for how long runs are recorded."""

    url: str
    retention: float = 400 * DAY  # seconds; older runs are kept as sums of months only
    scheduler_names: tuple[str, ...] = (SCHEDULER_NAME,)


class BudgetUsage:
    """Usage of queues in the present day, week and month."""

    def __init__(self) -> None:
        self._bases: dict[
            str, tuple[float, Totals]
        ] = {}  # start of the period, and usage up to now less the meter
        self._meter: Callable[[float], Totals] | None = None

    def set_base(self, period: str, start: float, base: Totals, meter: Callable[[float], Totals]) -> None:
        self._bases[period] = (start, base)
        self._meter = meter

    def is_current(self, period: str, now: float) -> bool:
        known = self._bases.get(period)
        return known is not None and known[0] == period_start(period, now)

    def of(self, period: str, now: float) -> Totals | None:
        """Resource-seconds by queue and resource since the start of the period; None while that is not known."""
        if self._meter is None or not self.is_current(period, now):
            return None
        totals = self._meter(now)
        for key, amount in self._bases[period][1].items():
            totals[key] = totals.get(key, 0.0) + amount
        return totals


class AccountingMetrics(Collector):
    """Computed when they are read."""

    def __init__(self, registry: CollectorRegistry, recorder: Recorder, clock: Clock) -> None:
        self.failures = 0  # of the database, in a row
        self._recorder = recorder
        self._clock = clock
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        used = CounterMetricFamily(
            "volcano_queue_resource_seconds",
            "Resource-seconds that the pods of a queue have occupied: requests times run time",
            labels=("queue", "resource"),
        )
        for (queue, resource), seconds in sorted(self._recorder.meter.totals(self._clock.now().wall).items()):
            used.add_metric((queue, resource), seconds)
        yield used
        yield GaugeMetricFamily(
            "volcano_accounting_pending_rows", "Rows that are not written yet", self._recorder.pending
        )
        yield CounterMetricFamily(
            "volcano_accounting_dropped_rows",
            "Rows that were dropped because the database was not available for too long",
            self._recorder.dropped,
        )
        yield GaugeMetricFamily(
            "volcano_accounting_database_failures",
            "Failed writes since the last successful one",
            self.failures,
        )


class AccountingService:
    """Use `run` while leading, and `respond` at any time. Needs `close` at the end."""

    def __init__(
        self,
        options: AccountingOptions,
        clock: Clock,
        metrics: Callable[[], CollectorRegistry] = CollectorRegistry,
    ) -> None:
        """`metrics` returns an empty registry whenever recording starts."""
        self.budget_usage = BudgetUsage()
        self._options = options
        self._clock = clock
        self._metrics = metrics
        self._worker: DatabaseWorker | None = None
        self._recorder: Recorder | None = None  # while runs are recorded
        self._opening = asyncio.Lock()
        self._writer = ThreadPoolExecutor(1, "accounting-writer")
        self._readers = ThreadPoolExecutor(READERS, "accounting-reader")

    async def respond(self, resource: str, namespace: str, parameters: "Parameters") -> Manifest:
        """The answer to a request. Raises an ApiError."""
        try:
            worker, now = await self._open(), self._clock.now().wall
            if self._recorder is not None and self._recorder.has_rows:
                await self._flush(worker, self._recorder)  # answers include all that is known
            return await self._in(self._readers, lambda: worker.answer(resource, namespace, parameters, now))
        except DatabaseError as error:
            log.warning("accounting database not available", reason=error)
            raise Unavailable(f"the accounting database is not available: {error}") from None

    async def decayed_usage(self, half_life: float) -> DecayedUsage:
        """Decayed usage for fair shares. Raises an ApiError."""
        return parse_decayed(await self.respond(DECAYED_USAGE, "", {"halfLifeSeconds": [repr(half_life)]}))

    async def run(
        self, client: Client, informers: SharedInformerFactory, on_ready: Callable[[], None] = lambda: None
    ) -> None:
        """Records runs until cancelled."""
        recorder = Recorder(
            self._options.scheduler_names,
            origin=self._clock.now().wall,
            versions=lambda: recorded_versions(informers, recorder.watches),
        )
        metrics = AccountingMetrics(self._metrics(), recorder, self._clock)
        synced = asyncio.Event()

        def ready() -> None:
            on_ready()
            synced.set()

        runner = ControllerRunner(recorder, client, self._clock, on_ready=ready, informers=informers)
        async with asyncio.TaskGroup() as group:
            group.create_task(runner.run())
            await synced.wait()
            try:
                await self._record(recorder, metrics, client)
            finally:
                self._recorder = None

    async def close(self) -> None:
        for executor in (self._writer, self._readers):
            await asyncio.to_thread(executor.shutdown, cancel_futures=True)
        if self._worker is not None:
            self._worker.close()

    async def _record(self, recorder: Recorder, metrics: AccountingMetrics, client: Client) -> None:
        """Writes rows until cancelled; while the database is not available, they wait."""
        backoff = Backoff(FLUSH_SECONDS, 60.0)
        worker: DatabaseWorker | None = None
        seen_at = expired_at = float("-inf")
        while True:
            now = self._clock.now()
            try:
                if worker is None:
                    worker = await self._begin(recorder, client)
                elif recorder.pending or now.monotonic >= seen_at + SEEN_SECONDS:
                    await self._flush(worker, recorder)
                    seen_at = now.monotonic
                await self._update_budgets(worker, recorder)
                if now.monotonic >= expired_at + RETENTION_SECONDS:
                    await self._expire(worker)
                    expired_at = now.monotonic
                metrics.failures = 0
                await self._clock.sleep(FLUSH_SECONDS)
            except DatabaseError as error:
                delay = backoff.delay(metrics.failures)
                metrics.failures += 1
                log.warning(
                    "runs cannot be recorded, retrying", reason=error, rows=recorder.pending, seconds=delay
                )
                await self._clock.sleep(delay)

    async def _begin(self, recorder: Recorder, client: Client) -> "DatabaseWorker":
        """Writes all that is known, and ends runs whose pods were deleted while nothing was recorded."""
        worker = await self._open()
        await self._record_gap(worker, recorder, client)
        pods, jobs = set(recorder.pods), set(recorder.jobs)
        # Runs of pods that appear meanwhile are not in the database yet.
        lost = await self._in(self._writer, lambda: worker.close_missing(pods, jobs))
        if lost:
            log.warning("runs ended while nothing was recorded, their ends are estimated", runs=lost)
        self._recorder = recorder  # answers include its rows from now on
        while True:
            await self._flush(worker, recorder)
            if not recorder.pending:
                break
        now = self._clock.now().wall
        past = await self._in(self._readers, lambda: worker.queue_totals(0.0, now))
        recorder.meter.set_past(_difference(past, recorder.meter.totals(now)))
        log.info("recording pod runs", database=worker.shown_url, pods=len(pods))
        return worker

    async def _record_gap(self, worker: "DatabaseWorker", recorder: Recorder, client: Client) -> None:
        """Writes runs and jobs that were deleted while nothing was recorded, as far as the API server knows them.

        Until the rows of the present are written, the database says that nothing of the gap is: after a crash
        meanwhile, it is read again.
        """
        progress = await self._in(self._readers, worker.progress)
        if progress is None or not progress.versions:
            return
        missed = await missed_since(client, self._clock, recorder.watches, progress, recorder.versions())
        batch = recorder.missed(missed, self._clock.now())
        if batch.runs or batch.jobs:
            await self._in(self._writer, lambda: worker.write(batch))
            log.info(
                "deleted while nothing was recorded, recorded now",
                runs=len(batch.runs),
                jobs=len(batch.jobs),
            )

    async def _flush(self, worker: "DatabaseWorker", recorder: Recorder) -> None:
        batch = recorder.take(self._clock.now())
        await self._in(self._writer, lambda: worker.write(batch))
        recorder.confirm(batch)

    async def _update_budgets(self, worker: "DatabaseWorker", recorder: Recorder) -> None:
        """Reads the usage of each period once, when it begins; the meter goes on from there."""
        now = self._clock.now().wall
        for period in PERIODS:
            if not self.budget_usage.is_current(period, now):
                start = period_start(period, now)
                known = recorder.meter.totals(now)
                used = await self._in(self._readers, partial(worker.queue_totals, start, now))
                self.budget_usage.set_base(period, start, _difference(used, known), recorder.meter.totals)

    async def _expire(self, worker: "DatabaseWorker") -> None:
        """Applies the retention, in parts."""
        before = self._clock.now().wall - self._options.retention
        if not await self._in(self._readers, lambda: worker.has_expired(before)):
            return
        moved = 0
        while part := await self._in(self._writer, lambda: worker.roll_up(before)):
            moved += part
            await self._clock.sleep(PAUSE_SECONDS)
        await self._in(self._writer, lambda: worker.remove_leftovers(before))
        log.info("old runs summed up by month", runs=moved)

    async def _open(self) -> "DatabaseWorker":
        async with self._opening:
            if self._worker is None:
                self._worker = await self._in(self._writer, lambda: _open_database(self._options.url))
            return self._worker

    async def _in(self, executor: ThreadPoolExecutor, call: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(executor, call)


def _open_database(url: str) -> "DatabaseWorker":
    # Imported here, in a thread: SQLAlchemy takes as long to load as a fifth of a cluster's start.
    from volcano.accounting.store.worker import DatabaseWorker

    return DatabaseWorker(url)


def _difference(totals: Totals, known: Totals) -> Totals:
    return {key: totals.get(key, 0.0) - known.get(key, 0.0) for key in totals.keys() | known}
