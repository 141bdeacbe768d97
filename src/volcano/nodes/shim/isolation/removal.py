"""Directory trees that go: at once when they are small, in the background when a container has left much behind."""

import contextlib
import os
import shutil
import tempfile

from volcano.nodes.shim.isolation import syscalls

_MOST_ENTRIES = 2000  # entries


def remove_tree(path: str) -> None:
    """Deletes a tree, an overlay's unreadable work directory included; what is not there is no matter."""
    shutil.rmtree(path, onerror=_delete_unreadable)


def remove_in_background(path: str, trash: str) -> None:
    """Takes a tree out of the way, and deletes it; a large one by a process of its own that nobody waits for."""
    if _is_small(path):
        remove_tree(path)
        return
    os.makedirs(trash, exist_ok=True)
    moved = tempfile.mkdtemp(dir=trash)
    with contextlib.suppress(OSError):  # on another file system it is deleted where it is
        os.rename(path, os.path.join(moved, "tree"))
    child = os.fork()
    if child == 0:
        try:
            if os.fork() == 0:
                # Nobody must take us for the shim because of what it held open.
                syscalls.close_from(3)
                remove_tree(moved)
                remove_tree(path)
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def remove_leftovers(directory: str, own: str) -> list[str]:
    """What an earlier shim left in a data directory: pods' sandboxes, and `own`, which was its own."""
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
    """An overlay's work directory lets nobody in, and a program may have left others like it."""
    try:
        if os.path.isdir(failed) and not os.path.islink(failed):
            if os.stat(failed).st_mode & 0o700 != 0o700:
                os.chmod(failed, 0o700)
                shutil.rmtree(failed, ignore_errors=True)
        else:
            os.chmod(os.path.dirname(failed), 0o700)
            os.unlink(failed)
    except OSError:
        pass  # somebody else deletes it at the same time, or it is not ours to delete
