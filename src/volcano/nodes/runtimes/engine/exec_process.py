"""A further process in a container, or a container attached to: the engine's program between it and us."""

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
    """Implements `Process`. With a `exec_id`, what it started in the container is killed when it is let go of."""

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
            # It is not the engine's controlling terminal: the kernel tells nobody.
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
    """The processes of this host that carry a exec_id, as far as they may be seen."""
    return [
        pid for pid in processes.every_pid() if processes.environment(pid).get(EXEC_ID_VARIABLE) == exec_id
    ]


async def spawn(
    program: str, arguments: Sequence[str], wanted: Iterable[str], *, exec_id: str = ""
) -> EngineProcess:
    """Starts the engine's program with pipes for the streams that are `wanted`."""
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
    """Starts it on a terminal of its own, which it makes a mirror of the one in the container."""
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
