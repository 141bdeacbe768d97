"""Prints the logs of the pods of a run, each line prefixed with the pod's name."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.text import Text

from volcano.base.clock import Clock
from volcano.kube.api.manifest import Key, Manifest, has_ended, key_of, uid_of
from volcano.nodes.kubelet.logs.files import LogFilter
from volcano.nodes.kubelet.logs.follow import LogFile, follow
from volcano.nodes.kubelet.logs.logs import is_over

CLOSE_TIMEOUT = 3.0  # seconds to wait for the last lines
COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red")


class LogTail:
    """Follows the log files of all added pods, across restarts of each container.

    `pods` is the directory of the pods' directories, which must not be removed with the pods: a pod may be
    deleted before its last lines are read. `find` returns the present state of a pod.
    """

    def __init__(
        self, pods: Path, find: Callable[[Key], Manifest | None], clock: Clock, console: Console
    ) -> None:
        self._pods = pods
        self._find = find
        self._clock = clock
        self._console = console
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._colours: dict[str, str] = {}

    def add_pod(self, pod: Manifest) -> None:
        """Follows the logs of a pod, unless it is followed already."""
        spec = pod["spec"]
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
            key = (uid_of(pod), container["name"])
            if key not in self._tasks:
                self._tasks[key] = asyncio.create_task(self._follow(pod, container["name"]))

    async def close(self) -> None:
        """Waits for the last lines, with a timeout."""
        tasks = list(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, pod: Manifest, container: str) -> None:
        directory = self._pods / uid_of(pod) / "containers" / container
        attempt = 0
        while True:
            await self._follow_start(pod, container, directory, attempt)
            present = self._present(pod)
            there_is_more = (directory / f"{attempt + 1}.log").exists()
            if not there_is_more and (present is None or has_ended(present)):
                return
            attempt += 1

    async def _follow_start(self, pod: Manifest, container: str, directory: Path, attempt: int) -> None:
        """Follows the log of one start of a container."""

        def over() -> bool:
            present = self._present(pod)
            if present is None or has_ended(present):
                return True
            return is_over(present, container, attempt) or (directory / f"{attempt + 1}.log").exists()

        log = LogFile(directory / f"{attempt}.log", LogFilter())
        log.begin(None, None)
        label = _label(pod, container)
        unfinished = b""
        async for chunk in follow(log, over=over, clock=self._clock):
            *lines, unfinished = (unfinished + chunk).split(b"\n")
            for line in lines:
                self._print(label, line)
        if unfinished:
            self._print(label, unfinished)

    def _present(self, pod: Manifest) -> Manifest | None:
        found = self._find(key_of(pod))
        return found if found is not None and uid_of(found) == uid_of(pod) else None

    def _print(self, label: str, line: bytes) -> None:
        colour = self._colours.setdefault(label, COLOURS[len(self._colours) % len(COLOURS)])
        text = Text(f"{label} | ", style=colour)
        text.append(line.decode("utf-8", "replace"), style="default")
        self._console.print(text, soft_wrap=True)


def _label(pod: Manifest, container: str) -> str:
    spec = pod["spec"]
    several = len(spec.get("containers") or ()) + len(spec.get("initContainers") or ()) > 1
    name = pod["metadata"]["name"]
    return f"{name}/{container}" if several else str(name)
