"""Running the engine's program: every call is bounded in time, and ends with whoever waits for it."""

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

PATIENCE = 120.0  # seconds for anything but a pull
MOST_AT_ONCE = 8
_PREFIXES = ("Error response from daemon: ", "Error: ", "error: ")
_WHICH = re.compile(r'unable to start container "[0-9a-f]{64}": ')
_ABSENT = ("no such container", "no such object", "no container with", "no such image")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call gave."""

    code: int
    text: str
    complaint: str = ""

    @property
    def well(self) -> bool:
        return self.code == 0

    @property
    def about_nothing(self) -> bool:
        """Whether it failed because what it was about is not there."""
        return not self.well and any(word in self.complaint.lower() for word in _ABSENT)


class Engine:
    """The program of a container engine."""

    def __init__(self, name: str, program: str, directory: Path) -> None:
        """`directory` is where it runs: some engines leave files where they stand."""
        self.name = name
        self.program = program
        self._directory = directory
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)

    async def call(
        self,
        *arguments: str,
        given: bytes = b"",
        environment: Mapping[str, str] | None = None,
        patience: float = PATIENCE,
    ) -> Answer:
        """Runs it to its end; a call that takes too long is killed and counts as failed."""
        async with self._turns:
            process = await self._spawn(arguments, environment)
            try:
                async with asyncio.timeout(patience):
                    output, complaint = await process.communicate(given)
            except TimeoutError:
                await self._kill(process)
                return Answer(124, "", f"{self.name} {arguments[0]} did not end within {patience:.0f} s")
            except BaseException:
                await self._kill(process)
                raise
        code = process.returncode
        return Answer(code if code is not None else 1, output.decode(errors="replace"), _said(complaint))

    async def inspect(self, *identifiers: str, options: Sequence[str] = ()) -> list[dict[str, Any]]:
        """What is known of containers; those that are gone are left out."""
        if not identifiers:
            return []
        answer = await self.call("container", "inspect", *options, *identifiers)
        try:
            found = json.loads(answer.text or "[]")
        except ValueError:
            found = []
        if not answer.well and not answer.about_nothing:
            raise Failure("RuntimeUnavailable", f"{self.name} container inspect: {answer.complaint}")
        return [each for each in found if isinstance(each, dict)]

    async def _spawn(
        self, arguments: Sequence[str], environment: Mapping[str, str] | None
    ) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        try:
            # A session of its own: an interrupt from the terminal is for us to handle.
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


def find(name: str) -> str:
    """The engine's program; a Failure when there is none."""
    program = shutil.which(name)
    if program is None:
        raise Failure(
            "RuntimeUnavailable", f"there is no program {name} on PATH; install it, or use --runtime=auto"
        )
    return program


def _said(complaint: bytes) -> str:
    """The essence of what a program wrote to its standard error: warnings that came before are left out."""
    lines = [line.strip() for line in complaint.decode(errors="replace").splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("time=", "WARN", "See 'docker", "Run 'docker"))]
    text = "; ".join(told or lines)
    for prefix in _PREFIXES:
        text = text.replace(prefix, "")
    return _WHICH.sub("", text)
