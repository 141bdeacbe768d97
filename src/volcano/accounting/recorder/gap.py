"""What was deleted while nothing was recorded, read from the history of the API server.

A watch from an earlier resource version delivers each deletion with the last state of its object. Servers keep this
history for some minutes, or for a number of changes, and answer 410 for what is older.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Final, NamedTuple

import orjson

from volcano.accounting.api import Progress
from volcano.accounting.recorder.outcomes import moment_of
from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.kube.api.errors import ApiError, Gone, TooManyRequests, Unavailable
from volcano.kube.api.kinds import JOB, POD, POD_GROUP, RESOURCE_CLAIM, RESOURCE_SLICE, Kind
from volcano.kube.api.manifest import Key, Manifest, key_of
from volcano.kube.client.protocol import Client, Event, EventType, Query, Watch
from volcano.kube.client.watch_batches import watch_batches
from volcano.kube.informers.shared_informers import SharedInformerFactory

log = Log("accounting")

RECORDED: Final = (POD, JOB)  # whose changes are recorded
READ: Final = (POD_GROUP, POD, JOB)  # groups say in which queue a pod was
ROUND_SECONDS: Final = 3  # of one watch; API servers send a bookmark two seconds before it ends
RETRY_SECONDS: Final = 1.0
MOST_SECONDS: Final = 20.0
MOST_EVENTS: Final = 50_000  # of one watch


class Missed(NamedTuple):
    """What happened while nothing was recorded."""

    deleted: Sequence["Deleted"]
    devices: Sequence[
        Event
    ] = ()  # ResourceSlices, and claims as they were allocated, if deleted pods had claims


class Deleted(NamedTuple):
    """The last state of a deleted object, and when it was deleted or, if not exact, at the earliest."""

    kind: Kind
    object: Manifest
    at: float
    is_exact: bool = False


def recorded_versions(informers: SharedInformerFactory, watches: Sequence[Watch]) -> dict[str, int]:
    """The resource version of each recorded resource up to which the events of all its watches were received."""
    found: dict[str, int] = {}
    for kind in RECORDED:
        versions = [informers.version(watch) for watch in watches if watch.kind == kind]
        if versions and all(version.isdecimal() for version in versions):
            found[kind.resource] = min(map(int, versions))
    return found


async def missed_since(
    client: Client, clock: Clock, watches: Sequence[Watch], progress: Progress, reached: Mapping[str, int]
) -> Missed:
    """Objects that were deleted after what is recorded and up to the versions `reached`, as far as the server knows
    them. Takes a limited time."""
    histories = []
    for watch in watches:
        # The groups of pods that were deleted are needed since then, too.
        resource = (POD if watch.kind == POD_GROUP else watch.kind).resource
        after, until = progress.versions.get(resource), reached.get(resource)
        if watch.kind in READ and after is not None and until is not None and after < until:
            histories.append(_History(watch, after, until, progress.seen))
    await asyncio.gather(*(history.read(client, clock) for history in histories))
    deleted = [each for history in histories for each in history.deleted]
    if not any(each.kind == POD and each.object["spec"].get("resourceClaims") for each in deleted):
        return Missed(deleted)
    after, until = progress.versions[POD.resource], reached[POD.resource]
    claims = _History(Watch(RESOURCE_CLAIM), after, until, progress.seen)
    await claims.read(client, clock)
    return Missed(deleted, [*await _listed_devices(client), *claims.allocated.values()])


async def _listed_devices(client: Client) -> list[Event]:
    found: list[Event] = []
    for kind in (RESOURCE_SLICE, RESOURCE_CLAIM):
        try:
            found += [Event(EventType.ADDED, kind, item) for item in (await client.list(kind)).items]
        except ApiError as error:
            log.warning("devices of deleted pods not read", kind=kind, reason=error.message)
    return found


class _History:
    """The events of one watch between two resource versions."""

    def __init__(self, watch: Watch, after: int, until: int, seen: float) -> None:
        self.deleted: list[Deleted] = []
        self.allocated: dict[Key, Event] = {}  # claims as they were when a pod used them last
        self._watch = watch
        self._version = after
        self._until = until
        self._events = 0
        self._time = seen  # of the latest change; changes arrive in the order in which they happened

    async def read(self, client: Client, clock: Clock) -> None:
        """Reads as much as the server has, within the limits."""
        kind = self._watch.kind
        try:
            async with asyncio.timeout(MOST_SECONDS):
                while not await self._read_round(client, clock):
                    pass
        except Gone:
            log.info("history expired, deletions while nothing was recorded are estimated", kind=kind)
        except (ApiError, TimeoutError) as error:
            reason = error.message if isinstance(error, ApiError) else f"not read in {MOST_SECONDS:g} seconds"
            log.warning(
                "history not read, deletions while nothing was recorded are estimated",
                kind=kind,
                reason=reason,
            )

    async def _read_round(self, client: Client, clock: Clock) -> bool:
        """Reads until the server ends the watch; returns whether all is read."""
        before, watch = self._version, self._watch
        query = Query(
            labels=watch.labels,
            fields=watch.fields,
            resource_version=str(before),
            timeout_seconds=ROUND_SECONDS,
        )
        try:
            async with aclosing(watch_batches(client, watch.kind, query, decode=orjson.loads)) as batches:
                async for batch in batches:
                    for event in batch:
                        self._on_event(event)
                    if self._version >= self._until:
                        return True
                    if self._events > MOST_EVENTS:
                        log.warning("history is too long, the rest is estimated", kind=watch.kind)
                        return True
        except (Unavailable, TooManyRequests) as error:
            log.info("history not read, retrying", kind=watch.kind, reason=error.message)
            await clock.sleep(RETRY_SECONDS)
            return False
        return (
            self._version == before
        )  # a round without anything new: the versions up to `until` are of other kinds

    def _on_event(self, event: Event) -> None:
        manifest = event.object
        version = str(manifest["metadata"].get("resourceVersion", ""))
        if version.isdecimal():
            self._version = max(self._version, int(version))
        if event.type is EventType.BOOKMARK:
            return
        self._events += 1
        self._time = max(self._time, _written_at(manifest))
        if event.kind == RESOURCE_CLAIM and _is_in_use(manifest):
            self.allocated[key_of(manifest)] = Event(EventType.ADDED, event.kind, manifest)
        if event.type is EventType.DELETED:
            metadata = manifest["metadata"]
            metadata.pop("managedFields", None)
            # Deleted at once, not after a grace period: the last state says when.
            is_exact = "deletionTimestamp" in metadata and metadata.get("deletionGracePeriodSeconds") == 0
            self.deleted.append(Deleted(event.kind, manifest, self._time, is_exact))


def _is_in_use(claim: Manifest) -> bool:
    status = claim.get("status") or {}
    return bool(status.get("allocation") and status.get("reservedFor"))


def _written_at(manifest: Manifest) -> float:
    """When an object was written last: when one of its fields was, or its deletion was requested."""
    metadata = manifest["metadata"]
    times = [entry.get("time") or "" for entry in metadata.get("managedFields") or ()]
    written = 0.0
    try:
        if latest := max((*times, metadata.get("creationTimestamp") or "")):  # all in the same format
            written = moment_of(latest)
        if deletion := metadata.get("deletionTimestamp"):
            grace = float(metadata.get("deletionGracePeriodSeconds") or 0)
            written = max(written, moment_of(deletion) - grace)
    except ValueError:
        return written
    return written
