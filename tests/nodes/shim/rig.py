"""A process runtime for tests: pods and containers with irrelevant fields filled in."""

import asyncio
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from volcano.nodes.runtimes.process import ProcessRuntime
from volcano.nodes.shim import processes
from volcano.nodes.shim.isolation.plain import ROOT_VARIABLE
from volcano.nodes.shim.specs import ContainerSpec, ContainerState, Mode, SandboxSpec, SandboxState

TIMEOUT = 20.0


class Line(NamedTuple):
    stream: str
    tag: str
    text: str


class Rig:
    """One pod of a shim."""

    def __init__(
        self, directory: Path, *, mode: Mode = Mode.PLAIN, lifeline: bool = False, **options: Any
    ) -> None:
        self.directory = directory
        self.runtime = ProcessRuntime(directory, mode, lifeline=lifeline, **options)
        self.pod = uuid.uuid4().hex
        self.ends: list[ContainerState] = []
        self._changed = asyncio.Event()

    async def open(self) -> None:
        self.runtime.on_change(self._tell)
        await self.runtime.open()

    async def close(self, *, keep: bool = True) -> None:
        await self.runtime.remove_sandbox(self.pod)
        await self.runtime.close(keep=keep)

    async def sandbox(self, pod: str = "") -> SandboxState:
        uid = pod or self.pod
        directory = str(self.directory / "pods" / uid)
        return await self.runtime.create_sandbox(SandboxSpec(uid, "default", "p", "local-0", directory, "p"))

    def spec(self, *command: str, name: str = "main", attempt: int = 0, **rest: Any) -> ContainerSpec:
        log = self.log_path(name, attempt)
        return ContainerSpec(self.pod, name, attempt, "image", command, log_path=str(log), **rest)

    async def start(self, *command: str, **rest: Any) -> ContainerState:
        await self.sandbox()
        return await self.runtime.start(self.spec(*command, **rest))

    async def run(self, *command: str, **rest: Any) -> ContainerState:
        """Starts a container and waits for its end."""
        state = await self.start(*command, **rest)
        return await self.ended(state.name, state.attempt)

    async def shell(self, script: str, **rest: Any) -> ContainerState:
        return await self.run("sh", "-c", script, **rest)

    async def ended(self, name: str = "main", attempt: int = 0) -> ContainerState:
        async with asyncio.timeout(TIMEOUT):
            while True:
                for state in self.ends:
                    if (state.pod, state.name, state.attempt) == (self.pod, name, attempt):
                        return state
                self._changed.clear()
                await self._changed.wait()

    def log_path(self, name: str = "main", attempt: int = 0) -> Path:
        return self.directory / "pods" / self.pod / "containers" / name / f"{attempt}.log"

    def log(self, name: str = "main") -> list[Line]:
        entries = self.log_path(name).read_text().splitlines()
        return [Line(*entry.split(" ", 3)[1:]) for entry in entries]

    def output(self, name: str = "main") -> list[str]:
        return [line.text for line in self.log(name)]

    def processes(self) -> list[int]:
        """Every process of this pod."""
        return marked(self.directory / "pods" / self.pod)

    def _tell(self, state: ContainerState) -> None:
        self.ends.append(state)
        self._changed.set()


async def until(question: Callable[[], object], what: str = "it never came true") -> None:
    """Polls until a condition is true."""
    for _ in range(int(TIMEOUT / 0.01)):
        if question():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(what)


def marked(directory: Path) -> list[int]:
    """Processes that run with their container's root below a directory."""
    return [
        pid
        for pid in processes.every_pid()
        if processes.environment(pid).get(ROOT_VARIABLE, "").startswith(f"{directory}{os.sep}")
    ]


async def read_all(descriptor: int | None) -> bytes:
    assert descriptor is not None
    os.set_blocking(descriptor, True)

    def read() -> bytes:
        text = b""
        try:
            while piece := os.read(descriptor, 65536):
                text += piece
        except OSError:  # the other end of a terminal is closed
            pass
        return text

    return await asyncio.wait_for(asyncio.to_thread(read), TIMEOUT)


async def read_until(descriptor: int | None, wanted: bytes) -> bytes:
    assert descriptor is not None
    os.set_blocking(descriptor, False)
    text = b""
    for _ in range(int(TIMEOUT / 0.01)):
        try:
            text += os.read(descriptor, 65536)
        except OSError:
            await asyncio.sleep(0.01)
        if wanted in text:
            return text
    raise AssertionError(f"{wanted!r} never came, only {text!r}")
