"""Capture of log messages while a command draws on the terminal."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

SHOWN_FOR = 10.0  # seconds a message stays on the screen


class CapturedLog(logging.Handler):
    """Keeps the last log message for the screen: printing it would overwrite the screen."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._last = ("", 0.0)

    def emit(self, record: logging.LogRecord) -> None:
        self._last = (record.getMessage(), record.created)

    def recent(self, now: float) -> str:
        text, when = self._last
        return text if now - when < SHOWN_FOR else ""


@contextmanager
def captured_log() -> Iterator[CapturedLog]:
    """Captures the log of this process instead of writing it to stderr."""
    captured, logger = CapturedLog(), logging.getLogger("volcano")
    before = logger.propagate, logger.level
    logger.addHandler(captured)
    logger.propagate = False
    logger.setLevel(logging.INFO)  # a broken watch is logged at INFO
    try:
        yield captured
    finally:
        logger.removeHandler(captured)
        logger.propagate = before[0]
        logger.setLevel(before[1])
