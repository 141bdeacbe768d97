"""The data directory: identified by a marker, locked against a second process, of a known format."""

import fcntl
import os
import struct
from contextlib import ExitStack, suppress
from pathlib import Path

from volcano.base.os_errors import explain_os_error

FORMAT = 1
MARKER = "volcano-data"
LOCK = "lock"
DATABASE = "store.db"
APPLICATION_ID = 0x766F6C63  # "volc", in the header of the database file

_PID_LENGTH = 32  # bytes of the lock file
_MAGIC = b"SQLite format 3\0"
_HEADER = struct.Struct(">60x i 4x i 28x")  # user_version at byte 60, application_id at byte 68
# Files that a process killed while it created the directory may have left.
_BEGINNINGS = frozenset((LOCK, f"{MARKER}.new"))


class DataDirectoryError(Exception):
    """A data directory that cannot be used; it is left unchanged."""


class DataDirectory:
    """A data directory locked by this process until `release`."""

    def __init__(self, path: Path, *, check: bool = True) -> None:
        """Locks the directory. Unless `check` is False, raises DataDirectoryError for another or a damaged format."""
        self.path = path
        _check_ours(path)
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _locked(path)
        except OSError as error:
            reason = explain_os_error(error, str(path))
            raise DataDirectoryError(f"cannot be used as a data directory: {reason}") from error
        with ExitStack() as undo:
            undo.callback(self.release)
            if check:
                self._check_format()
            undo.pop_all()

    @property
    def database(self) -> Path:
        return self.path / DATABASE

    def release(self) -> None:
        """Unlocks the directory for other processes."""
        os.close(self._lock)

    def _check_format(self) -> None:
        marker = self.path / MARKER
        if not marker.exists():
            unfinished = self.path / f"{MARKER}.new"
            unfinished.write_text(f"{FORMAT}\n")
            unfinished.rename(marker)
        text = marker.read_text(errors="replace").strip()
        if text != str(FORMAT):
            raise DataDirectoryError(
                f"{self.path}: has format {text[:40]!r}; this version reads format {FORMAT} only"
            )
        if self.database.exists() and self.database.stat().st_size:
            check_header(self.database)


def _check_ours(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise DataDirectoryError(f"{path}: is not a directory")
    if not path.exists() or (path / MARKER).exists():
        return
    others = sorted(entry.name for entry in path.iterdir() if entry.name not in _BEGINNINGS)
    if others:
        shown = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
        raise DataDirectoryError(
            f"{path}: not a data directory of volcano (it contains {shown}); choose a new or empty directory"
        )


def _locked(path: Path) -> int:
    descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, _PID_LENGTH).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise DataDirectoryError(
            f"{path}: is in use by another process (pid {holder}); stop it or choose another directory"
        ) from None
    with suppress(OSError):  # on a full disk, the number is written where the last one was, or not at all
        os.pwrite(descriptor, f"{os.getpid()}\n".ljust(_PID_LENGTH).encode(), 0)
    return descriptor


def check_header(database: Path) -> None:
    """Raises DataDirectoryError when a file is no database of ours, or of another format."""
    with database.open("rb") as file:
        header = file.read(100)
    if len(header) < 100 or not header.startswith(_MAGIC):
        raise DataDirectoryError(f"{database}: is damaged: it does not begin like a database")
    version, application = _HEADER.unpack(header)
    if application != APPLICATION_ID:
        raise DataDirectoryError(f"{database}: is another program's database (application id {application})")
    if version != FORMAT:
        raise DataDirectoryError(f"{database}: has format {version}; this version reads format {FORMAT} only")
