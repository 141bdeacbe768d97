"""Logs by component: each part of the cluster has its own, and its pod in volcano-system shows it."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from volcano.apiserver.logs import LogOptions
from volcano.clock import micro_timestamp
from volcano.kube.manifest import Manifest, labels_of

COMPONENT: ContextVar[str] = ContextVar("volcano_component", default="volcano")
KEPT_LINES = 10_000


@contextmanager
def component(name: str) -> Iterator[None]:
    """Log lines written inside, tasks and threads started there included, belong to this component."""
    token = COMPONENT.set(name)
    try:
        yield
    finally:
        COMPONENT.reset(token)


@dataclass(frozen=True, slots=True)
class Line:
    wall: float
    text: str


@dataclass(slots=True)
class _Ring:
    lines: deque[Line] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    written: int = 0


class ComponentLogs(logging.Handler):
    """Keeps the last lines of every component in memory, for `kubectl logs`."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname).1s %(name)s %(message)s"))
        self._rings: dict[str, _Ring] = {}
        self._followers: set[Callable[[], None]] = set()

    def emit(self, record: logging.LogRecord) -> None:
        ring = self._rings.setdefault(COMPONENT.get(), _Ring())
        ring.lines.append(Line(record.created, self.format(record)))
        ring.written += 1
        for wake in list(self._followers):
            wake()

    def lines(self, name: str) -> list[Line]:
        """The lines of a component that are still kept, oldest first."""
        ring = self._rings.get(name)
        return list(ring.lines) if ring else []

    async def follow(self, name: str, since_line: int) -> AsyncIterator[list[Line]]:
        """Batches of lines after the first `since_line` that the component ever wrote, as they come."""
        loop, wake = asyncio.get_running_loop(), asyncio.Event()

        def notify() -> None:
            loop.call_soon_threadsafe(wake.set)

        self._followers.add(notify)
        try:
            seen = since_line
            while True:
                wake.clear()
                ring = self._rings.setdefault(name, _Ring())
                fresh = min(ring.written - seen, len(ring.lines))
                if fresh > 0:
                    batch = list(ring.lines)[-fresh:]
                    seen = ring.written
                    yield batch
                await wake.wait()
        finally:
            self._followers.discard(notify)

    def written(self, name: str) -> int:
        """How many lines a component has written so far."""
        ring = self._rings.get(name)
        return ring.written if ring else 0


class LocalLogSource:
    """Answers `pods/log`: a component's pod has the component's log, a simulated pod says what it is."""

    def __init__(self, logs: ComponentLogs, components: frozenset[str]) -> None:
        self._logs = logs
        self._components = components

    async def open_log(self, pod: Manifest, options: LogOptions) -> AsyncIterator[bytes]:
        name = labels_of(pod).get("app", "")
        if name in self._components and pod["metadata"].get("namespace") == "volcano-system":
            return self._component_log(name, options)
        return _simulated_log(pod, options)

    async def _component_log(self, name: str, options: LogOptions) -> AsyncIterator[bytes]:
        written = self._logs.written(name)
        yield _render(self._logs.lines(name), options)
        if options.follow:
            async for batch in self._logs.follow(name, written):
                yield _render(batch, options)


async def _simulated_log(pod: Manifest, options: LogOptions) -> AsyncIterator[bytes]:
    """A simulated pod runs nothing: its log tells what it pretends to do."""
    lines = []
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if status["name"] != options.container:
            continue
        state = status.get("state") or {}
        if "running" in state or "terminated" in state:
            began = (state.get("running") or state["terminated"])["startedAt"]
            lines.append(
                f"{began} simulated container {status['name']} of image {status.get('image', '')} started"
            )
        if "terminated" in state:
            ended = state["terminated"]
            lines.append(
                f"{ended['finishedAt']} simulated container {status['name']} exited with {ended['exitCode']}"
            )
    if options.tail_lines is not None:
        lines = lines[len(lines) - min(options.tail_lines, len(lines)) :]
    yield "".join(f"{line}\n" for line in lines).encode()


def _render(lines: list[Line], options: LogOptions) -> bytes:
    if options.since is not None:
        lines = [line for line in lines if line.wall >= options.since]
    if options.tail_lines is not None:
        lines = lines[len(lines) - min(options.tail_lines, len(lines)) :]
    if options.timestamps:
        return "".join(f"{micro_timestamp(line.wall)} {line.text}\n" for line in lines).encode()
    return "".join(f"{line.text}\n" for line in lines).encode()
