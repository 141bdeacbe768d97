"""Packs a directory for `vcctl submit --upload`: a compressed tar file in parts that fit in Secrets."""

import io
import os
import stat
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from volcano.services.errors import ServiceError
from volcano.services.submit.gitignore import listed_files

PART_SIZE = 768 << 10  # an object may hold 1 MiB
MAX_SIZE = 8 << 20  # compressed; every byte is stored in the API server's database
MAX_CONTENT = 256 << 20  # before compression
_LARGEST = 3  # files named in errors


@dataclass(frozen=True, slots=True)
class Archive:
    """A packed directory."""

    parts: Sequence[bytes]
    files: int
    content: int  # bytes before compression

    @property
    def size(self) -> int:
        return sum(map(len, self.parts))


def pack(directory: Path, *, max_size: int = MAX_SIZE) -> Archive:
    """Packs the files that .gitignore does not exclude; raises ServiceError if they are too large."""
    paths = list(listed_files(directory))
    sizes = {path: os.lstat(path).st_size for path in paths}
    content = sum(sizes.values())
    if content > MAX_CONTENT:
        raise _too_large(directory, f"{format_size(content)} in {len(paths)} files", MAX_CONTENT, sizes)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        for path in paths:
            try:
                archive.add(path, path.relative_to(directory).as_posix(), recursive=False, filter=_plain)
            except OSError as error:
                raise ServiceError(f"--upload: {path}: {error.strerror or error}") from None
    packed = buffer.getvalue()
    if len(packed) > max_size:
        raise _too_large(directory, f"{format_size(len(packed))} compressed", max_size, sizes)
    parts = [packed[start : start + PART_SIZE] for start in range(0, len(packed), PART_SIZE)]
    return Archive(parts, len(paths), content)


def format_size(size: int) -> str:
    """A size such as `34.5 KiB`."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without owners of this machine; readable by every user of the pod."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.mode & stat.S_IXUSR else 0o644
    return entry


def _too_large(directory: Path, size: str, limit: int, sizes: dict[Path, int]) -> ServiceError:
    largest = sorted(sizes, key=lambda path: sizes[path], reverse=True)[:_LARGEST]
    named = ", ".join(f"{path.relative_to(directory)} ({format_size(sizes[path])})" for path in largest)
    return ServiceError(
        f"--upload: {directory} is too large: {size}, at most {format_size(limit)}; largest files: {named}; exclude "
        "files with .gitignore, or put data in a volume or the image"
    )
