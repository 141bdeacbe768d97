"""hostPath volumes: paths of this host, created or checked according to their type."""

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from volcano.nodes.kubelet.volumes.payload import MountError

# By type: the test of the file mode, and its name in messages.
_TYPES: dict[str, tuple[Callable[[int], bool], str]] = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "a directory"),
    "File": (stat.S_ISREG, "a file"),
    "FileOrCreate": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket file"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}


def check_host_path(path: str, private: Sequence[Path]) -> None:
    """Raises unless a path is apart from the private ones, links resolved: neither one nor the other contains the
    other. They hold the keys of the cluster, which give every right in it."""
    real = Path(os.path.realpath(path))
    for each in private:
        kept = Path(os.path.realpath(each))
        if real.is_relative_to(kept) or kept.is_relative_to(real):
            raise MountError(
                f"hostPath {path} is not mounted: it contains or is part of {each}, where the keys of this cluster are"
            )


def ensure_host_path(path: str, kind: str) -> None:
    """Ensures that a path has its type. Without a type, a missing path becomes a directory."""
    if kind and kind not in _TYPES:
        raise MountError(f"{kind} is an invalid volume type")
    if not os.path.lexists(path):
        _make(Path(path), kind)
    if not kind:
        return
    fits, name = _TYPES[kind]
    try:
        mode = os.stat(path).st_mode
    except OSError:
        mode = 0
    if not fits(mode):
        raise MountError(f"hostPath type check failed: {path} is not {name}")


def _make(path: Path, kind: str) -> None:
    try:
        if kind in ("", "DirectoryOrCreate"):
            path.mkdir(mode=0o755, parents=True, exist_ok=True)
        elif kind == "FileOrCreate":
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    except OSError as error:
        raise MountError(f"hostPath {path} cannot be made: {error.strerror}") from None
