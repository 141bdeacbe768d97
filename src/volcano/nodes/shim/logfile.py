"""Log file of a container in CRI format, rotated and limited in size.

`<RFC 3339 time> stdout|stderr F|P <text>`: P marks a part of a line that continues in the next entry of
its stream.
"""

import contextlib
import os
import time
from collections.abc import Callable

MAX_LINE = 16 << 10
DEFAULT_SIZE = 10 << 20
DEFAULT_FILES = 5  # including the current file


class LogFile:
    """Never raises for a disk error: output that cannot be written is dropped, and counted in the log later."""

    def __init__(
        self, path: str, now: Callable[[], int], *, size: int = DEFAULT_SIZE, files: int = DEFAULT_FILES
    ) -> None:
        self._path = path
        self._now = now  # nanoseconds of wall time
        self._limit = size
        self._files = files
        self._incomplete: dict[str, bytes] = {}
        self._dropped = 0
        self._error = ""
        self._descriptor = -1
        self._written = 0
        self._second = -1
        self._second_text = ""

    def write(self, stream: str, text: bytes) -> None:
        """Appends a chunk of output; a line is written when it is complete or longer than MAX_LINE."""
        *lines, rest = (self._incomplete.pop(stream, b"") + text).split(b"\n")
        prefix = f"{self._timestamp()} {stream} ".encode()
        whole, piece = prefix + b"F ", prefix + b"P "
        entries = b""
        if lines and max(map(len, lines)) <= MAX_LINE:  # the usual case, without a loop in Python
            entries = whole + (b"\n" + whole).join(lines) + b"\n"
        else:
            for line in lines:
                *pieces, end = _cut(line)
                entries += b"".join([*(piece + part + b"\n" for part in pieces), whole, end, b"\n"])
        if len(rest) >= MAX_LINE:
            *pieces, rest = _cut(rest)
            entries += b"".join(piece + part + b"\n" for part in pieces)
        if rest:
            self._incomplete[stream] = rest
        if entries:
            self._append(entries)

    def close(self) -> None:
        """Writes an unfinished last line as a partial entry and closes the file."""
        for stream, rest in self._incomplete.items():
            self._append(f"{self._timestamp()} {stream} P ".encode() + rest + b"\n")
        self._incomplete.clear()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _append(self, entries: bytes) -> None:
        try:
            if self._descriptor < 0:
                self._open()
            elif self._written >= self._limit:
                self._rotate()
            if self._dropped:
                self._write_all(self._dropped_notice())
                self._dropped = 0
            self._write_all(entries)
        except OSError as error:
            self._dropped += entries.count(b"\n")
            self._error = os.strerror(error.errno or 0)

    def _write_all(self, entries: bytes) -> None:
        """Writes all or nothing: a torn line would corrupt the next one."""
        done = 0
        try:
            while done < len(entries):
                done += os.write(self._descriptor, entries[done:] if done else entries)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._written)
            raise
        self._written += done

    def _dropped_notice(self) -> bytes:
        return f"{self._timestamp()} stderr F [{self._dropped} lines of output were lost: {self._error}]\n".encode()

    def _open(self) -> None:
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        self._written = os.fstat(self._descriptor).st_size

    def _rotate(self) -> None:
        os.close(self._descriptor)
        self._descriptor = -1
        for number in range(self._files - 1, 0, -1):
            older = f"{self._path}.{number}"
            newer = f"{self._path}.{number - 1}" if number > 1 else self._path
            with contextlib.suppress(FileNotFoundError):
                os.replace(newer, older)
        if self._files < 2:
            os.unlink(self._path)
        self._open()

    def _timestamp(self) -> str:
        second, nanosecond = divmod(self._now(), 1_000_000_000)
        if second != self._second:
            self._second = second
            self._second_text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._second_text}.{nanosecond:09d}Z"


def _cut(line: bytes) -> list[bytes]:
    """Splits a line into parts of at most MAX_LINE bytes; the last part is empty if the length is a multiple of it."""
    return [line[at : at + MAX_LINE] for at in range(0, len(line) + 1, MAX_LINE)]
