"""Watch of one job: its states, why it waits, and waiting until it reaches a phase."""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from volcano.base.clock import Clock
from volcano.kube.api import duration
from volcano.kube.api.errors import ApiError, Gone, Unavailable
from volcano.kube.api.fields import at, items, number
from volcano.kube.api.kinds import JOB, POD_GROUP
from volcano.kube.api.manifest import Key, Manifest, uid_of
from volcano.kube.client.protocol import Client, EventType, Query
from volcano.services.errors import NotFoundError, Rejected, ServiceError, TimedOut
from volcano.services.jobs import phase_of
from volcano.services.objects import find
from volcano.views.jobs import WAITING, why_waiting

PHASES = (
    "Pending", "Running", "Restarting", "Completing", "Completed", "Aborting", "Aborted", "Terminating", "Terminated",
    "Failed",
)  # fmt: skip
ENDS = ("Completed", "Failed", "Terminated", "Aborted")
DELETED = "Deleted"
PAUSE = 1.0
TIMEOUT = 30.0  # seconds without a server before giving up


async def states(client: Client, clock: Clock, key: Key) -> AsyncGenerator[Manifest | None, None]:
    """Yields the job now and after every change; None, as the last item, when it is deleted. Raises NotFoundError
    without a job."""
    job = await find(client, JOB, key)
    uid, version = uid_of(job), job["metadata"]["resourceVersion"]
    yield job
    away_since: float | None = None
    while True:
        query = Query(key.namespace, fields=f"metadata.name={key.name}", resource_version=version)
        try:
            async for event in client.watch(JOB, query):
                version, away_since = event.object["metadata"]["resourceVersion"], None
                if event.type is EventType.DELETED or uid_of(event.object) not in ("", uid):
                    yield None
                    return
                if event.type is not EventType.BOOKMARK:
                    yield event.object
            continue
        except Gone:
            pass
        except Unavailable:
            now = clock.now().monotonic
            away_since = away_since or now
            if now - away_since > TIMEOUT:
                raise
        await clock.sleep(PAUSE)
        try:
            found = (await client.list(JOB, Query(key.namespace, fields=query.fields))).items
        except Unavailable:
            continue
        if not found or uid_of(found[0]) != uid:
            yield None
            return
        version = found[0]["metadata"]["resourceVersion"]
        yield found[0]


def message_of(job: Manifest) -> str:
    """Message or reason of the job's state."""
    state = at(job, "status", "state", default={})
    return str(state.get("message") or state.get("reason") or "")


def pod_counts(job: Manifest) -> str:
    """`3 of 4 running, 1 pending`: the job's pods by state."""
    wanted = sum(number(task, "replicas") for task in items(job, "spec", "tasks"))
    counts = [
        f"{count} {word}"
        for word in ("running", "pending", "succeeded", "failed", "terminating", "unknown")
        if (count := number(job, "status", word))
    ]
    return f"{', '.join(counts)} of {wanted}" if counts else f"none of {wanted} pods yet"


async def group_of(client: Client, job: Manifest) -> Manifest | None:
    """PodGroup of a job: named after job and uid, or after the job alone."""
    namespace, name = job["metadata"].get("namespace", ""), job["metadata"]["name"]
    for candidate in (f"{name}-{uid_of(job)}", name):
        try:
            return await client.get(POD_GROUP, Key(namespace, candidate))
        except ApiError:
            continue
    return None


async def why(client: Client, job: Manifest) -> str:
    """Reason for which a job waits; empty if it does not wait or no reason is known."""
    if phase_of(job) not in WAITING:
        return ""
    group = await group_of(client, job)
    return why_waiting(group) if group is not None else ""


async def wait_for(
    client: Client,
    clock: Clock,
    key: Key,
    *,
    goals: Sequence[str] = ("Completed",),
    limit: float = math.inf,
    on_progress: Callable[[str], None] = lambda text: None,
) -> str:
    """Waits until a job reaches a goal; returns how it did. Raises Rejected if it cannot any more, TimedOut after
    `limit` seconds, and NotFoundError without a job."""
    last: Manifest = {}
    try:
        async with asyncio.timeout(None if math.isinf(limit) else limit):
            async with aclosing(states(client, clock, key)) as seen:
                async for job in seen:
                    if job is None:
                        if DELETED in goals:
                            return "is deleted"
                        raise Rejected(f"job {key} was deleted before it was {' or '.join(goals)}")
                    last = job
                    if reached := goal_reached(job, goals):
                        return reached
                    if failure := goal_unreachable(job, goals):
                        raise Rejected(f"job {key} {failure}")
                    on_progress(f"job {key}: {_stand(job)}{_because(await why(client, job))}")
            raise ServiceError(f"job {key} is no longer watched")
    except TimeoutError:
        stand = (
            f"it is {_stand(last)}{_because(await why(client, last))}" if last else "nothing is known of it"
        )
        raise TimedOut(
            f"job {key} is not {' or '.join(goals)} after {duration.format(limit)}: {stand}"
        ) from None
    except NotFoundError:
        if DELETED in goals:
            return "is deleted"
        raise


def _stand(job: Manifest) -> str:
    return f"{phase_of(job)}, {pod_counts(job)}"


def _because(reason: str) -> str:
    return f"; {reason}" if reason else ""


def goal_reached(job: Manifest, goals: Sequence[str]) -> str:
    """How the job reached a goal, or empty. A finished job has also reached the phases it passed through."""
    phase = phase_of(job)
    if phase in goals:
        return f"is {phase}"
    passed = {str(condition.get("status")) for condition in items(job, "status", "conditions")}
    if phase in ENDS and (
        before := next((goal for goal in goals if goal in passed and goal not in ENDS), "")
    ):
        return f"was {before} and is {phase}"
    return ""


def goal_unreachable(job: Manifest, goals: Sequence[str]) -> str:
    """Why the job cannot reach any goal any more; empty while it can."""
    phase = phase_of(job)
    if phase not in ENDS or DELETED in goals:
        return ""
    said = message_of(job)
    hint = "; `vcctl job resume` would start it again" if phase == "Aborted" else ""
    return f"ended {phase}, not {' or '.join(goals)}" + (f": {said}" if said else "") + hint
