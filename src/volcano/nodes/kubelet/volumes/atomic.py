"""Directories whose files change all at once: visible names lead through `..data` to a directory made anew."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from volcano.nodes.kubelet.volumes.payload import CannotMount, File, Payload

DATA = "..data"
NEW_DATA = "..data_tmp"
LONGEST_NAME = 255
LONGEST_PATH = 4096


def write(
    directory: Path, payload: Payload, wall: float, give_away: Callable[[Path], None] | None = None
) -> bool:
    """Makes a directory show these files and no others; False when it did so already.

    `give_away` is called with everything in place but not yet visible, to set owners. Readers see the old files or
    the new ones, never a mixture; what a reader has open stays as it was.
    """
    files = {os.path.normpath(path): file for path, file in payload.items() if _checked(path)}
    _check_together(files)
    directory.mkdir(parents=True, exist_ok=True)
    data = directory / DATA
    before = directory / os.readlink(data) if data.is_symlink() else None
    changed = before is None or not _shows(before, files)
    if changed:
        fresh = _written(directory, files, wall)
        if give_away is not None:
            give_away(fresh)
        (directory / NEW_DATA).unlink(missing_ok=True)
        (directory / NEW_DATA).symlink_to(fresh.name)
        os.replace(directory / NEW_DATA, data)
    _show(directory, {path.partition("/")[0] for path in files})
    if changed and before is not None:
        shutil.rmtree(before, ignore_errors=True)
    return changed


def _checked(path: str) -> bool:
    """Raises unless a path stays within its volume and out of the way of our own names."""
    parts = path.split("/")
    if not path or path.startswith("/"):
        raise CannotMount(f"invalid path: must be a relative path: {path!r}")
    if ".." in parts:
        raise CannotMount(f"invalid path: must not contain '..': {path}")
    if parts[0].startswith(".."):
        raise CannotMount(f"invalid path: must not start with '..': {path}")
    if len(path) > LONGEST_PATH or any(len(part.encode()) > LONGEST_NAME for part in parts):
        raise CannotMount(
            f"invalid path: at most {LONGEST_PATH} characters, {LONGEST_NAME} a name: {path[:80]}..."
        )
    return True


def _check_together(paths: Iterable[str]) -> None:
    """Raises when one path is a directory on the way to another."""
    paths = set(paths)
    for path in paths:
        for folder in Path(path).parents:
            if str(folder) in paths:
                raise CannotMount(f"conflicting paths: {folder} is a file, and {path} lies below it")


def _shows(shown: Path, files: Payload) -> bool:
    """Whether a directory has exactly these files, with this content and these modes."""
    present = {
        os.path.relpath(os.path.join(folder, name), shown)
        for folder, _, names in os.walk(shown)
        for name in names
    }
    return present == files.keys() and all(_same(shown / path, file) for path, file in files.items())


def _same(path: Path, file: File) -> bool:
    status = path.stat()
    # Giving a group access adds bits; those asked for must be there.
    return (status.st_mode & file.mode) == file.mode and path.read_bytes() == file.data


def _written(directory: Path, files: Payload, wall: float) -> Path:
    stamp = datetime.fromtimestamp(wall, UTC).strftime("..%Y_%m_%d_%H_%M_%S.")
    fresh = Path(tempfile.mkdtemp(prefix=stamp, dir=directory))
    try:
        fresh.chmod(0o755)
        for path, file in files.items():
            target = fresh / path
            for folder in reversed(target.relative_to(fresh).parents[:-1]):
                (fresh / folder).mkdir(exist_ok=True)
                (fresh / folder).chmod(0o755)
            target.write_bytes(file.data)
            if file.owner is not None:
                with suppress(PermissionError):  # without the right to give files away, everybody runs as us
                    os.chown(target, file.owner, -1)
            target.chmod(file.mode)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return fresh


def _show(directory: Path, names: set[str]) -> None:
    """Visible links for these names; links of ours for others go."""
    for entry in os.scandir(directory):
        ours = entry.is_symlink() and os.readlink(entry.path).startswith(f"{DATA}/")
        if ours and entry.name not in names:
            os.unlink(entry.path)
    for name in names:
        link = directory / name
        if not link.is_symlink():
            if link.is_dir():
                raise CannotMount(f"{name} is a mount point of another volume")
            link.symlink_to(f"{DATA}/{name}")
