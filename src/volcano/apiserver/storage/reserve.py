"""Disk space kept in reserve, so that objects can be deleted and the cluster can start when the disk is full.

Three parts: the write-ahead log is allocated in full when the store opens, free pages within the database take what
deletions write, and a file beside them is given up for the start and for those pages.
"""

import errno
import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from volcano.base.log import Log

log = Log("journal")

NAME = "reserve"
# Bytes. The start of a store that was closed needs its write-ahead log and some small files.
SIZE = 20 << 20
# Beyond the reserve, so that the next writes do not use it up at once.
MARGIN = 1 << 20
LOG_SIZE = 16 << 20  # of the write-ahead log
DELETION_BYTES = 1 << 20  # free within the file when the disk becomes full
# Of these, only deletions use the last part; other writes are accepted while they leave it free.
ONLY_FOR_DELETIONS = 256 << 10
# Free within the file: objects fit in there again although the disk is full.
FREE_BYTES = 4 << 20

_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Reserve:
    """A file of `SIZE` bytes beside the database that is given up when the disk is full."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / NAME
        self.held = False

    def acquire(self) -> bool:
        """Allocates the file; False when the disk has no space for it and some more."""
        try:
            descriptor = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            return self._no_space(error)
        try:
            held = os.fstat(descriptor).st_blocks * 512
            if _free(descriptor) < max(SIZE - held, 0) + MARGIN:
                self.held = False
                return False
            os.posix_fallocate(descriptor, 0, SIZE)
        except OSError as error:
            return self._no_space(error)
        finally:
            os.close(descriptor)
        self.held = True
        return True

    def acquire_rest(self) -> None:
        """Allocates as much of the file as the disk has space for."""
        with suppress(OSError):
            descriptor = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try:
                held = os.fstat(descriptor).st_blocks * 512
                if (size := min(held + _free(descriptor) - MARGIN, SIZE)) > held:
                    os.posix_fallocate(descriptor, 0, size)
            finally:
                os.close(descriptor)

    def release(self) -> None:
        """Gives the space back to the file system."""
        self.held = False
        self._path.unlink(missing_ok=True)

    def release_if_needed(self) -> None:
        """Gives the space back if there is too little beside it to open the store."""
        with suppress(OSError):
            space = os.statvfs(self._path.parent)
            if space.f_bavail * space.f_frsize < LOG_SIZE + MARGIN:
                self.release()

    def _no_space(self, error: OSError) -> bool:
        if error.errno not in _FULL_ERRORS:
            log.warning("space for deletions on a full disk could not be reserved", error=error)
            return True  # for example a file system without allocation: nothing more can be done
        self.held = False
        return False


def allocate_log(database: Path) -> None:
    """Allocates the whole write-ahead log of an open database; SQLite ignores what follows the last frame."""
    with suppress(OSError):
        descriptor = os.open(f"{database}-wal", os.O_RDWR | os.O_CLOEXEC)
        try:
            os.posix_fallocate(descriptor, 0, LOG_SIZE)
        finally:
            os.close(descriptor)


def is_full(error: sqlite3.Error, directory: Path) -> bool:
    """Whether a write failed because the disk is full."""
    if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL:
        return True
    if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_IOERR:
        return False
    space = os.statvfs(directory)  # some failures for lack of space are reported as I/O errors
    return space.f_bavail * space.f_frsize < MARGIN


def _free(descriptor: int) -> int:
    space = os.fstatvfs(descriptor)
    return space.f_bavail * space.f_frsize
