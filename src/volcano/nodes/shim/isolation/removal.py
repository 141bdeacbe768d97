"""Removal of directory trees: small ones directly, large ones in the background."""

import contextlib
import os
import shutil
import tempfile

from volcano.nodes.shim.isolation import syscalls

_MOST_ENTRIES = 2000  # of a tree that is removed directly


def remove_tree(path: str) -> None:
    """Removes a tree, including an overlay's unreadable work directory; a missing one is ignored."""
    shutil.rmtree(path, onerror=_delete_unreadable)


def remove_in_background(path: str, trash: str) -> None:
    """Removes a tree; a large one is moved away and removed by a detached process."""
    if _is_small(path):
        remove_tree(path)
        return
    os.makedirs(trash, exist_ok=True)
    moved = tempfile.mkdtemp(dir=trash)
    with contextlib.suppress(OSError):  # on another filesystem it is removed in place
        os.rename(path, os.path.join(moved, "tree"))
    child = os.fork()
    if child == 0:
        try:
            if os.fork() == 0:
                # Descriptors of the shim, such as its lock, must not stay open in this process.
                syscalls.close_from(3)
                remove_tree(moved)
                remove_tree(path)
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def remove_leftovers(directory: str, own: str) -> list[str]:
    """Removes what an earlier shim left in a data directory: pods' sandboxes, and its own directory `own`."""
    removed: list[str] = []
    for sandbox in [*_sandboxes(directory), own]:
        if os.path.lexists(sandbox):
            remove_tree(sandbox)
            removed.append(sandbox)
    return removed


def _sandboxes(directory: str) -> list[str]:
    try:
        with os.scandir(os.path.join(directory, "pods")) as pods:
            return [os.path.join(pod.path, "sandbox") for pod in pods]
    except OSError:
        return []


def _is_small(path: str) -> bool:
    count = 0
    for _, directories, files in os.walk(path):
        count += len(directories) + len(files)
        if count > _MOST_ENTRIES:
            return False
    return True


def _delete_unreadable(_function: object, failed: str, _error: object) -> None:
    """Makes a directory accessible and removes it: an overlay's work directory has mode 0."""
    try:
        if os.path.isdir(failed) and not os.path.islink(failed):
            if os.stat(failed).st_mode & 0o700 != 0o700:
                os.chmod(failed, 0o700)
                shutil.rmtree(failed, ignore_errors=True)
        else:
            os.chmod(os.path.dirname(failed), 0o700)
            os.unlink(failed)
    except OSError:
        pass  # removed concurrently, or not permitted
