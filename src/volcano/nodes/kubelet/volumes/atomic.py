"""Atomic directory updates: visible names are links through `..data` to a versioned directory."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from volcano.nodes.kubelet.volumes.payload import MountError, Payload, VolumeFile

DATA = "..data"
NEW_DATA = "..data_tmp"
MAX_NAME_LENGTH = 255
MAX_PATH_LENGTH = 4096


def write(
    directory: Path, payload: Payload, wall: float, set_ownership: Callable[[Path], None] | None = None
) -> bool:
    """Makes a directory contain exactly these files; returns False if it already did.

    `set_ownership` is called before the new files become visible. Readers see the old files or the new
    ones, never a mixture; files that are open stay as they are.
    """
    files = {os.path.normpath(path): file for path, file in payload.items() if _checked(path)}
    _check_conflicts(files)
    directory.mkdir(parents=True, exist_ok=True)
    data = directory / DATA
    before = directory / os.readlink(data) if data.is_symlink() else None
    changed = before is None or not _has_content(before, files)
    if changed:
        new_directory = _write_files(directory, files, wall)
        if set_ownership is not None:
            set_ownership(new_directory)
        (directory / NEW_DATA).unlink(missing_ok=True)
        (directory / NEW_DATA).symlink_to(new_directory.name)
        os.replace(directory / NEW_DATA, data)
    _link(directory, {path.partition("/")[0] for path in files})
    if changed and before is not None:
        shutil.rmtree(before, ignore_errors=True)
    return changed


def _checked(path: str) -> bool:
    """Raises unless a path stays within its volume and does not use reserved names."""
    parts = path.split("/")
    if not path or path.startswith("/"):
        raise MountError(f"invalid path: must be a relative path: {path!r}")
    if ".." in parts:
        raise MountError(f"invalid path: must not contain '..': {path}")
    if parts[0].startswith(".."):
        raise MountError(f"invalid path: must not start with '..': {path}")
    if len(path) > MAX_PATH_LENGTH or any(len(part.encode()) > MAX_NAME_LENGTH for part in parts):
        raise MountError(
            f"invalid path: at most {MAX_PATH_LENGTH} characters, {MAX_NAME_LENGTH} a name: {path[:80]}..."
        )
    return True


def _check_conflicts(paths: Iterable[str]) -> None:
    """Raises when one path is a parent directory of another."""
    paths = set(paths)
    for path in paths:
        for folder in Path(path).parents:
            if str(folder) in paths:
                raise MountError(f"conflicting paths: {folder} is a file, and {path} lies below it")


def _has_content(shown: Path, files: Payload) -> bool:
    """Whether a directory has exactly these files, with this content and these modes."""
    present = {
        os.path.relpath(os.path.join(folder, name), shown)
        for folder, _, names in os.walk(shown)
        for name in names
    }
    return present == files.keys() and all(_same(shown / path, file) for path, file in files.items())


def _same(path: Path, file: VolumeFile) -> bool:
    status = path.stat()
    # fsGroup adds permission bits: only those requested are compared.
    return (status.st_mode & file.mode) == file.mode and path.read_bytes() == file.data


def _write_files(directory: Path, files: Payload, wall: float) -> Path:
    stamp = datetime.fromtimestamp(wall, UTC).strftime("..%Y_%m_%d_%H_%M_%S.")
    new_directory = Path(tempfile.mkdtemp(prefix=stamp, dir=directory))
    try:
        new_directory.chmod(0o755)
        for path, file in files.items():
            target = new_directory / path
            for folder in reversed(target.relative_to(new_directory).parents[:-1]):
                (new_directory / folder).mkdir(exist_ok=True)
                (new_directory / folder).chmod(0o755)
            target.write_bytes(file.data)
            if file.owner is not None:
                # without the right to change owners, all containers run as this user
                with suppress(PermissionError):
                    os.chown(target, file.owner, -1)
            target.chmod(file.mode)
    except OSError:
        shutil.rmtree(new_directory, ignore_errors=True)
        raise
    return new_directory


def _link(directory: Path, names: set[str]) -> None:
    """Links these names to the current data and removes other links to it."""
    for entry in os.scandir(directory):
        ours = entry.is_symlink() and os.readlink(entry.path).startswith(f"{DATA}/")
        if ours and entry.name not in names:
            os.unlink(entry.path)
    for name in names:
        link = directory / name
        if not link.is_symlink():
            if link.is_dir():
                raise MountError(f"{name} is a mount point of another volume")
            link.symlink_to(f"{DATA}/{name}")
