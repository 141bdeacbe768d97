"""A container's last words: its termination message, or the end of its log when it failed without one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

MOST_BYTES = 4096
MOST_LOG_BYTES = 2048
MOST_LOG_LINES = 80
DEFAULT_PATH = "/dev/termination-log"


def last_words(container: Mapping[str, Any], termination: Path, log: Path, *, failed: bool) -> str:
    """What the container's status says about its end."""
    text = _tail(termination, MOST_BYTES, from_start=True)
    if not text and failed and container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
        lines = _log_text(_tail(log, 16 * MOST_LOG_BYTES)).splitlines(keepends=True)[-MOST_LOG_LINES:]
        text = "".join(lines).encode()[-MOST_LOG_BYTES:].decode(errors="replace")
    return text


def _tail(path: Path, limit: int, *, from_start: bool = False) -> str:
    try:
        with path.open("rb") as file:
            if not from_start:
                file.seek(max(path.stat().st_size - limit, 0))
            return file.read(limit).decode(errors="replace")
    except OSError:
        return ""


def _log_text(raw: str) -> str:
    """The text of log lines `<time> <stream> F|P <text>`; a first line that was cut is left out."""
    found = []
    for line in raw.splitlines():
        parts = line.split(" ", 3)
        if len(parts) == 4 and parts[1] in ("stdout", "stderr"):
            found.append(parts[3] + ("\n" if parts[2] == "F" else ""))
    return "".join(found)
