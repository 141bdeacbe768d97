"""subPath mounts: paths within a volume that no link may lead out of."""

import os
import stat
from pathlib import Path

from volcano.nodes.shim.specs import Failure

CONFIG_ERROR = "CreateContainerConfigError"
_OPEN = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def resolve_subpath(volume: str, sub_path: str, *, mount: str, container: str) -> str:
    """The real path of a subPath; missing directories are created with the mode of the volume."""
    if sub_path.startswith("/"):
        raise Failure(CONFIG_ERROR, f"error SubPath `{sub_path}` must not be an absolute path")
    if ".." in sub_path.split("/"):
        raise Failure(CONFIG_ERROR, f"unable to provision SubPath `{sub_path}`: must not contain '..'")
    root = os.path.realpath(volume)
    wanted = os.path.realpath(os.path.join(root, sub_path))
    where = f'subPath directory for volumeMount "{mount}" of container "{container}"'
    if not _is_below(root, wanted):
        raise Failure(CONFIG_ERROR, f"failed to prepare {where}: {sub_path} leads out of its volume")
    try:
        if not os.path.lexists(wanted):
            _make(root, os.path.relpath(wanted, root))
        _walk(root, os.path.relpath(wanted, root))
    except OSError as error:
        raise Failure(CONFIG_ERROR, f"failed to create {where}: {sub_path}: {error.strerror}") from None
    return wanted


def _is_below(root: str, path: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _make(root: str, relative: str) -> None:
    """Creates directories one by one, each relative to the parent just opened: no swapped-in link is
    followed."""
    mode = stat.S_IMODE(os.stat(root).st_mode)
    at = os.open(root, _OPEN | os.O_DIRECTORY)
    try:
        for name in Path(relative).parts:
            try:
                os.mkdir(name, dir_fd=at)
                made = True
            except FileExistsError:
                made = False
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = below
            if made:
                os.fchmod(at, mode)
    finally:
        os.close(at)


def _walk(root: str, relative: str) -> None:
    """Raises when a component of the path is a link."""
    at = os.open(root, _OPEN)
    try:
        for name in () if relative == "." else Path(relative).parts:
            below = os.open(name, _OPEN, dir_fd=at)
            os.close(at)
            at = below
            if stat.S_ISLNK(os.fstat(at).st_mode):
                raise OSError(0, "a link was found on the way")
    finally:
        os.close(at)
