"""What the pods of a run say, line by line as they say it, each with the pod's name before it."""

import asyncio
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from volcano.apiserver.logs import LogOptions, LogSource
from volcano.kube.errors import ApiError
from volcano.kube.manifest import Manifest, uid_of

PATIENCE = 3.0  # seconds for the last lines
COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red")
STATUSES = ("initContainerStatuses", "containerStatuses")


class Tail:
    """Follows the log of every container that has started, once per start."""

    def __init__(self, source: LogSource, console: Console) -> None:
        self._source = source
        self._console = console
        self._tasks: dict[tuple[str, str, int], asyncio.Task[None]] = {}
        self._colours: dict[str, str] = {}

    def see(self, pod: Manifest) -> None:
        """Looks at a pod: a container that has started since has its log followed."""
        for container, restarts in _started(pod):
            key = (uid_of(pod), container, restarts)
            if key not in self._tasks:
                self._tasks[key] = asyncio.create_task(self._follow(pod, container))

    async def end(self) -> None:
        """Waits for the last lines, but not for ever."""
        tasks = list(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=PATIENCE)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, pod: Manifest, container: str) -> None:
        name = pod["metadata"]["name"]
        several = len(pod["spec"].get("containers") or ()) + len(pod["spec"].get("initContainers") or ()) > 1
        label = f"{name}/{container}" if several else name
        colour = self._colours.setdefault(name, COLOURS[len(self._colours) % len(COLOURS)])
        unfinished = b""
        try:
            chunks = await self._source.open_log(pod, LogOptions(container, follow=True))
            async for chunk in chunks:
                *lines, unfinished = (unfinished + chunk).split(b"\n")
                for line in lines:
                    self._say(label, colour, line)
        except ApiError:
            return  # gone before it was asked
        if unfinished:
            self._say(label, colour, unfinished)

    def _say(self, label: str, colour: str, line: bytes) -> None:
        text = Text(f"{label} | ", style=colour)
        text.append(line.decode("utf-8", "replace"), style="default")
        self._console.print(text, soft_wrap=True)


def _started(pod: Manifest) -> Iterator[tuple[str, int]]:
    status = pod.get("status") or {}
    for name in STATUSES:
        for each in status.get(name) or ():
            state = each.get("state") or {}
            if "running" in state or "terminated" in state:
                yield each["name"], each.get("restartCount", 0)
