"""Output of a container in its log, in CRI format, rotated and limited in size.

podman writes such a log itself and is asked to reopen it after rotation. docker has its own logs: they are
followed and copied here, continuing where the copy ended.
"""

import asyncio
import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from volcano.nodes.runtimes.engine.cli import EngineCLI
from volcano.nodes.runtimes.engine.container_inspect import parse_engine_time
from volcano.nodes.shim.logfile import LogFile

_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)) ")
_MAX_STAMP = 40
_DOCKER_LINE_LIMIT = 16 << 10  # docker splits longer lines and stamps each part
_TAIL_SIZE = 1 << 20
_READ_SIZE = 64 << 10
_REOPEN = b"2 0 0\n"  # conmon's command to reopen the log
_STREAMS = (b"stdout", b"stderr")


def rotate(path: Path, conmon_control: Path, size: int, files: int) -> bool:
    """Rotates a log that podman writes when it is too long; True when it did."""
    try:
        if path.stat().st_size < size:
            return False
        control = os.open(conmon_control, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # no log yet, or no conmon that writes it
        return False
    try:
        for number in range(files - 1, 0, -1):
            newer = path.with_name(f"{path.name}.{number - 1}") if number > 1 else path
            with contextlib.suppress(FileNotFoundError):
                os.replace(newer, path.with_name(f"{path.name}.{number}"))
        os.write(control, _REOPEN)
    finally:
        os.close(control)
    return True


class TimestampedStream:
    """One stream of `logs --timestamps`, parsed into chunks with their times."""

    def __init__(self) -> None:
        self._rest = b""

    def parse(self, data: bytes, *, last: bool = False) -> list[tuple[bytes, bytes]]:
        """Returns chunks with their timestamps; lines without one are messages of the engine and skipped."""
        text = self._rest + data
        found: list[tuple[bytes, bytes]] = []
        while text:
            stamp = _STAMP.match(text)
            end = text.find(b"\n")
            if stamp is None:
                if end < 0 and len(text) < _MAX_STAMP and not last:
                    break
                if end < 0:
                    text = b"" if last or len(text) > _READ_SIZE else text
                    break
                text = text[end + 1 :]
                continue
            cut = stamp.end() + _DOCKER_LINE_LIMIT
            if 0 <= end < cut:
                cut = end + 1
            elif len(text) < cut + _MAX_STAMP and not last:
                break
            elif _STAMP.match(text, cut) is None:  # a long line in one chunk
                if end < 0 and not last:
                    break
                cut = end + 1 if end >= 0 else len(text)
            found.append((stamp.group(1), text[stamp.end() : cut]))
            text = text[cut:]
        self._rest = text
        return found


@dataclass(frozen=True, slots=True)
class LogPosition:
    """Position of a stream in a log: the newest time, and the number of entries with that time."""

    time: bytes = b""
    entries: int = 0


class LogFollower:
    """Copies docker's output of a container into its log, continuing where the log ends."""

    def __init__(self, engine: EngineCLI, identifier: str, log_path: str, size: int, files: int) -> None:
        self._engine = engine
        self._identifier = identifier
        self._path = log_path
        self._now = 0
        self._log = LogFile(log_path, lambda: self._now, size=size, files=files)

    async def run(self, *, follow: bool) -> None:
        """Copies until the output ends; without `follow`, only existing output."""
        positions = last_positions(self._path)
        oldest = min(position.time for position in positions.values())
        process = await asyncio.create_subprocess_exec(
            *(self._engine.program, "logs", "--timestamps", *(["--follow"] if follow else [])),
            *([f"--since={oldest.decode()}Z"] if oldest else []),
            self._identifier,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            async with asyncio.TaskGroup() as group:
                for name, reader in (("stdout", process.stdout), ("stderr", process.stderr)):
                    group.create_task(self._copy(name, reader, positions[name]))
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            self._log.close()

    async def _copy(self, name: str, reader: asyncio.StreamReader, position: LogPosition) -> None:
        stream, skip = TimestampedStream(), position.entries
        while True:
            data = await reader.read(_READ_SIZE)
            for stamp, piece in stream.parse(data, last=not data):
                time = _comparable(stamp)
                if time < position.time:
                    continue
                if time == position.time and skip:
                    skip -= 1
                    continue
                self._now = nanoseconds(stamp)
                self._log.write(name, piece)
            if not data:
                return


def last_positions(path: str) -> dict[str, LogPosition]:
    """Position of each stream in a log. A stream without entries in the tail of a long log ends before the tail."""
    lines, whole = _tail(path)
    if not lines:
        lines, whole = _tail(f"{path}.1")
    positions: dict[str, LogPosition] = {}
    for line in lines:
        parts = line.split(b" ", 3)
        if len(parts) == 4 and parts[1] in _STREAMS:
            time, name = _comparable(parts[0]), parts[1].decode()
            before = positions.get(name, LogPosition())
            positions[name] = LogPosition(time, before.entries + 1 if before.time == time else 1)
    first = LogPosition() if whole or not lines else LogPosition(_comparable(lines[0].partition(b" ")[0]))
    return {name.decode(): positions.get(name.decode(), first) for name in _STREAMS}


def _tail(path: str) -> tuple[list[bytes], bool]:
    """Last lines of a file, and whether they are the whole file."""
    try:
        with open(path, "rb") as log:
            start = max(os.fstat(log.fileno()).st_size - _TAIL_SIZE, 0)
            log.seek(start)
            lines = log.read().splitlines()
    except OSError:
        return [], True
    return (lines[1:], False) if start else (lines, True)


def _comparable(stamp: bytes) -> bytes:
    """A timestamp that sorts as text: all are UTC."""
    head, _, fraction = stamp.rstrip(b"Z").partition(b".")
    return head + b"." + fraction.ljust(9, b"0")


def nanoseconds(stamp: bytes) -> int:
    """Wall time of a timestamp in nanoseconds."""
    text = stamp.decode()
    fraction = re.search(r"\.(\d+)", text)
    whole = int(parse_engine_time(re.sub(r"\.\d+", "", text)))
    return whole * 1_000_000_000 + int((fraction.group(1) if fraction else "0").ljust(9, "0")[:9])
