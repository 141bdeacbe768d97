"""A line about work in progress, on a terminal or in a file."""

import asyncio
import shutil
from typing import TextIO

from volcano.base.clock import Clock


class ProgressLine:
    """Rewritten on a terminal, otherwise printed when it changes.

    Use as an async context manager: it redraws the elapsed time every second, and clears the line at the end.
    """

    def __init__(self, stream: TextIO, clock: Clock) -> None:
        self._stream, self._clock = stream, clock
        self._live = stream.isatty()
        self._began = clock.now().monotonic
        self._said = ""

    async def __aenter__(self) -> "ProgressLine":
        self._ticking = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ticking.cancel()
        await asyncio.gather(self._ticking, return_exceptions=True)
        if self._live and self._said:
            self._write("\r\x1b[K")

    def say(self, text: str) -> None:
        """Shows a text in place of the one before it."""
        if self._live:
            room = max(shutil.get_terminal_size().columns - 10, 20)
            self._write(f"\r\x1b[K{text[:room]} ({self._clock.now().monotonic - self._began:.0f}s)")
        elif text != self._said:
            self._write(text + "\n")
        self._said = text

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    async def _tick(self) -> None:
        while self._live:
            await self._clock.sleep(1.0)
            if self._said:
                self.say(self._said)
