"""Watch of one job, shared by `wait`, `logs -f` and `submit --follow`."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from volcano.apiserver.endpoints.tables.cells import at, items, number
from volcano.cli.objects import find
from volcano.cli.session import Session
from volcano.cli.waiting import WAITING, why_waiting
from volcano.kube.api.errors import ApiError, Gone, Unavailable
from volcano.kube.api.kinds import JOB, POD_GROUP
from volcano.kube.api.manifest import Key, Manifest, uid_of
from volcano.kube.client.protocol import EventType, Query

PHASES = (
    "Pending", "Running", "Restarting", "Completing", "Completed", "Aborting", "Aborted", "Terminating", "Terminated",
    "Failed",
)  # fmt: skip
ENDS = ("Completed", "Failed", "Terminated", "Aborted")
PAUSE = 1.0
TIMEOUT = 30.0  # seconds without a server before giving up


async def states(session: Session, key: Key) -> AsyncGenerator[Manifest | None, None]:
    """Yields the job now and after every change; None, as the last item, when it is deleted. Raises Missing
    without a job."""
    job = await find(session, JOB, key)
    uid, version = uid_of(job), job["metadata"]["resourceVersion"]
    yield job
    away_since: float | None = None
    while True:
        query = Query(key.namespace, fields=f"metadata.name={key.name}", resource_version=version)
        try:
            async for event in session.client.watch(JOB, query):
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
            now = session.clock.now().monotonic
            away_since = away_since or now
            if now - away_since > TIMEOUT:
                raise
        await session.clock.sleep(PAUSE)
        try:
            found = (await session.client.list(JOB, Query(key.namespace, fields=query.fields))).items
        except Unavailable:
            continue
        if not found or uid_of(found[0]) != uid:
            yield None
            return
        version = found[0]["metadata"]["resourceVersion"]
        yield found[0]


def phase_of(job: Manifest) -> str:
    """Phase of a job; Pending if it has no status yet."""
    return str(at(job, "status", "state", "phase", default="") or "Pending")


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


async def group_of(session: Session, job: Manifest) -> Manifest | None:
    """PodGroup of a job: named after job and uid, or after the job alone."""
    namespace, name = job["metadata"].get("namespace", ""), job["metadata"]["name"]
    for candidate in (f"{name}-{uid_of(job)}", name):
        try:
            return await session.client.get(POD_GROUP, Key(namespace, candidate))
        except ApiError:
            continue
    return None


async def why(session: Session, job: Manifest) -> str:
    """Reason for which a job waits; empty if it does not wait or no reason is known."""
    if phase_of(job) not in WAITING:
        return ""
    group = await group_of(session, job)
    return why_waiting(group) if group is not None else ""


class Progress:
    """Progress line on stderr: rewritten on a terminal, otherwise printed when it changes."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._stream = session.stderr
        self._live = session.stderr.isatty()
        self._began = session.clock.now().monotonic
        self._said = ""

    @property
    def elapsed(self) -> float:
        return self._session.clock.now().monotonic - self._began

    def say(self, text: str) -> None:
        if not self._live:
            if text != self._said:
                self._stream.write(text + "\n")
                self._stream.flush()
        else:
            room = max(self._session_width() - 10, 20)
            self._stream.write(f"\r\x1b[K{text[:room]} ({self.elapsed:.0f}s)")
            self._stream.flush()
        self._said = text

    def tick(self) -> None:
        """Redraws the elapsed time."""
        if self._live and self._said:
            self.say(self._said)

    def clear(self) -> None:
        """Clears the line."""
        if self._live and self._said:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _session_width(self) -> int:
        import shutil

        return shutil.get_terminal_size().columns


async def ticking(progress: Progress, session: Session) -> None:
    """Redraws the line every second until cancelled."""
    while True:
        await session.clock.sleep(1.0)
        progress.tick()


async def ended(task: "asyncio.Task[Any]") -> None:
    """Cancels a task and waits for its end."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
