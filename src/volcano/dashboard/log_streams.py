"""Logs of several containers at once: the last lines in the order of time, then new ones as they are written."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Protocol

from volcano.apiserver.endpoints.tables.cells import at
from volcano.base.clock import Clock
from volcano.base.workqueue import Backoff
from volcano.cli.job.log_lines import Line, Seen, in_order, parse_line
from volcano.cli.job.log_sources import Source, Wanted, has_started, target_of
from volcano.kube.api.errors import (
    ApiError,
    BadRequest,
    InternalError,
    NotFound,
    TooManyRequests,
    Unavailable,
)
from volcano.kube.api.manifest import Key, Manifest

PARALLEL = 10  # logs that are read at a time before they are followed
RECONNECT = Backoff(first=0.5, longest=10.0)
ENDED = ("Succeeded", "Failed")
OnLines = Callable[[Sequence[tuple[Source, Line]]], None]


class LogClient(Protocol):
    """The part of the client that streams logs."""

    def lines(self, target: str) -> AsyncGenerator[Sequence[bytes], None]: ...


class LogStreams:
    """Reads the logs of containers until `close`, after which no line is delivered. `pods` is called for their current
    state."""

    def __init__(
        self,
        client: LogClient,
        clock: Clock,
        wanted: Wanted,
        pods: Callable[[], Mapping[Key, Manifest]],
        on_lines: OnLines,
        on_problem: Callable[[str], None],
    ) -> None:
        self._client = client
        self._clock = clock
        self._wanted = wanted
        self._pods = pods
        self._receiver = on_lines
        self._on_problem = on_problem
        self._closed = False
        self._failed: set[Source] = set()  # with an error that waiting does not fix
        self._seen: dict[Source, Seen] = {}
        self._tasks: dict[Source, asyncio.Task[None]] = {}

    async def read(self, sources: Sequence[Source]) -> None:
        """Reads what was written so far, of all containers that have started, in the order of time."""
        limit = asyncio.Semaphore(PARALLEL)

        async def one(source: Source) -> list[Line]:
            async with limit:
                return await self._read(source)

        logs = await asyncio.gather(*(one(source) for source in sources))
        by_title = {str(number): source for number, source in enumerate(sources)}
        streams = [(str(number), log) for number, log in enumerate(logs)]
        self._on_lines([(by_title[name], line) for name, line in in_order(streams)])

    def follow(self, sources: Sequence[Source]) -> None:
        """Follows these containers until their pods end; those that are followed already are left alone. The pod of a
        restarted job has the name of the one before it and is followed in its place."""
        for source in sources:
            if not self._closed and self._is_due(source):
                self._tasks[source] = asyncio.create_task(self._follow(source))

    def _is_due(self, source: Source) -> bool:
        task = self._tasks.get(source)
        if task is None:
            return True
        return task.done() and source not in self._failed and not self._has_ended(source)

    def _has_ended(self, source: Source) -> bool:
        pod = self._pods().get(source.pod)
        return pod is None or at(pod, "status", "phase") in ENDED

    def end(self) -> None:
        """Ends at once: nothing is delivered any more."""
        self._closed = True
        for task in self._tasks.values():
            task.cancel()

    async def close(self) -> None:
        """Ends and waits until all connections are closed."""
        self.end()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _on_lines(self, lines: Sequence[tuple[Source, Line]]) -> None:
        if not self._closed:
            self._receiver(lines)

    async def _read(self, source: Source) -> list[Line]:
        found: list[Line] = []
        await self._stream(
            source, follow=False, on_lines=lambda lines: found.extend(line for _, line in lines)
        )
        return found

    async def _follow(self, source: Source) -> None:
        attempts = 0
        while True:
            ended = self._has_ended(source)
            received = await self._stream(source, follow=not ended, on_lines=self._on_lines)
            if received is None:
                self._failed.add(source)
            if ended or received is None:
                return
            attempts = 0 if received else attempts + 1
            await self._clock.sleep(RECONNECT.delay(attempts))

    async def _stream(self, source: Source, *, follow: bool, on_lines: OnLines) -> int | None:
        """Receives new lines; returns their number, None after an error that waiting does not fix."""
        pod = self._pods().get(source.pod)
        if pod is None or not (self._wanted.previous or has_started(pod, source.container)):
            return 0
        seen, count = self._seen.setdefault(source, Seen()), 0
        seen.reopened()
        target = target_of(source, self._wanted, follow=follow, since=seen.since)
        try:
            async with aclosing(self._client.lines(target)) as blocks:
                async for block in blocks:
                    fresh = [line for raw in block if seen.is_new(line := parse_line(bytes(raw)))]
                    count += len(fresh)
                    on_lines([(source, line) for line in fresh])
        except (Unavailable, TooManyRequests, InternalError, NotFound):
            pass  # the connection broke or the pod is gone: the pod's state decides what follows
        except BadRequest as error:
            if "waiting to start" not in error.message:
                self._on_problem(error.message)
                return None
        except ApiError as error:
            self._on_problem(error.message)
            return None
        return count
