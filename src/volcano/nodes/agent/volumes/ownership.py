"""fsGroup: the files of a volume belong to a group that may read and write them, as far as we may give them away."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

_READ_WRITE, _READ_ONLY, _ENTER = 0o660, 0o440, 0o110


def give_to_group(root: Path, group: int, *, read_only: bool, only_on_mismatch: bool = False) -> None:
    """Gives everything below `root` to a group. What we may not change stays as it is, as with a kubelet."""
    if only_on_mismatch and _given(root, group, read_only):
        return
    for path in _deepest_first(root):
        _give(path, group, read_only)


def _give(path: str, group: int, read_only: bool) -> None:
    try:
        mode = os.lstat(path).st_mode
        os.lchown(path, -1, group)
        if not stat.S_ISLNK(mode):
            os.chmod(path, stat.S_IMODE(mode) | _wanted(mode, read_only))
    except (PermissionError, FileNotFoundError):
        return


def _wanted(mode: int, read_only: bool) -> int:
    bits = _READ_ONLY if read_only else _READ_WRITE
    return bits | _ENTER | stat.S_ISGID if stat.S_ISDIR(mode) else bits


def _given(root: Path, group: int, read_only: bool) -> bool:
    status = root.stat()
    wanted = _wanted(status.st_mode, read_only)
    return status.st_gid == group and status.st_mode & wanted == wanted


def _deepest_first(root: Path) -> Iterator[str]:
    """The root last: whoever is interrupted finds it not yet given."""
    if root.is_dir() and not root.is_symlink():
        for folder, names, files in os.walk(root, topdown=False):
            yield from (os.path.join(folder, name) for name in (*files, *names))
    yield str(root)
