"""Clusters of this user: the kubeconfig with a context for each that runs, and where to find them.

The file is not the user's own kubeconfig, which is changed only where `--kubeconfig` names it.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from volcano.embedded import state
from volcano.embedded.kubeconfig import recorded_directories, remove_context, write_kubeconfig

if TYPE_CHECKING:  # it imports the cryptography library, which vcctl does not need
    from volcano.embedded.credentials import Credentials


def shared_kubeconfig() -> Path:
    """The kubeconfig with a context for each running cluster."""
    return state.clusters_directory() / "kubeconfig.yaml"


def add(running: state.Running, credentials: "Credentials") -> None:
    """Adds a running cluster to the shared kubeconfig."""
    with _locked():
        write_kubeconfig(
            shared_kubeconfig(), running.url, credentials, running.context, Path(running.directory)
        )


def remove(running: state.Running) -> None:
    """Removes a stopped cluster from the shared kubeconfig, and from the one that the user has named."""
    own = Path(running.directory) / "kubeconfig"
    named = Path(running.kubeconfig)
    with _locked():
        remove_context(shared_kubeconfig(), running.context)
        if named != own:
            remove_context(named, running.context, running.previous_context)


def forget(directory: Path) -> None:
    """Removes a cluster that was killed from the shared kubeconfig."""
    with _locked():
        for context, place in recorded_directories(shared_kubeconfig()).items():
            if place == directory:
                remove_context(shared_kubeconfig(), context)


def running_clusters() -> list[state.Running]:
    """Every running cluster of this user: the default ones first, then by name."""
    found = {running.directory: running for place in _places() if (running := state.find(place)) is not None}
    return sorted(found.values(), key=lambda running: (running.name != state.DEFAULT_NAME, running.name))


def stopped_clusters() -> list[Path]:
    """Data directories of clusters that do not run and can be started again."""
    running = {running.directory for running in running_clusters()}
    return [
        place
        for place in _places()
        if (place / state.STORE).exists() and str(place.absolute()) not in running
    ]


def unexpected_ends() -> list[state.UnexpectedEnd]:
    """Clusters of this user that ended unexpectedly and were not resumed, the latest first."""
    found = [end for place in _places() if (end := state.unexpected_end(place)) is not None]
    return sorted(found, key=lambda end: -end.when)


def find_any() -> state.Running | None:
    """The cluster that is meant without a name: a default one, or the only one that runs."""
    usual = state.find(state.default_directory()) or state.find(state.memory_directory())
    if usual is not None:
        return usual
    running = running_clusters()
    return running[0] if len(running) == 1 else None


def _places() -> list[Path]:
    """Directories in which clusters may be, each once."""
    named = state.clusters_directory()
    directories = sorted(path for path in named.iterdir() if path.is_dir()) if named.is_dir() else []
    recorded = recorded_directories(shared_kubeconfig()).values()
    return list(dict.fromkeys((state.default_directory(), state.memory_directory(), *directories, *recorded)))


@contextmanager
def _locked() -> Iterator[None]:
    """Excludes other commands that change the shared kubeconfig; the lock ends with the process."""
    directory = state.clusters_directory()
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
