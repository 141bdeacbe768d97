"""Leader election with a Lease, as in client-go: one candidate leads, the others wait until its lease
expires."""

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from volcano.base.clock import Clock, Instant
from volcano.base.log import Log
from volcano.base.workqueue import Waker
from volcano.kube.api.errors import ApiError, Forbidden, NotFound, Unauthorized
from volcano.kube.api.kinds import LEASE
from volcano.kube.api.manifest import Key, Manifest, version_of
from volcano.kube.client.operations import Create, Operation, Update, perform
from volcano.kube.client.protocol import Client, EventType, Query

log = Log("election")

JITTER = 1.2


@dataclass(frozen=True, slots=True)
class LeaderElectionConfig:
    """Durations in seconds: of the lease, until a leader that cannot renew it stops, and between attempts."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease_duration > self.renew_deadline > self.retry_period * JITTER > 0:
            raise ValueError(
                f"lease duration {self.lease_duration:g} s must exceed the renew deadline {self.renew_deadline:g} s, "
                f"and that {JITTER:g} times the retry period {self.retry_period:g} s"
            )


class Candidate:
    """State of one candidate: the lease as last observed, when it was observed, and the next write.

    Clocks of other machines are not trusted: the lease of another holder expires when it has not *changed*
    for its duration as measured here.
    """

    def __init__(
        self, key: Key, identity: str, config: LeaderElectionConfig = LeaderElectionConfig()
    ) -> None:
        self.key = key
        self.identity = identity
        self.config = config
        self._lease: Manifest | None = None
        self._observed_at = 0.0

    @property
    def leading(self) -> bool:
        """Whether this candidate holds the lease as last observed."""
        return bool(self.holder) and self.holder == self.identity

    @property
    def holder(self) -> str:
        """Identity of the holder as last observed; empty when the lease is free."""
        return str(self._spec.get("holderIdentity") or "")

    @property
    def _spec(self) -> dict[str, Any]:
        return (self._lease or {}).get("spec") or {}

    def observe(self, lease: Manifest | None, now: Instant) -> None:
        """Records the lease as read from the server; None when it does not exist."""
        if self._lease is None or lease is None or lease.get("spec") != self._spec:
            self._observed_at = now.monotonic
        self._lease = lease

    def attempt(self, now: Instant) -> Operation | None:
        """Returns the write that acquires or renews the lease; None while another holder's lease has not
        expired."""
        if self._lease is None:
            return Create(LEASE, self._manifest(self._renewed(now, transitions=0)))
        if self.leading:
            acquired = self._spec.get("acquireTime")
            spec = {**self._spec, **self._renewed(now, self._transitions), "acquireTime": acquired}
            return Update(LEASE, {**self._lease, "spec": spec})
        if self.holder and self._is_held(now):
            return None
        spec = {**self._spec, **self._renewed(now, self._transitions + 1)}
        return Update(LEASE, {**self._lease, "spec": spec})

    def on_written(self, lease: Manifest, began: Instant) -> None:
        """Records a successful write. The lease counts from before the write, as no other candidate can have
        seen it sooner."""
        self._lease = lease
        self._observed_at = began.monotonic

    def expired(self, now: Instant) -> bool:
        """Whether this candidate leads but has not renewed the lease in time, so that it must stop."""
        return self.leading and now.monotonic - self._observed_at >= self.config.renew_deadline

    def seconds_to_renew(self, now: Instant) -> float:
        """Seconds that an attempt may take: for a leader those until it must stop, else the renew deadline."""
        return (
            max(self._observed_at + self.config.renew_deadline - now.monotonic, 0.0)
            if self.leading
            else self.config.renew_deadline
        )

    def seconds_until_expiry(self, now: Instant) -> float:
        """Seconds until another holder's lease expires unless it is renewed; 0 when it is free."""
        if not self.holder or self.leading:
            return 0.0
        return max(self._observed_at + self._duration - now.monotonic, 0.0)

    def on_watch(self, lease: Manifest | None, now: Instant) -> bool:
        """Records the lease as a watch reports it, unless a newer version is known; returns whether it is
        free."""
        if lease is not None and self._lease is not None and version_of(lease) <= version_of(self._lease):
            return False
        self.observe(lease, now)
        return not self.holder

    def release(self, now: Instant) -> Operation | None:
        """Returns the write that releases the lease at once; None when this candidate does not hold it."""
        if self._lease is None or not self.leading:
            return None
        spec = {
            **self._spec,
            **self._renewed(now, self._transitions),
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
        }
        return Update(LEASE, {**self._lease, "spec": spec})

    @property
    def _transitions(self) -> int:
        return int(self._spec.get("leaseTransitions") or 0)

    @property
    def _duration(self) -> float:
        return float(self._spec.get("leaseDurationSeconds") or 0)

    def _is_held(self, now: Instant) -> bool:
        return self._observed_at + self._duration > now.monotonic

    def _renewed(self, now: Instant, transitions: int) -> dict[str, Any]:
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self.config.lease_duration),
            "acquireTime": now.micro_timestamp(),
            "renewTime": now.micro_timestamp(),
            "leaseTransitions": transitions,
        }

    def _manifest(self, spec: dict[str, Any]) -> Manifest:
        metadata = {"namespace": self.key.namespace, "name": self.key.name}
        return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": spec}


