"""Log files of a container: lines in CRI format, in the current file and rotated ones."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path

BLOCK = 64 << 10
LINE_END = b"\n"
WHOLE_LINE_MARKS = frozenset({b" stdout F ", b" stderr F "})  # between a line's time and its text
MARK_SIZE = 10


@dataclass(slots=True)
class LogFilter:
    """Selects and formats log lines; tracks per stream whether the last line is incomplete."""

    timestamps: bool = False
    since: bytes = b""  # RFC 3339 in UTC without Z, so that times compare as text
    stream: bytes = b""  # stdout or stderr; empty is both
    _open_streams: set[bytes] = field(default_factory=set, init=False)

    def render(self, block: bytes) -> bytes:
        """The text of complete log lines; the block has no final line end."""
        lines = block.split(LINE_END)
        if not (self.timestamps or self.since or self.stream or self._open_streams):
            # Fast path for times of equal width and complete lines, which most logs consist of.
            start = block.find(b" ")
            end = start + MARK_SIZE
            texts = [line[end:] for line in lines if line[start:end] in WHOLE_LINE_MARKS]
            if len(texts) == len(lines):
                return LINE_END.join(texts) + LINE_END
        shown: list[bytes] = []
        for line in lines:
            parts = line.split(b" ", 3)
            if len(parts) < 3:
                continue  # half a line, written when the disk was full
            time, stream, tag = parts[:3]
            if (self.stream and stream != self.stream) or (self.since and in_utc(time) < self.since):
                continue
            if self.timestamps and stream not in self._open_streams:
                shown += (time, b" ")
            if len(parts) == 4:
                shown.append(parts[3])
            if is_partial(tag):
                self._open_streams.add(stream)
            else:
                self._open_streams.discard(stream)
                shown.append(LINE_END)
        return b"".join(shown)


def in_utc(time: bytes) -> bytes:
    """A time in UTC without its zone; podman writes the host's time zone."""
    if time.endswith(b"Z"):
        return time[:-1]
    if time.endswith(b"+00:00"):
        return time[:-6]
    try:
        shifted = datetime.fromisoformat(time[:19].decode() + time[-6:].decode()).astimezone(UTC)
    except ValueError:
        return time
    return shifted.strftime("%Y-%m-%dT%H:%M:%S").encode() + time[19:-6]


def is_partial(tag: bytes) -> bool:
    """Whether the text continues in the next line of its stream."""
    return tag.split(b":", 1)[0] == b"P"


def attempts(directory: Path) -> list[int]:
    """The attempts of a container that have a log, oldest first."""
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    stems = (name.removesuffix(".log") for name in names if name.endswith(".log"))
    return sorted(int(stem) for stem in stems if stem.isdigit())


def log_files(path: Path) -> list[Path]:
    """The files of one log, oldest first, the current one last."""
    prefix = f"{path.name}."
    try:
        names = os.listdir(path.parent)
    except FileNotFoundError:
        return []
    suffixes = (name.removeprefix(prefix) for name in names if name.startswith(prefix))
    numbers = sorted((int(suffix) for suffix in suffixes if suffix.isdigit()), reverse=True)
    rotated = [path.with_name(f"{prefix}{number}") for number in numbers]
    return [*rotated, path] if path.name in names else rotated


@dataclass(frozen=True, slots=True)
class StartPosition:
    """Where reading begins: the number of skipped files, and the offset in the next one."""

    skip: int
    offset: int


def start_position(files: Sequence[FileIO], tail: int | None, since: float | None) -> StartPosition:
    """The earliest position needed for the last `tail` lines, or for lines written after `since`."""
    if tail is not None:
        return _tail(files, tail)
    skip = 0
    if since is not None:
        older = [os.fstat(file.fileno()).st_mtime < since for file in files]
        skip = next((index for index, is_older in enumerate(older) if not is_older), len(files))
        skip = min(skip, max(len(files) - 1, 0))  # the newest may still be written to
    return StartPosition(skip, 0)


def _tail(files: Sequence[FileIO], count: int) -> StartPosition:
    """The position of the last `count` lines; partial lines count once."""
    if not files:
        return StartPosition(0, 0)
    newest = len(files) - 1
    if count == 0:
        return StartPosition(newest, os.fstat(files[newest].fileno()).st_size)
    seen = 0
    for index in range(newest, -1, -1):
        for offset, line in _lines_backwards(files[index]):
            if _ends_a_line(line):
                if seen == count:
                    return StartPosition(index, offset + len(line) + 1)
                seen += 1
            elif seen == 0:
                seen = 1  # an incomplete line at the end
    return StartPosition(0, 0)


def _ends_a_line(line: bytes) -> bool:
    parts = line.split(b" ", 3)
    return len(parts) >= 3 and not is_partial(parts[2])


def _lines_backwards(file: FileIO) -> Iterator[tuple[int, bytes]]:
    """Each complete line of a file with its offset, last one first."""
    position = os.fstat(file.fileno()).st_size
    rest = b""  # from `position` to the last line returned; begins within a line
    whole = False  # whether `rest` ends with a line end
    while position > 0:
        size = min(BLOCK, position)
        position -= size
        rest = os.pread(file.fileno(), size, position) + rest
        if not whole:  # skips the incomplete line at the end
            rest = rest[: rest.rfind(LINE_END) + 1]
            whole = rest.endswith(LINE_END)
            if not whole:
                continue
            rest = rest[:-1]
        first, *lines = rest.split(LINE_END)
        end = position + len(rest)
        for line in reversed(lines):
            end -= len(line)
            yield end, line
            end -= 1
        rest = first
    if whole:
        yield 0, rest
