"""Backup of a data directory to one file, and restoring it: the store, the accounting database and the cluster's keys.

The file is a compressed tar archive that only its owner can read, as it contains all Secrets and keys of the cluster.
"""

import hashlib
import json
import os
import shutil
import sqlite3
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from volcano import __version__
from volcano.accounting.store.file_check import FILE as ACCOUNTING_FILE
from volcano.accounting.store.file_check import accounting_database, check_accounting
from volcano.apiserver.storage.data_directory import (
    DATABASE,
    FORMAT,
    MARKER,
    DataDirectory,
    DataDirectoryError,
)
from volcano.apiserver.storage.integrity import Progress, check_store
from volcano.apiserver.storage.snapshot import Salvaged, copy_database, rebuild_database, salvage_database
from volcano.base.clock import timestamp
from volcano.base.os_errors import explain_os_error
from volcano.embedded import state
from volcano.embedded.credentials import FILES

BACKUP_FORMAT = 2
READ_FORMATS = (1, BACKUP_FORMAT)  # the first had no accounting database
INDEX = "backup.json"
LARGEST_INDEX = 1 << 20  # bytes
_LEVEL = 1  # of compression; more costs time and saves little


class BackupError(Exception):
    """A backup, restore or salvage that was not possible; the message says why."""


@dataclass(frozen=True, slots=True)
class Backup:
    """The index of a backup."""

    format: int
    version: str  # of the program
    created: str
    revision: int
    objects: Mapping[str, int]  # by resource
    files: Mapping[str, str]  # SHA-256 by name


def back_up(directory: Path, target: Path, wall: float, *, overwrite: bool, progress: Progress) -> Backup:
    """Writes a backup of a data directory, whose cluster may be running, to a file."""
    database = directory / state.STORE / DATABASE
    if not database.exists():
        raise BackupError(f"{directory}: has no store; only clusters with a data directory can be backed up")
    if target.exists() and not overwrite:
        raise BackupError(f"{target}: exists; choose another file, or --force to replace it")
    with _working_directory(target.absolute().parent) as work:
        # Accounting first: what ends meanwhile is recorded from the objects of the store, which are newer.
        has_accounting = _copy_accounting(directory, work / ACCOUNTING_FILE, progress)
        _copy(database, work / DATABASE, progress)
        report = check_store(work / DATABASE, progress)
        if report.problems:
            raise BackupError(
                f"{database}: is damaged: {report.problems[0]}; `volcano check --data-dir {directory}` shows more"
            )
        for name in FILES:
            shutil.copyfile(_existing(directory / name), work / name)
        names = (DATABASE, *((ACCOUNTING_FILE,) if has_accounting else ()), *FILES)
        index = Backup(
            BACKUP_FORMAT,
            __version__,
            timestamp(wall),
            report.revision,
            report.objects,
            {name: _digest(work / name) for name in names},
        )
        (work / INDEX).write_text(json.dumps(asdict(index), indent=2) + "\n")
        _pack(work, (INDEX, *names), work / "archive", progress)
        os.replace(work / "archive", target)
    return index


def restore(archive: Path, directory: Path, *, overwrite: bool, progress: Progress) -> tuple[Backup, int]:
    """Restores a backup to a data directory; returns its index and the revision the cluster continues from."""
    with _target(directory, overwrite=overwrite) as work:
        backup = _unpack(archive, work, progress)
        revision = _rebuild(work / DATABASE, work / state.STORE, progress)
        (work / DATABASE).unlink()
        _check_accounting(work / ACCOUNTING_FILE, progress)
        report = check_store(work / state.STORE / DATABASE, progress)
        if report.problems:
            raise BackupError(f"{archive}: the restored store is damaged: {report.problems[0]}")
        _put_in_place(work, directory)
    return backup, revision


