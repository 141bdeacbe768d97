"""Connects one client with one process, for exec and attach over any protocol."""

import asyncio
import os
from collections.abc import Coroutine
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

import orjson

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.kube.api.manifest import Manifest
from volcano.nodes.cri import Process
from volcano.nodes.kubelet.streams.descriptors import read_chunk, write_all
from volcano.nodes.kubelet.streams.receive_buffer import ReceiveBuffer

log = Log("streams")

PING_INTERVAL = 15.0  # seconds; a ping detects a client that has disconnected silently
# A background child may keep the output open: after the process has ended, the session ends when no output
# has come for so many seconds.
OUTPUT_IDLE_TIMEOUT = 1.0
END_OF_INPUT = b"\x04"  # end of input on a terminal


class Channel(IntEnum):
    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    RESIZE = 4


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Streams of a process that the client requested."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


class StreamClient(Protocol):
    """A client of exec or attach, over any protocol."""

    stdin: ReceiveBuffer
    resizes: ReceiveBuffer

    async def run(self) -> None:
        """Receives until the client disconnects."""
        ...

    async def send(self, channel: Channel, data: bytes) -> None: ...

    async def ping(self) -> None:
        """Raises ConnectionError when the client has disconnected."""
        ...

    async def finish(self, status: Manifest) -> None:
        """Sends the exit status and closes the connection."""
        ...


SUCCESS: Manifest = {"metadata": {}, "status": "Success"}


def exit_status(code: int) -> Manifest:
    """The exit status of a process in the format of exec clients."""
    if code == 0:
        return SUCCESS
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: command terminated with exit code {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def internal_error(message: str) -> Manifest:
    """The status of a process that could not be started or connected."""
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {message}",
        "reason": "InternalError",
        "details": {"causes": [{"message": message}]},
        "code": 500,
    }


async def run_session(
    process: Process, client: StreamClient, options: StreamOptions, clock: Clock
) -> int | None:
    """Runs a session; returns the exit code, or None when the client disconnected first. Always closes the process."""
    session = _Session(process, client, options, clock)
    try:
        return await session.run()
    finally:
        await session.stop()
        process.close()


class _Session:
    def __init__(self, process: Process, client: StreamClient, options: StreamOptions, clock: Clock) -> None:
        self._process = process
        self._client = client
        self._stream_options = options
        self._clock = clock
        self._last_output = clock.now().monotonic
        self._tasks: list[asyncio.Task[Any]] = []

    async def run(self) -> int | None:
        process, options = self._process, self._stream_options
        for descriptor in {process.stdin, process.stdout, process.stderr} - {None}:
            os.set_blocking(descriptor, False)  # type: ignore[arg-type]
        disconnects = [self._spawn(self._client.run()), self._spawn(self._ping())]
        self._spawn(self._resize())  # before the input: an initial size is set first
        self._spawn(self._feed())
        outputs = [
            self._spawn(self._pump(Channel.STDOUT, process.stdout, wanted=options.stdout)),
            self._spawn(self._pump(Channel.STDERR, process.stderr, wanted=options.stderr)),
        ]
        end = self._spawn(self._end(outputs))
        await asyncio.wait([*disconnects, end], return_when=asyncio.FIRST_COMPLETED)
        return end.result() if end.done() and end.exception() is None else None

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.append(task)
        return task

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for outcome in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(outcome, Exception) and not isinstance(outcome, ConnectionError):
                log.warning("stream task failed", reason=str(outcome))

    async def _end(self, outputs: "list[asyncio.Task[Any]]") -> int:
        """The exit code, after all output has been sent."""
        code = await self._process.wait()
        self._last_output = self._clock.now().monotonic
        while any(not output.done() for output in outputs):
            await asyncio.wait(outputs, timeout=OUTPUT_IDLE_TIMEOUT / 4)
            if self._clock.now().monotonic - self._last_output > OUTPUT_IDLE_TIMEOUT:
                break
        for output in outputs:
            if output.done() and (error := output.exception()) is not None:
                raise error
        return code

    async def _pump(self, channel: Channel, descriptor: int | None, *, wanted: bool) -> None:
        while descriptor is not None and (data := await read_chunk(descriptor)):
            if wanted:
                await self._client.send(channel, data)
            self._last_output = self._clock.now().monotonic

    async def _feed(self) -> None:
        """Copies the client's input to the process."""
        process, buffer = self._process, self._client.stdin
        if process.stdin is None or not self._stream_options.stdin:
            buffer.discard()
            return
        try:
            while data := await buffer.read():
                await write_all(process.stdin, data)
            if process.stdin == process.stdout:
                await write_all(process.stdin, END_OF_INPUT)
        except BrokenPipeError:
            buffer.discard()  # the process has closed its input
        if process.stdin != process.stdout:
            os.close(process.stdin)
            process.stdin = None

    async def _resize(self) -> None:
        decoded = b""
        while data := await self._client.resizes.read():
            decoded += data
            *sizes, decoded = decoded.replace(b"}", b"}\n").split(b"\n")
            for size in filter(bytes.strip, sizes):
                try:
                    wanted = orjson.loads(size)
                    rows, columns = int(wanted["Height"]), int(wanted["Width"])
                except (ValueError, KeyError, TypeError):
                    continue  # an invalid size must not end the session
                if self._stream_options.tty and 0 < rows < 1 << 16 and 0 < columns < 1 << 16:
                    self._process.resize(rows, columns)

    async def _ping(self) -> None:
        while True:
            await self._clock.sleep(PING_INTERVAL)
            await self._client.ping()
