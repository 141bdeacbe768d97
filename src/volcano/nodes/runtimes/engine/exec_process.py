"""Processes executed in a container and attached containers, through the engine's program."""

import asyncio
import contextlib
import fcntl
import os
import signal
import struct
import termios
from collections.abc import Iterable, Sequence

from volcano.nodes.runtimes.engine.commands import EXEC_ID_VARIABLE
from volcano.nodes.shim import processes
from volcano.nodes.shim.specs import Failure

_OUTPUT = ("stdout", "stderr")


class EngineProcess:
    """Implements `Process`. With an `exec_id`, the process in the container is killed on `close`."""

    def __init__(
        self, process: asyncio.subprocess.Process, ends: dict[str, int], terminal: int | None, exec_id: str
    ) -> None:
        self.stdin = terminal if terminal is not None else ends.get("stdin")
        self.stdout = terminal if terminal is not None else ends.get("stdout")
        self.stderr = ends.get("stderr")
        self._process = process
        self._terminal = terminal
        self._exec_id = exec_id
        self._closed = False

    async def wait(self) -> int:
        code = await self._process.wait()
        return 128 - code if code < 0 else code

    def resize(self, rows: int, columns: int) -> None:
        if self._terminal is not None and not self._closed:
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            # It is not the engine's controlling terminal, so the kernel sends no signal.
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGWINCH)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        _close({self.stdin, self.stdout, self.stderr} - {None})
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            if self._exec_id:
                processes.send(processes_of_exec(self._exec_id), signal.SIGKILL)


def processes_of_exec(exec_id: str) -> list[int]:
    """Returns the processes of this host with an exec id, as far as they are visible."""
    return [
        pid for pid in processes.every_pid() if processes.environment(pid).get(EXEC_ID_VARIABLE) == exec_id
    ]


async def spawn(
    program: str, arguments: Sequence[str], wanted: Iterable[str], *, exec_id: str = ""
) -> EngineProcess:
    """Starts the engine's program with pipes for the `wanted` streams."""
    names = set(wanted)
    engine_ends: dict[str, int] = {}
    ends: dict[str, int] = {}
    try:
        for name in ("stdin", *_OUTPUT):
            if name not in names:
                engine_ends[name] = os.open(os.devnull, os.O_RDWR)
                continue
            reading, writing = os.pipe()
            engine_ends[name], ends[name] = (reading, writing) if name == "stdin" else (writing, reading)
        process = await _start(
            program, arguments, engine_ends["stdin"], engine_ends["stdout"], engine_ends["stderr"]
        )
    except (Failure, OSError, asyncio.CancelledError):
        _close(ends.values())
        raise
    finally:
        _close(engine_ends.values())
    return EngineProcess(process, ends, None, exec_id)


async def spawn_on_terminal(program: str, arguments: Sequence[str], *, exec_id: str = "") -> EngineProcess:
    """Starts the engine's program on a new pty, which it connects to the one in the container."""
    master, slave = os.openpty()
    try:
        process = await _start(program, arguments, slave, slave, slave)
    except (Failure, asyncio.CancelledError):
        os.close(master)
        raise
    finally:
        os.close(slave)
    return EngineProcess(process, {}, master, exec_id)


async def _start(
    program: str, arguments: Sequence[str], stdin: int, stdout: int, stderr: int
) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            program, *arguments, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
        )
    except OSError as error:
        raise Failure("RuntimeUnavailable", f"cannot run {program}: {error.strerror}") from error


def _close(descriptors: Iterable[int | None]) -> None:
    for descriptor in set(descriptors):
        if descriptor is not None:
            os.close(descriptor)
