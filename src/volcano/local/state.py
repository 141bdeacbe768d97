"""Directories of clusters, and the state file by which other commands find a running one."""

import json
import os
import signal
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from volcano.net.tls_context import write_private

STATE_FILE = "cluster.json"
LOG_FILE = "volcano.log"
STORE = "store"
PODS = "pods"
VOLUMES = "volumes"
OURS = (STATE_FILE, LOG_FILE, STORE, PODS, VOLUMES, "shim", "isolation")
POLL = 0.05


@dataclass(frozen=True, slots=True)
class Running:
    """The state file of a running cluster."""

    pid: int
    url: str
    kubeconfig: str
    directory: str
    durable: bool
    nodes: int  # simulated
    local_nodes: int
    runtime: str  # of the local nodes; empty when there are none
    started: str
    version: str


def default_directory() -> Path:
    """The default data directory of a durable cluster."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "volcano"


def memory_directory() -> Path:
    """The directory of the kubeconfig and state file of a cluster in memory."""
    base = os.environ.get("XDG_RUNTIME_DIR") or f"{tempfile.gettempdir()}/volcano-{os.getuid()}"
    return Path(base) / "volcano-in-memory"


class DirectoryError(Exception):
    """A directory that cannot be used for a cluster; it is left unchanged."""


def make_private(directory: Path) -> None:
    """Creates a directory readable by its owner only, as it holds the cluster's keys. Rejects foreign
    directories."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        foreign = sorted(entry.name for entry in directory.iterdir() if entry.name not in OURS)
    except OSError as error:
        raise DirectoryError(f"{directory}: cannot be used as a data directory: {error.strerror}") from None
    if foreign and not (directory / STORE).exists() and not (directory / "ca.crt").exists():
        held = ", ".join(foreign[:3])
        raise DirectoryError(
            f"{directory}: is no data directory of ours (it holds {held}); choose a new or empty one"
        )
    try:
        directory.chmod(0o700)  # one that existed before may be open to others
    except OSError as error:
        raise DirectoryError(f"{directory}: cannot be made private: {error.strerror}") from None


def announce(running: Running) -> None:
    """Writes the state file, by which other commands find this cluster."""
    write_private(
        Path(running.directory) / STATE_FILE, json.dumps(asdict(running), indent=2).encode() + b"\n"
    )


def retract(directory: Path) -> None:
    """Removes the state file."""
    (directory / STATE_FILE).unlink(missing_ok=True)


def find(directory: Path) -> Running | None:
    """The cluster that runs from a directory; None when none does."""
    try:
        running = Running(**json.loads((directory / STATE_FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return running if is_alive(running.pid) else None


def find_any() -> Running | None:
    """A running cluster in one of the default directories."""
    return find(default_directory()) or find(memory_directory())


def is_alive(pid: int) -> bool:
    """Whether the process runs and is volcano: ids are reused, so its command line is checked."""
    try:
        os.kill(pid, 0)
        command = Path(f"/proc/{pid}/cmdline")
        state = Path(f"/proc/{pid}/stat")
        if state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z":
            return False
        return not command.exists() or b"volcano" in command.read_bytes()
    except (ProcessLookupError, PermissionError, FileNotFoundError):
        return False


def end(running: Running, *, within: float) -> bool:
    """Stops a cluster and waits; False when it still runs at the end."""
    try:
        os.kill(running.pid, signal.SIGTERM)
    except ProcessLookupError:
        return True
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if not is_alive(running.pid):
            return True
        time.sleep(POLL)
    return False
