"""Takes the samples of the last hour, with the dashboard's own credentials, for as long as the dashboard runs."""

from volcano.accounting import api
from volcano.accounting.api import parse_job, parse_run
from volcano.base.clock import Clock, micro_timestamp
from volcano.base.log import Log
from volcano.dashboard.data.past import cycle_times, past_samples
from volcano.dashboard.feed import SHOWN, Feed
from volcano.dashboard.rights import Scopes
from volcano.dashboard.samples import KEPT, STEP, CycleTimes, EndedJobs, ended_at, sample_of
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import JOB
from volcano.scheduler.history.queries import Summary
from volcano.services.accounting import ask_all
from volcano.services.connection import Connection
from volcano.services.errors import ServiceError
from volcano.services.explain.record import read_cycles

log = Log("dashboard")

EVERYTHING = Scopes.everything(SHOWN)
MOST_RUNS = 20_000  # of the past hour; a busier cluster is shown from the start of the dashboard on
MOST_JOBS = 5_000
CYCLES = 50  # that the scheduler lists at once
RETRY_AFTER = 6  # steps after which a record of cycles that could not be read is asked for again


class Sampler:
    """Adds a sample to the feed every ten seconds."""

    def __init__(self, feed: Feed, connection: Connection, clock: Clock) -> None:
        self._feed = feed
        self._connection = connection
        self._clock = clock
        self._ended = EndedJobs()
        self._last_cycle = -1  # number of the newest cycle of the last sample; -1: none was read
        self._skipped = RETRY_AFTER

    async def run(self) -> None:
        """Samples until cancelled."""
        await self._feed.synced()
        await self._fill()
        while True:
            try:
                await self.sample()
            except Exception as error:
                log.error("a sample failed, the next one is taken as usual", error=error)
            await self._clock.sleep(STEP)
            self._feed.refresh()  # ages grow also in a cluster in which nothing changes

    async def sample(self) -> None:
        objects = self._feed.visible(EVERYTHING)
        completed, failed = self._ended.count(objects.of(JOB))
        cycles = await self._cycles()
        now = self._clock.now().wall
        self._feed.samples.add(sample_of(objects, now, completed=completed, failed=failed, cycles=cycles))

    async def _fill(self) -> None:
        """Reads the past hour, as far as it is recorded."""
        objects = self._feed.visible(EVERYTHING)
        now = self._clock.now().wall
        # Jobs that ended in the step before the first sample belong to that sample.
        self._ended.count([job for job in objects.of(JOB) if ended_at(job) <= now - STEP])
        period = {"from": micro_timestamp(now - KEPT * STEP), "to": micro_timestamp(now)}
        try:
            runs = await ask_all(self._connection.client, api.RUNS, "", MOST_RUNS, **period)
            jobs = await ask_all(self._connection.client, api.JOBS, "", MOST_JOBS, **period)
            cycles = await self._listed_cycles()
            if len(runs) < MOST_RUNS and len(jobs) < MOST_JOBS:
                recorded = [parse_run(each) for each in runs]
                self._feed.samples.add(*past_samples(recorded, [*map(parse_job, jobs)], cycles, objects, now))
        except (ApiError, ServiceError, ValueError, KeyError) as error:
            # Charts begin now. Accounting may be switched off, or not be readable for the dashboard.
            log.info("samples of the past hour not read", reason=str(error))

    async def _cycles(self) -> CycleTimes | None:
        """Cycles since the last sample; None when the record of cycles cannot be read."""
        if self._last_cycle < 0 and self._skipped < RETRY_AFTER:
            self._skipped += 1
            return None
        before = self._last_cycle
        listed = await self._listed_cycles()
        if listed is None or before < 0:
            return None
        if self._last_cycle < before:
            before = 0  # the scheduler started again
        return cycle_times([cycle for cycle in listed if cycle.number > before])

    async def _listed_cycles(self) -> list[Summary] | None:
        try:
            answer = await read_cycles(self._connection.client, limit=CYCLES)
        except (ServiceError, ApiError, ValueError):
            self._last_cycle, self._skipped = -1, 0
            return None
        self._last_cycle = answer.last
        return answer.cycles
