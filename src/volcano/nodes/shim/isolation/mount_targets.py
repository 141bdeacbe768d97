"""Mount targets of volumes in a container's root: resolved with descriptors inside the root, created if missing."""

import errno
import os
import stat
from collections.abc import Sequence

from volcano.nodes.shim.isolation import syscalls

_MOST_LINKS = 40  # the kernel's own limit
_MOST_ENTRIES = 256
_PATH = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def path_parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def open_target(root: int, target: str, *, directory: bool) -> tuple[int, str]:
    """Returns the open parent directory (to be closed) and the name of `target` below the open directory
    `root`.

    Symbolic links are resolved inside the root, so that none leads out of it even if they change
    meanwhile.
    """
    parents = [("", os.dup(root))]  # name and descriptor of each directory, from the root down
    left = path_parts(target)[::-1]
    links = 0
    try:
        while left:
            name = left.pop()
            here = parents[-1][1]
            pointed = _link(here, name)
            if name == "..":
                if len(parents) > 1:
                    os.close(parents.pop()[1])
            elif pointed is not None:
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), target)
                if pointed.startswith("/"):
                    _close(parents[1:])
                    del parents[1:]
                left.extend(path_parts(pointed)[::-1])
            else:
                _make(parents, name, directory=bool(left) or directory)
                if not left:
                    return os.dup(parents[-1][1]), name
                parents.append((name, os.open(name, _PATH | os.O_DIRECTORY, dir_fd=parents[-1][1])))
    finally:
        _close(parents)
    raise OSError(errno.EBUSY, "the root itself cannot be a mount's target", target)


def _make(parents: list[tuple[str, int]], name: str, *, directory: bool) -> None:
    """Creates a file or directory in the last of `parents`, which is covered with a tmpfs if it is read-only."""
    try:
        _create(parents[-1][1], name, directory=directory)
    except FileExistsError:
        return
    except OSError as error:
        if error.errno != errno.EROFS or len(parents) < 2:
            raise
        _cover_with_tmpfs(parents)
        _create(parents[-1][1], name, directory=directory)


def _create(parent: int, name: str, *, directory: bool) -> None:
    if directory:
        os.mkdir(name, 0o755, dir_fd=parent)
    else:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(name, flags, 0o644, dir_fd=parent))


def _cover_with_tmpfs(parents: list[tuple[str, int]]) -> None:
    """Covers a read-only directory with a tmpfs that shows the same entries and can have more."""
    name, covered = parents[-1]
    readable = os.open(f"/proc/self/fd/{covered}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        children = os.listdir(readable)
    finally:
        os.close(readable)
    if len(children) > _MOST_ENTRIES:
        raise OSError(errno.EROFS, f"{os.strerror(errno.EROFS)}, with too much in it to be shown elsewhere")
    syscalls.mount("opened", f"/proc/self/fd/{covered}", "tmpfs", syscalls.MS_NODEV, "mode=0755")
    cover = os.open(name, _PATH | os.O_DIRECTORY, dir_fd=parents[-2][1])
    parents[-1] = (name, cover)
    try:
        for child in children:
            _bind_child(child, covered, cover)
    finally:
        os.close(covered)


def _bind_child(child: str, covered: int, cover: int) -> None:
    pointed = _link(covered, child)
    if pointed is not None:
        os.symlink(pointed, child, dir_fd=cover)
        return
    is_directory = stat.S_ISDIR(os.stat(child, dir_fd=covered, follow_symlinks=False).st_mode)
    _create(cover, child, directory=is_directory)
    syscalls.bind(f"/proc/self/fd/{covered}/{child}", f"/proc/self/fd/{cover}/{child}")


def _link(parent: int, name: str) -> str | None:
    try:
        return os.readlink(name, dir_fd=parent)
    except OSError:
        return None  # not a link, or missing


def _close(parents: Sequence[tuple[str, int]]) -> None:
    for _, descriptor in parents:
        os.close(descriptor)