def salvage(source: Path, directory: Path, progress: Progress) -> Salvaged:
    """Writes what is intact in a damaged data directory to a new one."""
    database = source / state.STORE / DATABASE
    if not database.exists():
        raise BackupError(f"{database}: does not exist")
    _refuse_running(source)
    with _target(directory, overwrite=False) as work:
        salvaged = salvage_database(database, _new_store(work / state.STORE), progress)
        for name in FILES:
            if (source / name).is_file():  # a missing one is created by the next start
                shutil.copyfile(source / name, work / name)
                os.chmod(work / name, 0o600)
        try:
            _copy_accounting(source, work / ACCOUNTING_FILE, progress)
        except BackupError as error:
            salvaged.lost.append(str(error))
            (work / ACCOUNTING_FILE).unlink(missing_ok=True)
        _put_in_place(work, directory)
    return salvaged


def _copy(database: Path, target: Path, progress: Progress) -> None:
    try:
        copy_database(database, target, progress)
    except sqlite3.Error as error:
        raise BackupError(f"{database}: cannot be copied: {error}") from None


def _copy_accounting(directory: Path, target: Path, progress: Progress) -> bool:
    """Copies the accounting database of a data directory; returns whether there is one."""
    database = accounting_database(directory)
    if not database.exists():
        return False
    _copy(database, target, progress)
    _check_accounting(target, progress)
    return True


def _check_accounting(database: Path, progress: Progress) -> None:
    """Raises BackupError when an accounting database is damaged."""
    report = check_accounting(database, progress)
    if report is not None and report.problems:
        raise BackupError(f"accounting is damaged: {report.problems[0]}")


@contextmanager
def unpacked(archive: Path, progress: Progress) -> Iterator[Path]:
    """The database of a backup in a temporary directory, beside that of accounting, after checking the archive."""
    with tempfile.TemporaryDirectory(prefix="volcano-check-") as work:
        _unpack(archive, Path(work), progress)
        yield Path(work) / DATABASE


@contextmanager
def _working_directory(parent: Path) -> Iterator[Path]:
    """A private directory on the same file system as the result; removed at the end."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".volcano-", dir=parent))
    except OSError as error:
        raise BackupError(f"cannot be written: {explain_os_error(error, str(parent))}") from None
    try:
        yield work
    except OSError as error:
        raise BackupError(explain_os_error(error, str(parent))) from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _target(directory: Path, *, overwrite: bool) -> Iterator[Path]:
    """A working directory beside a data directory that may be written: no cluster uses it."""
    _refuse_running(directory)
    present = sorted(entry.name for entry in directory.iterdir()) if directory.is_dir() else []
    if directory.exists() and not directory.is_dir():
        raise BackupError(f"{directory}: is not a directory")
    if present and not overwrite:
        held = ", ".join(present[:3]) + (", ..." if len(present) > 3 else "")
        raise BackupError(
            f"{directory}: is not empty (it holds {held}); choose a new directory, or --force to replace its store "
            "and keys"
        )
    if present:
        try:
            state.make_private(directory)
        except state.DirectoryError as error:
            raise BackupError(str(error)) from None
    with _working_directory(directory.absolute().parent) as work:
        yield work


def _refuse_running(directory: Path) -> None:
    running = state.find(directory)
    if running is not None:
        raise BackupError(
            f"{directory}: a cluster runs from it, as process {running.pid}; stop it with `volcano down` first"
        )
    if (directory / state.STORE / MARKER).exists():
        try:
            DataDirectory(directory / state.STORE, check=False).release()
        except DataDirectoryError as error:
            raise BackupError(str(error)) from None


def _new_store(directory: Path) -> Path:
    """Creates the directory of a store; returns the path of its database, which does not exist yet."""
    directory.mkdir(mode=0o700)
    (directory / MARKER).write_text(f"{FORMAT}\n")
    return directory / DATABASE


def _rebuild(source: Path, store: Path, progress: Progress) -> int:
    try:
        return rebuild_database(source, _new_store(store), progress)
    except sqlite3.Error as error:
        raise BackupError(f"{source.name} in the backup is damaged: {error}") from None


def _put_in_place(work: Path, directory: Path) -> None:
    """Moves the store, the keys and the accounting database, if there is one, into the data directory; what they
    replace is removed last."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    store, replaced = directory / state.STORE, work / "replaced"
    for name in FILES:
        if (work / name).exists():
            os.replace(work / name, directory / name)
    if (work / ACCOUNTING_FILE).exists():
        held = accounting_database(directory).parent
        if held.exists():  # with its write-ahead log, which belongs to the replaced database
            os.rename(held, work / "replaced-accounting")
        held.mkdir(mode=0o700)
        os.rename(work / ACCOUNTING_FILE, held / ACCOUNTING_FILE)
    if store.exists():
        os.rename(store, replaced)
    os.rename(work / state.STORE, store)


