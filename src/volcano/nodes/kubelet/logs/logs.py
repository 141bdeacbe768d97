"""Logs of pods that really run: which start of which container is meant, and what to say when it has none."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from volcano.clock import Clock, micro_timestamp
from volcano.kube.errors import BadRequest
from volcano.kube.manifest import Key, Manifest, key_of, uid_of
from volcano.nodes.kubelet.logs.files import LogFilter, attempts
from volcano.nodes.kubelet.logs.follow import LogFile, follow

STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
LARGE_TAIL = 2000  # looked for from the end in a thread, so that the others need not wait
WAITING = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


class LogRequest(Protocol):
    """Which part of which container's log is wanted."""

    @property
    def container(self) -> str: ...
    @property
    def follow(self) -> bool: ...
    @property
    def previous(self) -> bool: ...
    @property
    def tail_lines(self) -> int | None: ...
    @property
    def since(self) -> float | None: ...
    @property
    def timestamps(self) -> bool: ...
    @property
    def stream(self) -> str: ...


@dataclass(frozen=True, slots=True)
class PodLogs:
    """Answers `pods/log` from the files below `pods`/<uid>/containers/<name>/<attempt>.log.

    `find` gives a pod as it is now, None when it is gone: a log is followed until its container is over.
    """

    pods: Path
    find: Callable[[Key], Manifest | None]
    clock: Clock

    async def open_log(self, pod: Manifest, options: LogRequest) -> AsyncIterator[bytes]:
        """The log as it comes; raises a BadRequest, in a kubelet's words, when there is none."""
        directory = self.pods / uid_of(pod) / "containers" / options.container
        attempt = select_attempt(pod, options.container, attempts(directory), previous=options.previous)
        since = "" if options.since is None else micro_timestamp(options.since).removesuffix("Z")
        wanted = LogFilter(options.timestamps, since.encode(), options.stream.encode())
        log = LogFile(directory / f"{attempt}.log", wanted)
        if (options.tail_lines or 0) > LARGE_TAIL:
            await asyncio.to_thread(log.begin, options.tail_lines, options.since)
        else:
            log.begin(options.tail_lines, options.since)

        def over() -> bool:
            present = self.find(key_of(pod))
            if present is None or uid_of(present) != uid_of(pod):
                return True
            return is_over(present, options.container, attempt) or attempts(directory)[-1:] > [attempt]

        return follow(log, over=over if options.follow else None, clock=self.clock)


def select_attempt(pod: Manifest, container: str, logged: list[int], *, previous: bool) -> int:
    """The start whose log is wanted: the newest, or the one that ended before it.

    While a container waits to be started again, the newest is the one that has ended.
    """
    name = pod["metadata"]["name"]
    status = _status(pod, container)
    state = (status or {}).get("state") or {}
    begun = int((status or {}).get("restartCount") or 0) if {"running", "terminated"} & state.keys() else -1
    newest = max((*logged, begun))  # one that has said nothing yet has no file
    if previous:
        ended = [attempt for attempt in logged if "waiting" in state or attempt < newest]
        if not ended:
            raise BadRequest(f'previous terminated container "{container}" in pod "{name}" not found')
        return ended[-1]
    if logged or "running" in state:
        return newest
    if status is None:
        raise BadRequest(f'container "{container}" in pod "{name}" is not available')
    if "terminated" in state:
        raise BadRequest(f'container "{container}" in pod "{name}" is terminated')
    if "waiting" in state:
        reason = str(state["waiting"].get("reason", ""))
        why = WAITING.get(reason, reason)
        raise BadRequest(f'container "{container}" in pod "{name}" is waiting to start: {why}')
    raise BadRequest(f'container "{container}" in pod "{name}" is waiting to start - no logs yet')


def is_over(pod: Manifest, container: str, attempt: int) -> bool:
    """Whether a start of a container has ended, as far as its pod tells."""
    status = _status(pod, container)
    if status is None:
        return False
    restarts = int(status.get("restartCount") or 0)
    running = "running" in (status.get("state") or {})
    has_begun = running or any(
        (status.get(field) or {}).get("terminated") for field in ("state", "lastState")
    )
    return has_begun and (restarts > attempt or (restarts == attempt and not running))


def _status(pod: Manifest, container: str) -> dict[str, Any] | None:
    status = pod.get("status") or {}
    found = (s for field in STATUSES for s in status.get(field) or () if s.get("name") == container)
    return next(found, None)
