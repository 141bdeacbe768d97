"""Checks a data directory: its store, its accounting database and the files of its credentials. Changes nothing."""

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from volcano.accounting.store.file_check import (
    FILE,
    AccountingReport,
    accounting_database,
    check_accounting,
)
from volcano.apiserver.storage.data_directory import DATABASE, FORMAT, MARKER
from volcano.apiserver.storage.integrity import Progress, StoreReport, check_store
from volcano.base.http.tls import Credential, is_pair
from volcano.embedded import state
from volcano.embedded.backup import unpacked
from volcano.embedded.credentials import FILES


@dataclass(slots=True)
class DirectoryReport:
    """Result of a check; intact without problems. Warnings are no damage."""

    path: str
    store: StoreReport
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    accounting: AccountingReport | None = None  # None without an accounting database

    @property
    def intact(self) -> bool:
        return not self.problems and not self.store.problem_count

    def add_accounting(self, report: AccountingReport | None) -> None:
        self.accounting = report
        if report is not None:
            self.problems += report.problems


def check_directory(directory: Path, progress: Progress) -> DirectoryReport:
    """Checks a data directory, whose cluster may be running."""
    report = DirectoryReport(str(directory), check_store(directory / state.STORE / DATABASE, progress))
    _check_marker(directory / state.STORE / MARKER, report)
    report.add_accounting(check_accounting(accounting_database(directory), progress))
    for name in FILES:
        _check_private(directory / name, report)
    for pair in ("ca", "server"):
        _check_pair(directory, pair, report)
    return report


def check_backup(archive: Path, progress: Progress) -> DirectoryReport:
    """Checks a backup. Raises BackupError when it cannot be read."""
    with unpacked(archive, progress) as database:
        report = DirectoryReport(str(archive), check_store(database, progress))
        report.add_accounting(check_accounting(database.with_name(FILE), progress))
    if report.accounting is not None:
        report.accounting.database = f"{archive}: {FILE}"
    report.store.database = f"{archive}: {DATABASE}"
    if stat.S_IMODE(archive.stat().st_mode) & 0o077:
        report.warnings.append(
            f"{archive}: can be read by others; it contains the cluster's keys (chmod 600)"
        )
    return report


def _check_marker(marker: Path, report: DirectoryReport) -> None:
    try:
        text = marker.read_text(errors="replace").strip()
    except OSError as error:
        report.problems.append(f"{marker}: cannot be read: {error.strerror}")
        return
    if text != str(FORMAT):
        report.problems.append(f"{marker}: has format {text[:40]!r}; this version reads format {FORMAT} only")


def _check_private(path: Path, report: DirectoryReport) -> None:
    try:
        mode, size = stat.S_IMODE(path.stat().st_mode), path.stat().st_size
    except OSError:
        report.warnings.append(f"{path}: is missing; the next start creates it, and old credentials end")
        return
    if mode & 0o077:
        report.warnings.append(f"{path}: has mode {mode:04o}; others can read it (chmod 600)")
    if not size or not os.access(path, os.R_OK):
        report.problems.append(f"{path}: is empty or cannot be read")


def _check_pair(directory: Path, name: str, report: DirectoryReport) -> None:
    certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
    if not (certificate.is_file() and key.is_file()):
        return
    if not is_pair(Credential(certificate.read_bytes(), key.read_bytes())):
        report.problems.append(f"{certificate}: does not match {key.name}, or one of them is damaged")
