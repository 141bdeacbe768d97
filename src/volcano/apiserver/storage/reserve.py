"""Disk space kept in reserve, so that objects can be deleted when the disk is full."""

import errno
import os
import sqlite3
from pathlib import Path

from volcano.base.log import Log

log = Log("journal")

NAME = "reserve"
# Bytes. The write-ahead log (16 MiB) must fit into the file before its space is free for deletions.
SIZE = 20 << 20
# Beyond the reserve, so that the next writes do not use it up at once.
MARGIN = 1 << 20
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
            space = os.fstatvfs(descriptor)
            if held < SIZE and space.f_bavail * space.f_frsize < SIZE - held + MARGIN:
                return False
            os.posix_fallocate(descriptor, 0, SIZE)
        except OSError as error:
            return self._no_space(error)
        finally:
            os.close(descriptor)
        self.held = True
        return True

    def release(self) -> None:
        """Gives the space back to the file system."""
        self.held = False
        self._path.unlink(missing_ok=True)

    def _no_space(self, error: OSError) -> bool:
        if error.errno not in _FULL_ERRORS:
            log.warning("space for deletions on a full disk could not be reserved", error=error)
            return True  # for example a file system without allocation: nothing more can be done
        self.release()
        return False


def is_full(error: sqlite3.Error, directory: Path) -> bool:
    """Whether a write failed because the disk is full."""
    if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL:
        return True
    if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_IOERR:
        return False
    space = os.statvfs(directory)  # some failures for lack of space are reported as I/O errors
    return space.f_bavail * space.f_frsize < MARGIN
