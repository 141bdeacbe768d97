"""Serves the logs of pods on this host: selects the attempt of a container, and its errors if it has no log."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from volcano.base.clock import Clock, micro_timestamp
from volcano.kube.api.errors import BadRequest
from volcano.kube.api.manifest import Key, Manifest, key_of, uid_of
from volcano.nodes.kubelet.logs.files import LogFilter, attempts
from volcano.nodes.kubelet.logs.follow import LogFile, follow

STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
LARGE_TAIL = 2000  # longer tails are searched in a thread, to keep the event loop free
WAITING = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


class LogRequest(Protocol):
    """Options of a log request."""

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
    """Serves `pods/log` from the files `pods`/<uid>/containers/<name>/<attempt>.log.

    `find` returns the current pod, None if deleted: a log is followed until its container has ended.
    """

    pods: Path
    find: Callable[[Key], Manifest | None]
    clock: Clock

    async def open_log(self, pod: Manifest, options: LogRequest) -> AsyncIterator[bytes]:
        """The log as it grows; raises a BadRequest with the kubelet's message when there is none."""
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
    """The attempt whose log is requested: the newest, or the last one that ended before it.

    An attempt that wrote nothing has no file; its log is empty. While a container waits for its restart, the newest
    attempt is the one that has ended.
    """
    name = pod["metadata"]["name"]
    status = _status(pod, container)
    state = (status or {}).get("state") or {}
    started = _started(status or {})
    newest = max((*logged, started))
    if previous:
        last = newest if "waiting" in state else newest - 1
        if last < 0:
            raise BadRequest(f'previous terminated container "{container}" in pod "{name}" not found')
        return last
    if newest >= 0:
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


def _started(status: Mapping[str, Any]) -> int:
    """The newest attempt that was started, according to the status; -1 if none was.

    A container that could never be created is terminated without a container ID.
    """
    state = status.get("state") or {}
    shown = state if "waiting" not in state else status.get("lastState") or {}
    ended = shown.get("terminated")
    created = "running" in shown or (ended is not None and bool(ended.get("containerID")))
    return int(status.get("restartCount") or 0) if created else -1


def is_over(pod: Manifest, container: str, attempt: int) -> bool:
    """Whether an attempt of a container has ended, according to its pod's status."""
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
