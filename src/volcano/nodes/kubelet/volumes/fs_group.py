"""fsGroup: makes the files of a volume accessible to a group, as far as this process may change them."""

import os
import stat
from pathlib import Path

_READ_WRITE, _READ_ONLY, _ENTER = 0o660, 0o440, 0o110


def set_volume_ownership(root: Path, group: int, *, read_only: bool, only_on_mismatch: bool = False) -> None:
    """Changes the group of everything below `root`. As in the kubelet, files that may not be changed are skipped."""
    root = root.resolve()
    if only_on_mismatch and _is_owned(root, group, read_only):
        return
    if root.is_dir():
        for _, folders, files, at in os.fwalk(root, topdown=False):
            for name in (*files, *folders):
                _set_owner(name, at, group, read_only)
    _set_owner(str(root), None, group, read_only)  # last, so that an interrupted run is repeated


def _set_owner(name: str, folder: int | None, group: int, read_only: bool) -> None:
    """Opens the file before the check: a container that shares the volume must not swap in a link to a host file."""
    try:
        at = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except (PermissionError, FileNotFoundError):
        return
    try:
        mode = os.fstat(at).st_mode
        if stat.S_ISLNK(mode):
            os.chown(name, -1, group, dir_fd=folder, follow_symlinks=False)
        else:
            os.chown(f"/proc/self/fd/{at}", -1, group)
            os.chmod(f"/proc/self/fd/{at}", stat.S_IMODE(mode) | _wanted(mode, read_only))
    except (PermissionError, FileNotFoundError):
        return
    finally:
        os.close(at)


def _wanted(mode: int, read_only: bool) -> int:
    bits = _READ_ONLY if read_only else _READ_WRITE
    return bits | _ENTER | stat.S_ISGID if stat.S_ISDIR(mode) else bits


def _is_owned(root: Path, group: int, read_only: bool) -> bool:
    status = root.stat()
    wanted = _wanted(status.st_mode, read_only)
    return status.st_gid == group and status.st_mode & wanted == wanted
