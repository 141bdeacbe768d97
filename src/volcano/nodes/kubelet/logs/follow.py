"""Reads the log of one attempt to its end, and follows it while it grows, across rotations."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from io import FileIO
from pathlib import Path

from volcano.base.clock import Clock
from volcano.base.workqueue import Backoff
from volcano.nodes.kubelet.logs.files import BLOCK, LINE_END, LogFilter, log_files, start_position

POLL_BACKOFF = Backoff(first=0.05, longest=0.2, factor=1.5)
MAX_ROTATION_RETRIES = 5  # after that many concurrent rotations, the next poll tries again


class LogFile:
    """The files of one log, read in order; `read` continues where it stopped."""

    def __init__(self, path: Path, wanted: LogFilter) -> None:
        self._path = path
        self._wanted = wanted
        self._file: FileIO | None = None
        self._next_files: list[FileIO] = []
        self._rest = b""

    def __enter__(self) -> "LogFile":
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self._file, *self._next_files):
            if file is not None:
                file.close()

    def begin(self, tail: int | None, since: float | None) -> None:
        """Seeks to the start position; files that are rotated from now on are still read."""
        files = _open_files(self._path)
        start = start_position(files, tail, since)
        for file in files[: start.skip]:
            file.close()
        self._next_files = files[start.skip :]
        if self._next_files:
            self._file = self._next_files.pop(0)
            self._file.seek(start.offset)

    def read(self) -> bytes | None:
        """The text of the next lines; None when there are none yet."""
        while True:
            data = self._file.read(BLOCK) if self._file is not None else b""
            if not data:
                if self._advance():
                    continue
                return None
            whole, newline, rest = (self._rest + data).rpartition(LINE_END)
            self._rest = rest
            if newline:
                return self._wanted.render(whole)

    def _advance(self) -> bool:
        """Switches to the next file when the current one has been rotated and read."""
        present = self._file
        if self._next_files:
            following: FileIO | None = self._next_files.pop(0)
        else:
            following = self._successor()
        if following is None:
            return False
        if present is not None and (last := present.read(BLOCK)):
            # Written between the last read and the rotation.
            self._next_files.insert(0, following)
            present.seek(-len(last), os.SEEK_CUR)
            return True
        if present is not None:
            present.close()
        self._file, self._rest = following, b""
        return True

    def _successor(self) -> FileIO | None:
        """The file created when the current one was rotated; None while it is the newest."""
        files = _open_files(self._path)
        known = [_identity(os.fstat(file.fileno())) for file in files]
        present = _identity(os.fstat(self._file.fileno())) if self._file is not None else None
        first = known.index(present) + 1 if present in known else 0
        keep = files[first : first + 1]
        for file in files:
            if file not in keep:
                file.close()
        return keep[0] if keep else None


async def follow(log: LogFile, *, over: Callable[[], bool] | None, clock: Clock) -> AsyncIterator[bytes]:
    """The text of a log as it grows. Ends when `over` returns true and all is read; without `over`, at the end."""
    with log:
        idle_polls = 0
        ending = over is None
        while True:
            text = log.read()
            if text is not None:
                idle_polls = 0
                yield text
                await asyncio.sleep(0)
            elif ending:
                return
            elif over is not None and over():
                ending = True  # lines written before the end are still read
            else:
                await clock.sleep(POLL_BACKOFF.delay(idle_polls))
                idle_polls += 1


def _open_files(path: Path) -> list[FileIO]:
    """The files of a log, oldest first; retried if the log is rotated meanwhile."""
    for _ in range(MAX_ROTATION_RETRIES):
        files: list[FileIO] = []
        paths = log_files(path)
        try:
            for each in paths:
                files.append(FileIO(each))
            if [_identity(os.stat(each)) for each in paths] == [
                _identity(os.fstat(f.fileno())) for f in files
            ]:
                return files
        except FileNotFoundError:
            pass
        for file in files:
            file.close()
    return []


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
