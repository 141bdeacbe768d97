"""Commands that maintain a data directory: `volcano backup`, `volcano restore`, `volcano check`."""

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from volcano.apiserver.storage.snapshot import Salvaged
from volcano.cli.errors import CommandError, UsageError
from volcano.embedded import backup as backups
from volcano.embedded import state
from volcano.embedded.backup import BackupError
from volcano.embedded.directory_check import DirectoryReport, check_backup, check_directory

DAMAGED = 1  # exit code of a check that found damage
_REPORT_AFTER = 1.0  # seconds; shorter steps report nothing
_REPORT_EVERY = 2.0
_SHOWN = 20  # problems in a table; JSON has more
_WIDE = 200


class ProgressLines:
    """Reports the steps of long operations on standard error."""

    def __init__(self) -> None:
        self._step = ""
        self._started = self._reported = 0.0

    def __call__(self, step: str, done: int, total: int) -> None:
        now = time.monotonic()
        if step != self._step:
            self._step, self._started, self._reported = step, now, 0.0
        late = now - self._started >= _REPORT_AFTER and now - self._reported >= _REPORT_EVERY
        if late or (self._reported and done >= total):
            self._reported = now
            percent = 100 * done // max(total, 1)
            print(f"{step}: {percent} % ({done} of {total})", file=sys.stderr, flush=True)


def backup(arguments: argparse.Namespace) -> int:
    """Writes a backup of a data directory."""
    directory = _directory(arguments)
    try:
        made = backups.back_up(
            directory, arguments.file, time.time(), overwrite=arguments.force, progress=ProgressLines()
        )
    except BackupError as error:
        raise CommandError(str(error)) from None
    size = arguments.file.stat().st_size
    print(
        f"wrote {arguments.file}: {_objects(sum(made.objects.values()))} at revision {made.revision}, {_size(size)}; "
        "it contains the cluster's keys and Secrets"
    )
    return 0


def restore(arguments: argparse.Namespace) -> int:
    """Restores a backup to a data directory."""
    directory = _directory(arguments)
    try:
        made, revision = backups.restore(
            arguments.file, directory, overwrite=arguments.force, progress=ProgressLines()
        )
    except BackupError as error:
        raise CommandError(str(error)) from None
    print(
        f"restored {_objects(sum(made.objects.values()))} of {made.created} to {directory}; "
        f"revisions continue from {revision}"
    )
    print(f"To start it: volcano up --data-dir {directory}")
    return 0


def check(arguments: argparse.Namespace) -> int:
    """Checks a data directory or a backup, and writes what is intact to a new directory if asked to."""
    directory, progress = _directory(arguments), ProgressLines()
    if arguments.file is not None and arguments.salvage is not None:
        raise UsageError("--salvage reads a data directory, not a backup; leave FILE out")
    try:
        report = (
            check_backup(arguments.file, progress) if arguments.file else check_directory(directory, progress)
        )
        salvaged = backups.salvage(directory, arguments.salvage, progress) if arguments.salvage else None
    except BackupError as error:
        raise CommandError(str(error)) from None
    if arguments.output == "json":
        print(json.dumps(_as_json(report, salvaged), indent=2))
    else:
        _print(report)
        if salvaged is not None:
            print(
                f"salvaged {_objects(salvaged.objects)} from {salvaged.rows} intact rows to {arguments.salvage}; "
                f"revisions continue from {salvaged.revision}"
            )
    return 0 if report.intact else DAMAGED


def _directory(arguments: argparse.Namespace) -> Path:
    chosen: Path = arguments.data_dir or state.cluster_directory(arguments.cluster_name)
    return chosen.absolute()


def _as_json(report: DirectoryReport, salvaged: Salvaged | None) -> dict[str, object]:
    found = {"intact": report.intact, **asdict(report)}
    return found if salvaged is None else {**found, "salvaged": asdict(salvaged)}


def _print(report: DirectoryReport) -> None:
    store = report.store
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_row("CHECKED", report.path)
    table.add_row("SIZE", _size(store.bytes))
    table.add_row("ROWS", f"{store.rows}, {store.damaged_rows} damaged")
    table.add_row("OBJECTS", f"{sum(store.objects.values())} of {len(store.objects)} kinds")
    table.add_row("REVISION", str(store.revision))
    if report.accounting is not None:
        table.add_row("ACCOUNTING", f"{report.accounting.runs} runs, {report.accounting.jobs} jobs")
    table.add_row("RESULT", "intact" if report.intact else "damaged")
    console = Console()
    (console if console.is_terminal else Console(width=_WIDE)).print(table)
    problems = [*report.problems, *store.problems]
    for text in problems[:_SHOWN]:
        print(f"  problem: {text}")
    hidden = len(report.problems) + store.problem_count - min(len(problems), _SHOWN)
    if hidden:
        print(f"  ... and {hidden} more; -o json lists up to 100")
    for text in report.warnings:
        print(f"  warning: {text}")


def _objects(count: int) -> str:
    return f"{count} object{'' if count == 1 else 's'}"


def _size(count: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count} {unit}"
        count //= 1024
    return f"{count} GiB"
