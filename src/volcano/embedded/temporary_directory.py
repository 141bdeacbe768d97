"""Temporary directories of clusters: locked while in use; unlocked ones of killed processes are removed."""

import asyncio
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from volcano.base.log import Log
from volcano.embedded.local_nodes import remove_leftovers
from volcano.nodes.shim.specs import Failure

log = Log("local")

PREFIX = "volcano-once-"


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """A directory for the duration of the block. First removes those that killed processes have left."""
    for abandoned in _own_directories():
        _remove_if_abandoned(abandoned)
    directory, lock = _locked()
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)


def _own_directories() -> list[Path]:
    return [path for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*") if _is_own(path)]


def _is_own(path: Path) -> bool:
    try:
        return path.lstat().st_uid == os.geteuid() and path.is_dir() and not path.is_symlink()
    except OSError:
        return False


def _locked() -> tuple[Path, int]:
    """A new, locked directory; one that another process removes before it is locked is created again."""
    while True:
        directory = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = _try_to_lock(directory)
        if lock is not None and directory.exists():
            return directory, lock
        if lock is not None:
            os.close(lock)


def _try_to_lock(directory: Path) -> int | None:
    """Locks the directory itself, without a file in it; the lock ends with the process."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _remove_if_abandoned(directory: Path) -> None:
    lock = _try_to_lock(directory)
    if lock is None:
        return
    try:
        asyncio.run(remove_leftovers(directory))
    except (OSError, ValueError, Failure) as error:
        log.warning("leftovers of an earlier run not removed", directory=directory, error=error)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)
