"""Watches the running containers of an engine: waits for their exit, follows and rotates their logs."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.base.workqueue import Backoff
from volcano.nodes.runtimes.engine import commands
from volcano.nodes.runtimes.engine.cli import EngineCLI
from volcano.nodes.runtimes.engine.commands import EngineProfile
from volcano.nodes.runtimes.engine.container_inspect import InspectedContainer, parse_inspect, unknown_exit
from volcano.nodes.runtimes.engine.output import LogFollower, rotate
from volcano.nodes.runtimes.engine.usage import oom_file, oom_killed
from volcano.nodes.shim.specs import ContainerState, Failure

ROTATION_SECONDS = 10.0
DRAIN_SECONDS = 5.0
_INSPECT_BACKOFF = Backoff(first=1.0, longest=30.0)
_OUTPUT_TIMEOUT = 30.0
_log = Log("nodes.engine")


class ContainerWatcher:
    """Running containers; `on_exit` receives the last state of each, once."""

    def __init__(
        self,
        engine: EngineCLI,
        profile: EngineProfile,
        clock: Clock,
        on_exit: Callable[[ContainerState], None],
        *,
        log_size: int,
        log_files: int,
    ) -> None:
        self._engine = engine
        self._profile = profile
        self._clock = clock
        self._on_exit = on_exit
        self._log_size = log_size
        self._log_files = log_files
        self._containers: dict[tuple[str, str], InspectedContainer] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    def find(self, pod: str, name: str) -> InspectedContainer | None:
        return self._containers.get((pod, name))

    def __iter__(self) -> Iterator[InspectedContainer]:
        return iter(list(self._containers.values()))

    def watch(self, container: InspectedContainer) -> None:
        key = (container.pod, container.name)
        self._containers[key] = container
        self._tasks[key] = asyncio.create_task(self._watch(container), name=f"container {key}")

    async def write_remaining_output(self, container: InspectedContainer) -> None:
        """Writes the remaining output of an exited container to its log."""
        if not self._profile.writes_logs and container.labels.get(commands.LOG):
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_OUTPUT_TIMEOUT):
                    await self._follower(container).run(follow=False)

    async def forget(self, pod: str) -> None:
        """Stops watching the containers of a pod."""
        await self._cancel([key for key in self._tasks if key[0] == pod])

    async def close(self) -> None:
        await self._cancel(list(self._tasks))

    async def rotate_logs(self) -> None:
        """Rotates logs periodically, until cancelled."""
        while True:
            await self._clock.sleep(ROTATION_SECONDS)
            if self._profile.writes_logs:
                await asyncio.to_thread(self._rotate, list(self._containers.values()))

    def _rotate(self, containers: list[InspectedContainer]) -> None:
        for container in containers:
            path, monitor = Path(container.labels.get(commands.LOG, "")), Path(container.directory, "ctl")
            try:
                rotate(path, monitor, self._log_size, self._log_files)
            except OSError as error:
                _log.warning("log not rotated", path=path, error=error)

    async def _cancel(self, keys: list[tuple[str, str]]) -> None:
        tasks = [self._tasks.pop(key) for key in keys]
        for key in keys:
            self._containers.pop(key, None)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, container: InspectedContainer) -> None:
        output = asyncio.create_task(self._follow_output(container))
        try:
            out_of_memory = await self._wait_until_exited(container)
            # The rest of its output; processes that inherited its streams must not delay the exit.
            await asyncio.wait([output], timeout=DRAIN_SECONDS)
        finally:
            output.cancel()
            await asyncio.gather(output, return_exceptions=True)
        await self.write_remaining_output(container)
        state = await self._last_state(container)
        key = (container.pod, container.name)
        self._containers.pop(key, None)
        self._tasks.pop(key, None)
        # podman does not always report it; a container that exited with 0 was not killed.
        self._on_exit(replace(state, reason="OOMKilled") if out_of_memory and state.exit_code else state)

    async def _follow_output(self, container: InspectedContainer) -> None:
        """Follows the output, where the engine does not write the log itself."""
        while not self._profile.writes_logs and container.labels.get(commands.LOG):
            try:
                await self._follower(container).run(follow=True)
            except OSError as error:
                _log.warning("output not followed", container=container.identifier, error=error)
            if not is_host_process(container) and not (await self._running(container)):
                return
            await self._clock.sleep(1.0)

    def _follower(self, container: InspectedContainer) -> LogFollower:
        path = container.labels[commands.LOG]
        return LogFollower(self._engine, container.identifier, path, self._log_size, self._log_files)

    async def _wait_until_exited(self, container: InspectedContainer) -> bool:
        """Returns when the first process has exited; True when a process was killed for lack of memory.

        The kernel reports the exit where the process runs on this host. Its cgroup exists a little longer.
        """
        out_of_memory = False
        if is_host_process(container):
            counter = oom_file(container.pid)
            await _wait_for_exit(container.pid)
            out_of_memory = oom_killed(counter)
            await self._engine.call("wait", container.identifier)
        while await self._running(container):
            await self._wait_with_engine(container.identifier)
        return out_of_memory

    async def _wait_with_engine(self, identifier: str) -> None:
        """Waits through the engine, for one that runs elsewhere, such as in a virtual machine."""
        process = await asyncio.create_subprocess_exec(
            self._engine.program,
            "wait",
            identifier,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            if await process.wait() != 0:
                await self._clock.sleep(1.0)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _running(self, container: InspectedContainer) -> bool:
        found = await self._inspect(container)
        return found is not None and found.running

    async def _last_state(self, container: InspectedContainer) -> ContainerState:
        found = await self._inspect(container)
        if found is None or found.running:
            now = self._clock.now().wall
            return unknown_exit(container.pod, container.name, container.attempt, container.started, now)
        return found.state()

    async def _inspect(self, container: InspectedContainer) -> InspectedContainer | None:
        """Inspects the container; retried while the engine is not reachable."""
        failures = 0
        while True:
            try:
                found = await self._engine.inspect(container.identifier)
                return parse_inspect(found[0]) if found else None
            except Failure as failure:
                _log.warning("engine not reachable", engine=self._engine.name, error=failure)
            await self._clock.sleep(_INSPECT_BACKOFF.delay(failures))
            failures += 1


def is_host_process(container: InspectedContainer) -> bool:
    """Whether its process runs on this host, not in an engine's virtual machine under the same pid."""
    if not container.pid:
        return False
    try:
        return container.identifier in Path(f"/proc/{container.pid}/cgroup").read_text()
    except OSError:
        return False


async def _wait_for_exit(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:  # exited already, or a kernel without pidfds
        return
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(descriptor, ended.cancel)
        await asyncio.wait([ended])
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