def _pack(work: Path, names: tuple[str, ...], target: Path, progress: Progress) -> None:
    with os.fdopen(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600), "wb") as file:
        with tarfile.open(fileobj=file, mode="w:gz", compresslevel=_LEVEL) as archive:
            for number, name in enumerate(names, 1):
                archive.add(work / name, name, filter=_private)
                progress("writing the archive", number, len(names))
        file.flush()
        os.fsync(file.fileno())


def _private(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mode, member.uid, member.gid, member.uname, member.gname = 0o600, 0, 0, "", ""
    return member


def _unpack(archive: Path, work: Path, progress: Progress) -> Backup:
    """Extracts the files of a backup and compares them with its index."""
    try:
        with tarfile.open(archive, mode="r:gz") as opened:
            first = opened.next()
            content = opened.extractfile(first) if first is not None and first.name == INDEX else None
            if content is None:
                raise BackupError(f"{archive}: is no backup of a cluster: it has no {INDEX}")
            backup = _index_of(archive, content.read(LARGEST_INDEX))
            expected = dict(backup.files)
            for member in opened:
                if member.name == INDEX:
                    continue
                if not member.isfile() or member.name not in expected:
                    raise BackupError(f"{archive}: contains {member.name!r}, which is not part of a backup")
                _extract(opened, member, work / member.name)
                if _digest(work / member.name) != expected.pop(member.name):
                    raise BackupError(f"{archive}: {member.name} is damaged: it does not match its checksum")
                progress("reading the archive", len(backup.files) - len(expected), len(backup.files))
    except FileNotFoundError:
        raise BackupError(f"{archive}: no such file") from None
    except (tarfile.TarError, zlib.error) as error:
        raise BackupError(f"{archive}: cannot be read as a backup: {error}") from None
    except OSError as error:
        raise BackupError(f"cannot be read as a backup: {explain_os_error(error, str(archive))}") from None
    except EOFError as error:
        raise BackupError(f"{archive}: cannot be read as a backup: {error}") from None
    if expected:
        raise BackupError(f"{archive}: is incomplete: {', '.join(sorted(expected))} missing")
    return backup


def _index_of(archive: Path, content: bytes) -> Backup:
    try:
        index: dict[str, Any] = json.loads(content)
        backup = Backup(**index)
    except (ValueError, TypeError):
        raise BackupError(f"{archive}: is damaged: {INDEX} cannot be read") from None
    if backup.format not in READ_FORMATS:
        raise BackupError(
            f"{archive}: has format {backup.format!r}; this version reads formats up to {BACKUP_FORMAT}"
        )
    if set(backup.files) - {ACCOUNTING_FILE} != {DATABASE, *FILES}:
        raise BackupError(f"{archive}: is damaged: its index names other files than those of a backup")
    return backup


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    source = archive.extractfile(member)
    assert source is not None, "it is a file"
    with os.fdopen(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600), "wb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
        file.flush()
        os.fsync(file.fileno())


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise BackupError(f"{path}: is missing; `volcano up` creates it")
    return path


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
