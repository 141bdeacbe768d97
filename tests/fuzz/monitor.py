"""Watches a cluster under test: 5xx responses, logged errors, restarts, and how long the event loop was blocked."""

import asyncio
import contextlib
import logging
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any

MAX_STALL = 1.0  # seconds of processor time of the event loop's thread
# Kubernetes answers these with 5xx too.
EXPECTED = (
    (500, "more than one PodDisruptionBudget"),  # as in Kubernetes
    (501, "simulated"),
    (504, "Too large resource version"),
    (505, "use HTTP/1.1"),
)
MAX_FAILURES = 20  # reported


class Monitor(logging.Handler):
    """Collects failures, with the request before each."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.failures: Counter[str] = Counter()
        self.examples: dict[str, str] = {}
        self.codes: Counter[int] = Counter()
        self.longest_stall = 0.0
        self.request = ""
        self._beat = time.monotonic()
        self._blocked_at = ""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        where = ""
        if error is not None and error.__traceback__ is not None:
            trace = error.__traceback__
            while trace.tb_next is not None:
                trace = trace.tb_next
            code = trace.tb_frame.f_code
            where = (
                f" {type(error).__name__} at {code.co_filename.rpartition('volcano/')[2]}:{trace.tb_lineno}"
            )
        self.fail(f"log: {record.getMessage().partition('=')[0]}{where}", self.format(record))

    def fail(self, what: str, detail: str = "") -> None:
        self.failures[what] += 1
        self.examples.setdefault(what, f"{self.request[:1500]}\n{detail[-3000:]}")

    def answered(self, code: int, body: bytes) -> None:
        """Counts a response."""
        self.codes[code] += 1
        text = body[:500].decode(errors="replace")
        if code >= 500 and not any(code == known and part in text for known, part in EXPECTED):
            self.fail(f"status {code}", text)

    def report(self) -> str:
        """The failures, most frequent first; empty when there are none."""
        return "\n\n".join(
            f"{count} x {what}\n{self.examples[what]}"
            for what, count in self.failures.most_common(MAX_FAILURES)
        )

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Collects the errors logged and measures the event loop inside the block."""
        loop, logger = asyncio.get_running_loop(), logging.getLogger("volcano")
        logger.addHandler(self)
        loop.set_exception_handler(self._on_exception)
        measuring = asyncio.create_task(self._measure())
        stop = threading.Event()
        sampling = threading.Thread(target=self._sample, args=(threading.get_ident(), stop), daemon=True)
        sampling.start()
        try:
            yield
        finally:
            stop.set()
            sampling.join()
            measuring.cancel()
            await asyncio.gather(measuring, return_exceptions=True)
            loop.set_exception_handler(None)
            logger.removeHandler(self)

    def _on_exception(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        self.fail(f"event loop: {context.get('message')} {context.get('exception')!r}")

    async def _measure(self) -> None:
        """Processor time and not wall time: other programs on a busy machine do not count."""
        while True:
            started = time.thread_time()
            self._beat = time.monotonic()
            await asyncio.sleep(0.005)
            stall = time.thread_time() - started
            self.longest_stall = max(self.longest_stall, stall)
            if stall > MAX_STALL:
                self.fail("stall of the event loop", f"{stall:.2f} s\n{self._blocked_at}")

    def _sample(self, thread: int, stop: threading.Event) -> None:
        """Records where the event loop is when it has been blocked for half of what is allowed."""
        while not stop.wait(0.05):
            if time.monotonic() - self._beat > MAX_STALL / 2:
                frame = sys._current_frames().get(thread)
                self._blocked_at = "".join(traceback.format_stack(frame)[-8:])
