"""Logs of pods: in-memory logs of components, generated lines of simulated pods, files of real ones."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

from volcano.apiserver.interfaces import LogOptions, LogSource
from volcano.base.clock import Clock, micro_timestamp, parse_timestamp
from volcano.kube.api.manifest import Key, Manifest, key_of, labels_of, uid_of
from volcano.kube.api.names import SYSTEM_NAMESPACE

COMPONENT: ContextVar[str] = ContextVar("volcano_component", default="volcano")
KEPT_LINES = 10_000
SIMULATED_LINES = 2  # lines of a simulated container: started and exited
POLL_INTERVAL = 0.25  # seconds


@contextmanager
def component(name: str) -> Iterator[None]:
    """Assigns log lines written inside the block, also in tasks and threads started there, to a component."""
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
        self._watchers: set[Callable[[], None]] = set()

    def emit(self, record: logging.LogRecord) -> None:
        ring = self._rings.setdefault(COMPONENT.get(), _Ring())
        ring.lines.append(Line(record.created, self.format(record)))
        ring.written += 1
        for wake in list(self._watchers):
            wake()

    def lines(self, name: str) -> list[Line]:
        """The kept lines of a component, oldest first."""
        ring = self._rings.get(name)
        return list(ring.lines) if ring else []

    async def follow(self, name: str, since_line: int) -> AsyncIterator[list[Line]]:
        """Batches of lines after the first `since_line` ones of the component, as they are written."""
        loop, wake = asyncio.get_running_loop(), asyncio.Event()

        def notify() -> None:
            loop.call_soon_threadsafe(wake.set)

        self._watchers.add(notify)
        try:
            seen = since_line
            while True:
                wake.clear()
                ring = self._rings.setdefault(name, _Ring())
                unread = min(ring.written - seen, len(ring.lines))
                if unread > 0:
                    batch = list(ring.lines)[-unread:]
                    seen = ring.written
                    yield batch
                await wake.wait()
        finally:
            self._watchers.discard(notify)

    def written(self, name: str) -> int:
        """The number of lines that a component has written."""
        ring = self._rings.get(name)
        return ring.written if ring else 0


def no_pod(pod: Manifest) -> bool:
    """Without local nodes, no pod really runs."""
    return False


class KubeletLogs(LogSource, Protocol):
    """Logs of pods whose node has a kubelet of its own."""

    def serves(self, pod: Manifest) -> bool: ...


class LocalLogSource:
    """Serves `pods/log`: component logs for pods of components, generated lines for pods on simulated nodes.

    Logs of pods on local nodes (`is_real`) are read from `pods`, those on nodes of other kubelets from `kubelets`.
    """

    def __init__(
        self,
        logs: ComponentLogs,
        components: frozenset[str],
        find: Callable[[Key], Manifest | None],
        clock: Clock,
        *,
        pods: LogSource | None = None,
        is_real: Callable[[Manifest], bool] = no_pod,
        kubelets: KubeletLogs | None = None,
    ) -> None:
        self._pods = pods
        self._kubelets = kubelets
        self._is_real = is_real
        self._logs = logs
        self._components = components
        self._find = find
        self._clock = clock

    async def open_log(self, pod: Manifest, options: LogOptions) -> AsyncIterator[bytes]:
        name = labels_of(pod).get("app", "")
        if name in self._components and pod["metadata"].get("namespace") == SYSTEM_NAMESPACE:
            return self._component_log(name, options)
        if self._pods is not None and self._is_real(pod):
            return await self._pods.open_log(pod, options)
        if self._kubelets is not None and self._kubelets.serves(pod):
            return await self._kubelets.open_log(pod, options)
        return self._simulated_log(pod, options)

    async def _component_log(self, name: str, options: LogOptions) -> AsyncIterator[bytes]:
        written = self._logs.written(name)
        yield _render(self._logs.lines(name), options)
        if options.follow:
            async for batch in self._logs.follow(name, written):
                yield _render(batch, options)

    async def _simulated_log(self, pod: Manifest, options: LogOptions) -> AsyncIterator[bytes]:
        """The log of a simulated pod: when its containers started and exited."""
        lines = _simulated_lines(pod, options.container)
        yield _render(lines, options)
        present: Manifest | None = pod
        while options.follow and present is not None and len(lines) < SIMULATED_LINES:
            await self._clock.sleep(POLL_INTERVAL)
            present = self._find(key_of(pod))
            if present is None or uid_of(present) != uid_of(pod):
                return
            sent, lines = len(lines), _simulated_lines(present, options.container)
            yield _render(lines[sent:], options)


def _simulated_lines(pod: Manifest, container: str) -> list[Line]:
    """One line for the start of a container, one for its end."""
    lines = []
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        state = status.get("state") or {}
        here = state.get("running") or state.get("terminated")
        if status["name"] != container or here is None:
            continue
        text = f"simulated container {container} of image {status.get('image', '')} started"
        lines.append(Line(parse_timestamp(here["startedAt"]), text))
        if ended := state.get("terminated"):
            text = f"simulated container {container} exited with {ended['exitCode']}"
            lines.append(Line(parse_timestamp(ended["finishedAt"]), text))
    return lines


def _render(lines: list[Line], options: LogOptions) -> bytes:
    if options.since is not None:
        lines = [line for line in lines if line.wall >= options.since]
    if options.tail_lines is not None:
        lines = lines[len(lines) - min(options.tail_lines, len(lines)) :]
    if options.timestamps:
        return "".join(f"{micro_timestamp(line.wall)} {line.text}\n" for line in lines).encode()
    return "".join(f"{line.text}\n" for line in lines).encode()
