"""Directories of clusters, and the state file by which other commands find a running one."""

import json
import os
import re
import signal
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
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


@dataclass(frozen=True, slots=True)
class UnexpectedEnd:
    """A cluster whose process ended without being stopped, as after a crash of the machine."""

    running: Running
    when: float  # wall time of its last write

    def __str__(self) -> str:
        running = self.running
        named = f" --name {running.name}" if running.name != DEFAULT_NAME else ""
        at = datetime.fromtimestamp(self.when).astimezone().isoformat(" ", "seconds")
        return (
            f"process {running.pid} of cluster {running.name} ended unexpectedly, about {at}; "
            f"`volcano up{named}` resumes it"
        )


def announce(running: Running) -> None:
    """Writes the state file, by which other commands find this cluster."""
    _write(running, ended=False)


def mark_ended(directory: Path) -> None:
    """Records in the state file, if there is one, that the cluster was stopped."""
    running, _ = _read(directory)
    if running is not None:
        try:
            _write(running, ended=True)
        except OSError:  # on a full disk; only the port of the next start depends on it
            retract(directory)


def _write(running: Running, *, ended: bool) -> None:
    content = json.dumps({**asdict(running), "ended": ended}, indent=2)
    write_private(Path(running.directory) / STATE_FILE, content.encode() + b"\n")


def _read(directory: Path) -> tuple[Running | None, bool]:
    """The content of the state file, and whether the cluster was stopped. Earlier versions did not record that."""
    try:
        content = json.loads((directory / STATE_FILE).read_text())
        ended = bool(content.pop("ended", True))
        return Running(**content), ended
    except (OSError, ValueError, TypeError, AttributeError):
        return None, True


def retract(directory: Path) -> None:
    """Removes the state file."""
    (directory / STATE_FILE).unlink(missing_ok=True)


def find(directory: Path) -> Running | None:
    """The cluster that runs from a directory; None when none does."""
    running, _ = _read(directory)
    return running if running is not None and is_alive(running.pid) else None


def unexpected_end(directory: Path) -> UnexpectedEnd | None:
    """How the cluster of a directory ended, if its process neither runs nor was stopped, and it can be resumed."""
    running, ended = _read(directory)
    if running is None or ended or not running.durable or is_alive(running.pid):
        return None
    written = [0.0]
    for path in (directory / STATE_FILE, *(directory / STORE).glob("store.db*")):
        with suppress(OSError):
            written.append(path.stat().st_mtime)
    return UnexpectedEnd(running, max(written))


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
