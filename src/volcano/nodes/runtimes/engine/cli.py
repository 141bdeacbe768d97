"""Command line of a container engine: every call has a timeout and is killed when it is cancelled."""

import asyncio
import contextlib
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from volcano.nodes.shim.specs import Failure

CALL_TIMEOUT = 120.0  # seconds for anything but a pull
MAX_CONCURRENT_CALLS = 8
_PREFIXES = ("Error response from daemon: ", "Error: ", "error: ")
_CONTAINER_PREFIX = re.compile(r'unable to start container "[0-9a-f]{64}": ')
_NOT_FOUND = ("no such container", "no such object", "no container with", "no such image")


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Result of a call."""

    code: int
    text: str
    error: str = ""

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def not_found(self) -> bool:
        """Whether the call failed because its object does not exist."""
        return not self.ok and any(text in self.error.lower() for text in _NOT_FOUND)


class EngineCLI:
    """The program of a container engine."""

    def __init__(self, name: str, directory: Path) -> None:
        """`directory` is the working directory of calls: some engines leave files there."""
        self.name = name
        self._program = name
        self._directory = directory
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_CALLS)

    @property
    def program(self) -> str:
        """The path of the program once it is located; until then its name."""
        return self._program

    def locate(self) -> None:
        """Finds the program on PATH; a Failure when there is none."""
        program = shutil.which(self.name)
        if program is None:
            raise Failure(
                "RuntimeUnavailable",
                f"there is no program {self.name} on PATH; install it, or use --runtime=auto",
            )
        self._program = program

    async def call(
        self,
        *arguments: str,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        timeout: float = CALL_TIMEOUT,
    ) -> CommandResult:
        """Runs a command; one that exceeds the timeout is killed and counts as failed."""
        async with self._slots:
            process = await self._spawn(arguments, environment)
            try:
                async with asyncio.timeout(timeout):
                    output, error = await process.communicate(stdin)
            except TimeoutError:
                await self._kill(process)
                return CommandResult(
                    124, "", f"{self.name} {arguments[0]} did not end within {timeout:.0f} s"
                )
            except asyncio.CancelledError:
                await self._kill(process)
                raise
        code = process.returncode
        return CommandResult(
            code if code is not None else 1, output.decode(errors="replace"), _clean_error(error)
        )

    async def inspect(self, *identifiers: str, options: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Returns the `container inspect` entries of containers; missing ones are left out."""
        if not identifiers:
            return []
        result = await self.call("container", "inspect", *options, *identifiers)
        try:
            found = json.loads(result.text or "[]")
        except ValueError:
            found = []
        if not result.ok and not result.not_found:
            raise Failure("RuntimeUnavailable", f"{self.name} container inspect: {result.error}")
        return [each for each in found if isinstance(each, dict)]

    async def _spawn(
        self, arguments: Sequence[str], environment: Mapping[str, str] | None
    ) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        try:
            # A session of its own: interrupts from the terminal are handled by this process only.
            return await asyncio.create_subprocess_exec(
                self.program,
                *arguments,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env={**os.environ, **(environment or {})},
                cwd=self._directory if self._directory.is_dir() else None,
                start_new_session=True,
            )
        except OSError as error:
            raise Failure("RuntimeUnavailable", f"cannot run {self.program}: {error.strerror}") from error

    async def _kill(self, process: asyncio.subprocess.Process) -> None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _clean_error(stderr: bytes) -> str:
    """Extracts the error from standard error, without the warnings before it."""
    lines = [line.strip() for line in stderr.decode(errors="replace").splitlines() if line.strip()]
    messages = [
        line for line in lines if not line.startswith(("time=", "WARN", "See 'docker", "Run 'docker"))
    ]
    text = "; ".join(messages or lines)
    for prefix in _PREFIXES:
        text = text.replace(prefix, "")
    return _CONTAINER_PREFIX.sub("", text)
