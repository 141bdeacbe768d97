"""Directories of clusters, and the state file by which other commands find a running one."""

import json
import os
import re
import signal
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from volcano.base.http.tls_context import write_private
from volcano.base.os_errors import explain_os_error

STATE_FILE = "cluster.json"
LOG_FILE = "volcano.log"
STORE = "store"
PODS = "pods"
VOLUMES = "volumes"
ACCOUNTING = "accounting"
OURS = (
    STATE_FILE,
    LOG_FILE,
    STORE,
    PODS,
    VOLUMES,
    ACCOUNTING,
    "shim",
    "isolation",
    "dashboard.json",
    "dashboard.key",
)
POLL = 0.05
DEFAULT_NAME = "default"
CONTEXT = "volcano"  # of the default cluster in kubeconfigs
CLUSTERS = "volcano-clusters"  # directory of named clusters
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
LONGEST_NAME = 40


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
    name: str = DEFAULT_NAME
    context: str = CONTEXT  # in kubeconfigs
    previous_context: str = ""  # current one of the kubeconfig before this cluster was added


def default_directory() -> Path:
    """The default data directory of a durable cluster."""
    return _data_home() / "volcano"


def memory_directory() -> Path:
    """The directory of the kubeconfig and state file of a cluster in memory."""
    return _runtime_directory() / "volcano-in-memory"


def cluster_directory(name: str, *, in_memory: bool = False) -> Path:
    """The directory of a cluster by its name; of the default one without a name."""
    if name in ("", DEFAULT_NAME):
        return memory_directory() if in_memory else default_directory()
    return _runtime_directory() / f"volcano-in-memory-{name}" if in_memory else clusters_directory() / name


def context_of(name: str) -> str:
    """Context of a cluster in kubeconfigs: `volcano`, or `volcano-NAME`."""
    return CONTEXT if name == DEFAULT_NAME else f"{CONTEXT}-{name}"


def clusters_directory() -> Path:
    """The directory of named clusters, and of the kubeconfig with a context for each running cluster."""
    return _data_home() / CLUSTERS


def _data_home() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")


def _runtime_directory() -> Path:
    return Path(os.environ.get("XDG_RUNTIME_DIR") or f"{tempfile.gettempdir()}/volcano-{os.getuid()}")


class DirectoryError(Exception):
    """A directory that cannot be used for a cluster; it is left unchanged."""


def make_private(directory: Path) -> None:
    """Creates a directory readable by its owner only, as it holds the cluster's keys. Rejects foreign
    directories."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        foreign = sorted(entry.name for entry in directory.iterdir() if entry.name not in OURS)
    except OSError as error:
        reason = explain_os_error(error, str(directory))
        raise DirectoryError(f"cannot be used as a data directory: {reason}") from None
    if foreign and not (directory / STORE).exists() and not (directory / "ca.crt").exists():
        held = ", ".join(foreign[:3])
        raise DirectoryError(
            f"{directory}: not a data directory of volcano (it contains {held}); choose a new or empty one"
        )
    try:
        directory.chmod(0o700)  # one that existed before may be open to others
    except OSError as error:
        raise DirectoryError(f"cannot be made private: {explain_os_error(error, str(directory))}") from None


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
