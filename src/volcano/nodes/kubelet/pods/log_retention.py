"""Logs of pods that are kept when their node is stopped, until the pods are deleted; bounded in bytes."""

from contextlib import suppress
from pathlib import Path

from volcano.nodes.kubelet.options import CONTAINERS
from volcano.nodes.kubelet.volumes.store import remove_tree

MOST_BYTES = 1 << 30  # of all pods of a host


def keep_only_logs(pods: Path, most_bytes: int = MOST_BYTES) -> bool:
    """Removes everything but the newest logs from the directories of stopped pods; whether there was anything else."""
    removed = False
    for pod in list(pods.iterdir()) if pods.is_dir() else ():
        for entry in list(pod.iterdir()) if pod.is_dir() and not pod.is_symlink() else ():
            if entry.name != CONTAINERS:
                _remove(entry)
                removed = True
    logs = _logs(pods)
    for path in set(pods.glob(f"*/{CONTAINERS}/*/*")).difference(logs):
        _remove(path)
    _remove_oldest(logs, most_bytes)
    for pod in list(pods.iterdir()) if pods.is_dir() else ():
        if not _logs(pods, pod.name):
            _remove(pod)
    with suppress(OSError):  # logs are kept, or there is no directory
        pods.rmdir()
    return removed


def _logs(pods: Path, pod: str = "*") -> list[Path]:
    return [path for path in pods.glob(f"{pod}/{CONTAINERS}/*/*.log*") if path.is_file()]


def _remove_oldest(logs: list[Path], most_bytes: int) -> None:
    found = [(path.stat(), path) for path in logs]
    kept = 0
    for status, path in sorted(found, key=lambda entry: -entry[0].st_mtime):
        kept += status.st_size
        if kept > most_bytes:
            path.unlink(missing_ok=True)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
    else:
        with suppress(FileNotFoundError):
            path.unlink()
