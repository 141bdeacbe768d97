"""Follows the logs of a job's containers from their start to the end of the job."""

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any

from volcano.apiserver.endpoints.tables.cells import at
from volcano.base.workqueue import Backoff
from volcano.cli.captured_log import captured_log
from volcano.cli.errors import CommandError
from volcano.cli.job.following import ENDS, ended, phase_of, states, why
from volcano.cli.job.log_lines import Seen, parse_line
from volcano.cli.job.log_sources import Printer, Source, Wanted, has_started, sources, target_of
from volcano.cli.session import Session
from volcano.kube.api.errors import (
    ApiError,
    BadRequest,
    InternalError,
    NotFound,
    TooManyRequests,
    Unavailable,
)
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import Key, Manifest, key_of, uid_of
from volcano.kube.api.names import JOB_NAME
from volcano.kube.client.protocol import Watch
from volcano.kube.informers.reflector import Reflector, each_event

RECONNECT = Backoff(first=0.5, longest=10.0)
DRAIN = 10.0  # seconds to read the remaining log lines after the job has ended


async def follow(session: Session, job: Manifest, wanted: Wanted) -> str:
    """Prints lines as they are written until the job ends; returns its final phase."""
    with captured_log():  # interrupted connections are retried; their messages are noise
        return await Follower(session, job, wanted).run()


class Follower:
    """Follows every requested container, including those of later pods and restarts."""

    def __init__(self, session: Session, job: Manifest, wanted: Wanted) -> None:
        self._session = session
        self._job = job
        self._wanted = wanted
        self._printer = Printer(session, job, wanted)
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._pods: dict[str, Manifest] = {}  # by uid
        self._changes: dict[str, asyncio.Event] = {}
        self._over = asyncio.Event()
        self._failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def run(self) -> str:
        key = key_of(self._job)
        reflector = Reflector(
            self._session.client,
            Watch(POD, key.namespace, f"{JOB_NAME}={key.name}"),
            each_event(lambda event: self._on_pod(event.object, gone=event.type == "DELETED")),
            self._session.clock,
        )
        reflecting = asyncio.create_task(reflector.run())
        ending = asyncio.create_task(self._until_ended(key))
        try:
            await asyncio.wait({ending, self._failed}, return_when=asyncio.FIRST_COMPLETED)
            if self._failed.done():
                return self._failed.result()
            await reflector.synced.wait()
            self._over.set()
            for change in self._changes.values():
                change.set()
            if self._tasks:
                await asyncio.wait(self._tasks.values(), timeout=DRAIN)
            return await ending
        finally:
            for task in (reflecting, ending, *self._tasks.values()):
                await ended(task)
            self._printer.flush()

    async def _until_ended(self, key: Key) -> str:
        said = ""
        async with aclosing(states(self._session, key)) as seen:
            async for job in seen:
                if job is None:
                    self._session.warn(f"job {key} was deleted")
                    return "Deleted"
                if phase_of(job) in ENDS:
                    return phase_of(job)
                reason = await why(self._session, job) if not self._pods else ""
                if reason and reason != said:
                    said = reason
                    self._session.warn(f"job {key} is {phase_of(job)}: {reason}")
        raise CommandError(f"job {key} is no longer watched")

    def _on_pod(self, pod: Manifest, *, gone: bool) -> None:
        if not self._wanted.takes(pod):
            return
        uid = uid_of(pod)
        self._pods[uid] = pod
        self._changes.setdefault(uid, asyncio.Event()).set()
        if gone:
            self._pods[uid] = {**pod, "status": {**(pod.get("status") or {}), "phase": "Failed"}}
        for source in sources(pod, self._job, self._wanted):
            if (uid, source.container) not in self._tasks and not gone:
                work = self._guarded(self._follow(uid, source))
                self._tasks[uid, source.container] = asyncio.create_task(work)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Ends all streams on an error that waiting cannot fix."""
        try:
            await work
        except ApiError as error:
            if not self._failed.done():
                self._failed.set_exception(error)

    async def _follow(self, uid: str, source: Source) -> None:
        """Follows one container from its start to the end of its pod, through restarts and broken
        connections."""
        seen, attempts = Seen(), 0
        change = self._changes[uid]
        while True:
            change.clear()
            finished = self._over.is_set() or at(self._pods[uid], "status", "phase") in (
                "Succeeded",
                "Failed",
            )
            if has_started(self._pods[uid], source.container) and await self._stream(source, seen, finished):
                attempts = 0
            if finished:
                return
            try:
                await asyncio.wait_for(change.wait(), RECONNECT.delay(attempts))
            except TimeoutError:
                attempts += 1

    async def _stream(self, source: Source, seen: Seen, finished: bool) -> bool:
        """Prints new lines; returns whether there were any."""
        seen.reopened()
        printed = False
        asked = target_of(source, self._wanted, follow=not finished, since=seen.since)
        try:
            async with aclosing(self._session.client.lines(asked)) as blocks:
                async for block in blocks:
                    for raw in block:
                        line = parse_line(bytes(raw))
                        if seen.is_new(line):
                            self._printer.line(source, line)
                            printed = True
                    self._printer.flush()
        except (Unavailable, TooManyRequests, InternalError, NotFound):
            pass  # the connection broke or the pod is gone: the pod's state decides what follows
        except BadRequest as error:
            if "waiting to start" not in error.message:
                raise
        return printed