class LeadershipLost(Exception):
    """The lease could not be renewed in time: another candidate may be leading."""


async def run_leader_election(
    client: Client,
    candidate: Candidate,
    clock: Clock,
    work: Callable[[], Awaitable[None]],
    *,
    chance: Callable[[], float],
    on_elected: Callable[[], None] | None = None,
) -> None:
    """Waits to be elected, then runs `work` while leading; releases the lease at the end.

    Raises `LeadershipLost` (with `work` cancelled) when the lease could not be renewed in time.
    """
    await _acquire(client, candidate, clock, chance)
    log.info("leader elected", lease=candidate.key, identity=candidate.identity)
    if on_elected is not None:
        on_elected()
    working = asyncio.ensure_future(work())
    renewing = asyncio.create_task(_renew(client, candidate, clock))
    try:
        await asyncio.wait((working, renewing), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            log.warning("leadership lost", lease=candidate.key, identity=candidate.identity)
            raise LeadershipLost(
                f"lease {candidate.key} could not be renewed in {candidate.config.renew_deadline:g} s"
            )
        await working
    finally:
        for task in (renewing, working):
            task.cancel()
        await asyncio.gather(renewing, working, return_exceptions=True)
        await _with_timeout(_release(client, candidate, clock), candidate.config.renew_deadline, clock)


async def _acquire(client: Client, candidate: Candidate, clock: Clock, chance: Callable[[], float]) -> None:
    """Retries periodically, when the holder's lease expires, and as soon as the lease is released."""
    waker = Waker(clock)
    watching = asyncio.create_task(_watch_lease(client, candidate, clock, waker))
    try:
        while not await _try_acquire_or_renew(client, candidate, clock):
            pause = candidate.config.retry_period * (1 + JITTER * chance())
            now = clock.now()
            left = candidate.seconds_until_expiry(now)
            await waker.wait(now.monotonic + (min(pause, left) if left > 0 else pause))
            waker.clear()
    finally:
        waker.close()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _watch_lease(client: Client, candidate: Candidate, clock: Clock, waker: Waker) -> None:
    """Watches the lease, so that renewals are seen when they happen. A candidate without permission to watch
    only polls."""
    query = Query(namespace=candidate.key.namespace, fields=f"metadata.name={candidate.key.name}")
    while True:
        try:
            async for event in client.watch(LEASE, query):
                deleted = event.type is EventType.DELETED
                if event.type is not EventType.BOOKMARK and candidate.on_watch(
                    None if deleted else event.object, clock.now()
                ):
                    waker.wake()
        except (Forbidden, Unauthorized) as error:
            log.info("lease not watched", lease=candidate.key, reason=error.message)
            return
        except ApiError as error:
            log.debug("lease watch failed", lease=candidate.key, reason=error.message)
        await clock.sleep(candidate.config.retry_period)


async def _renew(client: Client, candidate: Candidate, clock: Clock) -> None:
    """Renews the lease periodically; returns when that has failed for too long or another candidate holds the
    lease."""
    while candidate.leading and not candidate.expired(clock.now()):
        await clock.sleep(candidate.config.retry_period)
        await _try_acquire_or_renew(client, candidate, clock)


async def _try_acquire_or_renew(client: Client, candidate: Candidate, clock: Clock) -> bool:
    """Makes one attempt to acquire or renew the lease, within the renew deadline."""
    seconds = candidate.seconds_to_renew(clock.now())
    return bool(await _with_timeout(_attempt(client, candidate, clock), seconds, clock))


async def _with_timeout(work: Coroutine[Any, Any, Any], seconds: float, clock: Clock) -> Any:
    """Returns the result of `work`; cancels it and returns None when it takes longer."""
    attempt = asyncio.create_task(work)
    deadline = asyncio.create_task(clock.sleep(seconds))
    try:
        await asyncio.wait((attempt, deadline), return_when=asyncio.FIRST_COMPLETED)
        return attempt.result() if attempt.done() else None
    finally:
        for task in (attempt, deadline):
            task.cancel()
        await asyncio.gather(attempt, deadline, return_exceptions=True)


async def _attempt(client: Client, candidate: Candidate, clock: Clock) -> bool:
    try:
        if candidate.leading:
            with contextlib.suppress(ApiError):  # the lease was modified: read it first
                return await _write(client, candidate, clock)
        candidate.observe(await _read(client, candidate.key), clock.now())
        return await _write(client, candidate, clock)
    except ApiError as error:
        log.info("lease not written", lease=candidate.key, reason=error.message)
        return False


async def _read(client: Client, key: Key) -> Manifest | None:
    try:
        return await client.get(LEASE, key)
    except NotFound:
        return None


async def _write(client: Client, candidate: Candidate, clock: Clock) -> bool:
    began = clock.now()
    operation = candidate.attempt(began)
    if operation is None:
        return False
    candidate.on_written(await perform(client, operation), began)
    return True


async def _release(client: Client, candidate: Candidate, clock: Clock) -> None:
    """Releases the lease if still held; after a failure the other candidates wait until it expires."""
    try:
        candidate.observe(await _read(client, candidate.key), clock.now())
        operation = candidate.release(clock.now())
        if operation is not None:
            candidate.observe(await perform(client, operation), clock.now())
            log.info("lease released", lease=candidate.key, identity=candidate.identity)
    except ApiError as error:
        log.info("lease not released", lease=candidate.key, reason=error.message)
