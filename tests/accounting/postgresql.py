"""A private PostgreSQL server for tests: a temporary directory, a Unix socket, no network."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

USER = "volcano"
# The server refuses to run as root; these users exist where it is installed, or everywhere.
UNPRIVILEGED = ("postgres", "nobody")
QUICK = "-c fsync=off -c synchronous_commit=off -c full_page_writes=off -c listen_addresses="


def programs() -> Path | None:
    """The directory of initdb and pg_ctl; None where PostgreSQL is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: path.parts[-3])
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


@contextmanager
def server(binaries: Path) -> Iterator["Server"]:
    directory = Path(tempfile.mkdtemp(prefix="volcano-pg-", dir="/tmp"))
    user = _owner(directory)
    data = directory / "data"
    try:
        _run(user, binaries / "initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync")
        options = f"{QUICK} -c unix_socket_directories={directory}"
        _run(user, binaries / "pg_ctl", "-D", data, "-w", "-l", directory / "log", "-o", options, "start")
        try:
            yield Server(directory, binaries, user)
        finally:
            _run(user, binaries / "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class Server:
    def __init__(self, directory: Path, binaries: Path, user: str | None) -> None:
        self._directory, self._binaries, self._user = directory, binaries, user
        self._count = 0

    def new_database(self) -> str:
        """URL of a new empty database."""
        self._count += 1
        name = f"test{self._count}"
        _run(self._user, self._binaries / "createdb", "-h", self._directory, "-U", USER, name)
        return f"postgresql://{USER}@/{name}?host={self._directory}"

    def restart(self) -> None:
        """Stops the server at once, connections included, and starts it again."""
        control = self._binaries / "pg_ctl"
        options = f"{QUICK} -c unix_socket_directories={self._directory}"
        arguments = ("-D", self._directory / "data", "-w", "-m", "fast", "-l", self._directory / "log")
        _run(self._user, control, *arguments, "-o", options, "restart")


def _owner(directory: Path) -> str | None:
    if os.geteuid() != 0:
        return None
    for name in UNPRIVILEGED:
        try:
            shutil.chown(directory, user=name)
        except LookupError:
            continue
        return name
    raise RuntimeError(f"PostgreSQL cannot run as root, and none of {', '.join(UNPRIVILEGED)} exists")


def _run(user: str | None, *command: object) -> None:
    done = subprocess.run(
        [str(part) for part in command],
        user=user,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr}")
