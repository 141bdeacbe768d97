"""Leader election by Lease, as client-go does it: one candidate acts, the others wait until its lease runs out."""

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from volcano.clock import Clock, Instant
from volcano.kube.client import Client, EventType, Query
from volcano.kube.errors import ApiError, Forbidden, NotFound, Unauthorized
from volcano.kube.kinds import LEASE
from volcano.kube.manifest import Key, Manifest, version_of
from volcano.kube.operations import Create, Operation, Update, perform
from volcano.log import Log

log = Log("election")

JITTER = 1.2


@dataclass(frozen=True, slots=True)
class LeaderElectionConfig:
    """How long a lease lasts, how long its holder may fail to renew it, and how often anybody tries, in seconds."""

    lease: float = 15.0
    renew: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease > self.renew > self.retry * JITTER > 0:
            raise ValueError(
                f"lease duration {self.lease:g} s must exceed the renew deadline {self.renew:g} s, "
                f"and that {JITTER:g} times the retry period {self.retry:g} s"
            )


class Candidate:
    """One candidate's view of the lease: what it last saw, when, and what it should write.

    Other machines' clocks are not trusted: a foreign lease runs out when it has not *changed* for its duration as
    measured here.
    """

    def __init__(self, key: Key, identity: str, terms: LeaderElectionConfig = LeaderElectionConfig()) -> None:
        self.key = key
        self.identity = identity
        self.terms = terms
        self._lease: Manifest | None = None
        self._observed_at = 0.0

    @property
    def leading(self) -> bool:
        """Whether the lease, as last seen, is ours."""
        return bool(self.holder) and self.holder == self.identity

    @property
    def holder(self) -> str:
        """Who holds the lease as last seen; empty when nobody does."""
        return str(self._spec.get("holderIdentity") or "")

    @property
    def _spec(self) -> dict[str, Any]:
        return (self._lease or {}).get("spec") or {}

    def observe(self, lease: Manifest | None, now: Instant) -> None:
        """Takes in the lease as the server has it; None when there is none."""
        if self._lease is None or lease is None or lease.get("spec") != self._spec:
            self._observed_at = now.monotonic
        self._lease = lease

    def attempt(self, now: Instant) -> Operation | None:
        """What to write to become or stay the leader; None while somebody else's lease runs."""
        if self._lease is None:
            return Create(LEASE, self._manifest(self._renewed(now, transitions=0)))
        if self.leading:
            acquired = self._spec.get("acquireTime")
            spec = {**self._spec, **self._renewed(now, self._transitions), "acquireTime": acquired}
            return Update(LEASE, {**self._lease, "spec": spec})
        if self.holder and self._runs(now):
            return None
        spec = {**self._spec, **self._renewed(now, self._transitions + 1)}
        return Update(LEASE, {**self._lease, "spec": spec})

    def written(self, lease: Manifest, began: Instant) -> None:
        """Our write succeeded; the lease counts from before it, as nobody can have seen it sooner."""
        self._lease = lease
        self._observed_at = began.monotonic

    def expired(self, now: Instant) -> bool:
        """Whether we lead but have not managed to renew in time, so that we must stop."""
        return self.leading and now.monotonic - self._observed_at >= self.terms.renew

    def time_to_renew(self, now: Instant) -> float:
        """Seconds an attempt may take: as a leader, what is left until we must stop; else the renew deadline."""
        return (
            max(self._observed_at + self.terms.renew - now.monotonic, 0.0)
            if self.leading
            else self.terms.renew
        )

    def time_to_run(self, now: Instant) -> float:
        """Seconds until somebody else's lease runs out unless it is renewed; 0 when none runs."""
        if not self.holder or self.leading:
            return 0.0
        return max(self._observed_at + self._duration - now.monotonic, 0.0)

    def hear(self, lease: Manifest | None, now: Instant) -> bool:
        """Takes in what a watch says unless more is known already; whether the lease is free for the taking."""
        if lease is not None and self._lease is not None and version_of(lease) <= version_of(self._lease):
            return False
        self.observe(lease, now)
        return not self.holder

    def release(self, now: Instant) -> Operation | None:
        """What to write to hand the lease back at once; None when it is not ours."""
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

    def _runs(self, now: Instant) -> bool:
        return self._observed_at + self._duration > now.monotonic

    def _renewed(self, now: Instant, transitions: int) -> dict[str, Any]:
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self.terms.lease),
            "acquireTime": now.micro_timestamp(),
            "renewTime": now.micro_timestamp(),
            "leaseTransitions": transitions,
        }

    def _manifest(self, spec: dict[str, Any]) -> Manifest:
        metadata = {"namespace": self.key.namespace, "name": self.key.name}
        return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": spec}


