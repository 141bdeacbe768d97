"""Termination messages: the message file of a container, or the end of its log if it failed without one."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MAX_BYTES = 4096
MAX_LOG_BYTES = 2048
MAX_LOG_LINES = 80
DEFAULT_PATH = "/dev/termination-log"


def termination_message(container: Mapping[str, Any], termination: Path, log: Path, *, failed: bool) -> str:
    """The termination message of a container."""
    text = _tail(termination, MAX_BYTES, from_start=True)
    if not text and failed and container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
        lines = _log_text(_tail(log, 16 * MAX_LOG_BYTES)).splitlines(keepends=True)[-MAX_LOG_LINES:]
        text = "".join(lines).encode()[-MAX_LOG_BYTES:].decode(errors="replace")
    return text


def create_message_file(termination: Path) -> None:
    """Creates the message file, writable by any user."""
    termination.parent.mkdir(parents=True, exist_ok=True)
    at = os.open(termination, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        os.fchmod(at, 0o666)
    finally:
        os.close(at)


def _tail(path: Path, limit: int, *, from_start: bool = False) -> str:
    """The beginning or the end of a file. The container could write to it: it may be a pipe or a link."""
    try:
        at = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(at, "rb") as file:
            kind = os.fstat(at)
            if not stat.S_ISREG(kind.st_mode):
                return ""
            if not from_start:
                file.seek(max(kind.st_size - limit, 0))
            return file.read(limit).decode(errors="replace")
    except OSError:
        return ""


def _log_text(raw: str) -> str:
    """The text of log lines `<time> <stream> F|P <text>`; an incomplete first line is omitted."""
    found = []
    for line in raw.splitlines():
        parts = line.split(" ", 3)
        if len(parts) == 4 and parts[1] in ("stdout", "stderr"):
            found.append(parts[3] + ("\n" if parts[2] == "F" else ""))
    return "".join(found)
