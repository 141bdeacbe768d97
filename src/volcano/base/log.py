"""Structured logging: one line per event, a constant message, key=value fields."""

import json
import logging
import sys
from typing import Any, TextIO


class Log:
    """A named logger; cheap to create, safe to share."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"volcano.{name}")

    def debug(self, message: str, **fields: Any) -> None:
        self._write(logging.DEBUG, message, fields)

    def info(self, message: str, **fields: Any) -> None:
        self._write(logging.INFO, message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        self._write(logging.WARNING, message, fields)

    def error(self, message: str, *, error: BaseException | None = None, **fields: Any) -> None:
        """Logs a failure; with `error`, its traceback follows the line."""
        self._write(logging.ERROR, message, fields, error)

    def _write(
        self, level: int, message: str, fields: dict[str, Any], error: BaseException | None = None
    ) -> None:
        if self._logger.isEnabledFor(level):
            text = " ".join([message, *(f"{name}={_shown(value)}" for name, value in fields.items())])
            self._logger.log(level, "%s", text, exc_info=error)


def _shown(value: Any) -> str:
    text = str(value)
    return json.dumps(text) if not text or any(c in text for c in ' "=\n') else text


def configure(level: int = logging.INFO, stream: TextIO | None = None) -> logging.Handler:
    """Logs to `stream` (standard error by default); returns the handler, to be removed again."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname).1s %(name)s %(message)s"))
    handler.setLevel(level)
    root = logging.getLogger("volcano")
    root.addHandler(handler)
    root.setLevel(min(level, root.level or level))
    root.propagate = False
    return handler
