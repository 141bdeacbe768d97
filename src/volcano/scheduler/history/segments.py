"""Segments: records on disk, in two files that replace each other, so that their size is bounded."""

from collections.abc import Iterator
from pathlib import Path

from volcano.base.log import Log
from volcano.base.os_errors import explain_os_error

log = Log("history")

CURRENT, PREVIOUS = "cycles.current", "cycles.previous"
LENGTH_BYTES = 4
LARGEST = 64 * 1024 * 1024  # of one record


class Segments:
    """Appends records to one file; when that has half of the bytes, it replaces the other. A record that was not
    written whole ends its file. A disk that fails ends the writing, not the scheduler."""

    def __init__(self, directory: Path, most_bytes: int) -> None:
        self._directory = directory
        self._most_bytes = most_bytes
        self._failed = False
        self._size = -1  # of the current file; -1: not known yet

    def read(self) -> Iterator[bytes]:
        """All records, oldest first."""
        for name in (PREVIOUS, CURRENT):
            try:
                data = (self._directory / name).read_bytes()
            except FileNotFoundError:
                continue
            except OSError as error:
                log.warning("cycle history not read", reason=explain_os_error(error, str(self._directory)))
                continue
            yield from _split(data)

    def append(self, record: bytes) -> None:
        if self._failed:
            return
        try:
            self._append(record)
        except OSError as error:
            self._failed = True
            log.warning(
                "cycle history not written any more", reason=explain_os_error(error, str(self._directory))
            )

    def _append(self, record: bytes) -> None:
        path = self._directory / CURRENT
        if self._size < 0:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._size = self._whole(path)
        if self._size + len(record) > self._most_bytes // 2 and self._size:
            path.replace(self._directory / PREVIOUS)
            self._size = 0
        with path.open("ab") as file:
            file.write(len(record).to_bytes(LENGTH_BYTES) + record)
        path.chmod(0o600)
        self._size += LENGTH_BYTES + len(record)

    def _whole(self, path: Path) -> int:
        """Length of the records that were written whole; what follows is cut off."""
        if not path.exists():
            return 0
        data = path.read_bytes()
        length = sum(LENGTH_BYTES + len(record) for record in _split(data))
        if length < len(data):
            with path.open("r+b") as file:
                file.truncate(length)
        return length


def _split(data: bytes) -> Iterator[bytes]:
    place = 0
    while place + LENGTH_BYTES <= len(data):
        length = int.from_bytes(data[place : place + LENGTH_BYTES])
        end = place + LENGTH_BYTES + length
        if length > LARGEST or end > len(data):
            return
        yield data[place + LENGTH_BYTES : end]
        place = end