class LeadershipLost(Exception):
    """The lease could not be renewed in time: somebody else may be leading now."""


async def run_leader_election(
    client: Client,
    candidate: Candidate,
    clock: Clock,
    work: Callable[[], Awaitable[None]],
    *,
    chance: Callable[[], float],
    on_elected: Callable[[], None] | None = None,
) -> None:
    """Waits to be elected, then runs `work` for as long as we lead; hands the lease back at the end.

    Raises `LeadershipLost` (with `work` cancelled) when the lease could not be renewed in time.
    """
    await _stand(client, candidate, clock, chance)
    log.info("elected", lease=candidate.key, identity=candidate.identity)
    if on_elected is not None:
        on_elected()
    working = asyncio.ensure_future(work())
    renewing = asyncio.create_task(_renew(client, candidate, clock))
    try:
        await asyncio.wait((working, renewing), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            log.warning("leadership lost", lease=candidate.key, identity=candidate.identity)
            raise LeadershipLost(f"lease {candidate.key} could not be renewed in {candidate.terms.renew:g} s")
        await working
    finally:
        for task in (renewing, working):
            task.cancel()
        await asyncio.gather(renewing, working, return_exceptions=True)
        await _within(_release(client, candidate, clock), candidate.terms.renew, clock)


async def _stand(client: Client, candidate: Candidate, clock: Clock, chance: Callable[[], float]) -> None:
    """Tries now and then, at the moment the holder's lease runs out, and as soon as it is handed back."""
    free = asyncio.Event()
    listening = asyncio.create_task(_listen(client, candidate, clock, free))
    try:
        while not await _try(client, candidate, clock):
            pause = candidate.terms.retry * (1 + JITTER * chance())
            left = candidate.time_to_run(clock.now())
            await _within(free.wait(), min(pause, left) if left > 0 else pause, clock)
            free.clear()
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def _listen(client: Client, candidate: Candidate, clock: Clock, free: asyncio.Event) -> None:
    """Watches the lease, so that a renewal is known when it happens. Who may not watch makes do with looking."""
    query = Query(namespace=candidate.key.namespace, fields=f"metadata.name={candidate.key.name}")
    while True:
        try:
            async for event in client.watch(LEASE, query):
                gone = event.type is EventType.DELETED
                if event.type is not EventType.BOOKMARK and candidate.hear(
                    None if gone else event.object, clock.now()
                ):
                    free.set()
        except (Forbidden, Unauthorized) as error:
            log.info("lease not watched", lease=candidate.key, reason=error.message)
            return
        except ApiError as error:
            log.debug("watch of the lease broken", lease=candidate.key, reason=error.message)
        await clock.sleep(candidate.terms.retry)


async def _renew(client: Client, candidate: Candidate, clock: Clock) -> None:
    """Renews again and again; returns when that has failed for too long or somebody else holds the lease."""
    while candidate.leading and not candidate.expired(clock.now()):
        await clock.sleep(candidate.terms.retry)
        await _try(client, candidate, clock)


async def _try(client: Client, candidate: Candidate, clock: Clock) -> bool:
    """One attempt to get or keep the lease, not longer than the renew deadline leaves."""
    seconds = candidate.time_to_renew(clock.now())
    return bool(await _within(_attempt(client, candidate, clock), seconds, clock))


async def _within(work: Coroutine[Any, Any, Any], seconds: float, clock: Clock) -> Any:
    """What `work` returns; None, with the work broken off, when it takes longer."""
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
            with contextlib.suppress(ApiError):  # somebody touched the lease: look at it first
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
    candidate.written(await perform(client, operation), began)
    return True


async def _release(client: Client, candidate: Candidate, clock: Clock) -> None:
    """Hands the lease back, if it is still ours; a failure only means that others wait until it runs out."""
    try:
        candidate.observe(await _read(client, candidate.key), clock.now())
        operation = candidate.release(clock.now())
        if operation is not None:
            candidate.observe(await perform(client, operation), clock.now())
            log.info("lease released", lease=candidate.key, identity=candidate.identity)
    except ApiError as error:
        log.info("lease not released", lease=candidate.key, reason=error.message)
