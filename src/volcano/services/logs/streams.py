"""Logs of several containers at once: the last lines in the order of time, then new ones as they are written."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Protocol

from volcano.base.clock import Clock
from volcano.base.workqueue import Backoff, Waker
from volcano.kube.api.errors import (
    ApiError,
    BadRequest,
    InternalError,
    NotFound,
    TooManyRequests,
    Unavailable,
)
from volcano.kube.api.manifest import Key, Manifest, has_ended, uid_of
from volcano.services.logs.lines import Line, Seen, in_order, parse_line
from volcano.services.logs.sources import Source, Wanted, has_started, target_of

PARALLEL = 10  # logs that are read at a time before they are followed
RECONNECT = Backoff(first=0.5, longest=10.0)
OnLines = Callable[[Sequence[tuple[Source, Line]]], None]


class LogClient(Protocol):
    """The part of the client that streams logs."""

    def lines(self, target: str) -> AsyncGenerator[Sequence[bytes], None]: ...


class LogStreams:
    """Reads the logs of containers until `close`, after which no line is delivered. `pods` returns their current state,
    and `on_error` gets errors that waiting does not fix."""

    def __init__(
        self,
        client: LogClient,
        clock: Clock,
        wanted: Wanted,
        pods: Callable[[], Mapping[Key, Manifest]],
        on_lines: OnLines,
        on_error: Callable[[ApiError], None],
    ) -> None:
        self._client = client
        self._clock = clock
        self._wanted = wanted
        self._pods = pods
        self._receiver = on_lines
        self._on_error = on_error
        self._closed = False
        self._finishing = False
        self._seen: dict[Source, Seen] = {}
        self._tasks: dict[Source, asyncio.Task[None]] = {}
        self._wakers: dict[Source, Waker] = {}
        self._known: dict[Source, Manifest | None] = {}  # pods when they were last looked at

    async def read(self, sources: Sequence[Source]) -> None:
        """Reads what was written so far, of all containers that have started, in the order of time."""
        limit = asyncio.Semaphore(PARALLEL)

        async def one(source: Source) -> list[Line]:
            async with limit:
                return await self._read(source)

        logs = await asyncio.gather(*(one(source) for source in sources))
        self._on_lines(list(in_order(zip(sources, logs, strict=True))))

    def follow(self, sources: Sequence[Source]) -> None:
        """Follows these containers until their pods end; those that are followed already look at their pods again."""
        for source in sources:
            pod = self._pods().get(source.pod)
            if self._closed or (source in self._tasks and pod is self._known[source]):
                continue
            self._known[source] = pod
            if source in self._tasks:
                self._wakers[source].wake()
            else:
                waker = self._wakers[source] = Waker(self._clock)
                self._tasks[source] = asyncio.create_task(self._follow(source, waker))

    @property
    def is_following(self) -> bool:
        """Whether there was anything to follow so far."""
        return bool(self._tasks)

    async def finish(self, within: float) -> None:
        """Reads what is left of all logs that are followed, for at most so many seconds."""
        self._finishing = True
        for waker in self._wakers.values():
            waker.wake()
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=within)

    def _pod_of(self, source: Source) -> Manifest | None:
        """The pod of a source, unless another one has its name."""
        pod = self._pods().get(source.pod)
        return pod if pod is not None and uid_of(pod) == source.uid else None

    def _has_ended(self, source: Source) -> bool:
        pod = self._pod_of(source)
        return pod is None or has_ended(pod)

    def end(self) -> None:
        """Ends at once: nothing is delivered any more."""
        self._closed = True
        for task in self._tasks.values():
            task.cancel()
        for waker in self._wakers.values():
            waker.close()

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

    async def _follow(self, source: Source, waker: Waker) -> None:
        """Follows one container through restarts and broken connections, to the end of its pod."""
        attempts = 0
        while True:
            waker.clear()
            is_last = self._finishing or self._has_ended(source)
            received = await self._stream(source, follow=not is_last, on_lines=self._on_lines)
            if is_last or received is None or self._closed:  # a cancelled request may end as a broken one
                return waker.close()
            attempts = 0 if received else attempts + 1
            await waker.wait(self._clock.now().monotonic + RECONNECT.delay(attempts))

    async def _stream(self, source: Source, *, follow: bool, on_lines: OnLines) -> int | None:
        """Receives new lines; returns their number, None after an error that waiting does not fix."""
        pod = self._pod_of(source)
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
                self._on_error(error)
                return None
        except ApiError as error:
            self._on_error(error)
            return None
        return count
