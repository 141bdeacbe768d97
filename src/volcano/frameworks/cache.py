"""The cache of installed frameworks: a directory per framework, complete only with its record.

`<cache>/<name>-<version>` is the installation and `<cache>/<name>-<version>.log` the output of its commands. The
record `installed.json` is written last: a directory without it is left over from an installation that did not end.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

from volcano.frameworks.recipe import Recipe

VARIABLE = "VOLCANO_FRAMEWORKS"
RECORD = "installed.json"
IMAGES = "images.yaml"


def cache_directory() -> Path:
    """$VOLCANO_FRAMEWORKS, or volcano/frameworks in the cache directory of the user."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "volcano" / "frameworks"


@dataclass(frozen=True, slots=True)
class Record:
    """What is installed in a directory."""

    name: str
    version: str
    revision: int


class Cache:
    """Directories of installed frameworks."""

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory or cache_directory()

    def path_of(self, recipe: Recipe) -> Path:
        return self.directory / recipe.directory_name

    def log_of(self, recipe: Recipe) -> Path:
        return self.directory / f"{recipe.directory_name}.log"

    def is_installed(self, recipe: Recipe) -> bool:
        """Whether the recipe is installed completely, and its interpreter still exists."""
        path = self.path_of(recipe)
        if read_record(path) != Record(recipe.name, recipe.version, recipe.revision):
            return False
        python = path / "venv" / "bin" / "python"
        return python.exists() or not python.is_symlink()

    def complete(self, recipe: Recipe) -> None:
        """Records that an installation is complete."""
        record = {"name": recipe.name, "version": recipe.version, "revision": recipe.revision}
        write_atomically(self.path_of(recipe) / RECORD, json.dumps(record) + "\n")

    def installed(self) -> Iterator[tuple[Record, Path]]:
        """Every complete installation, of other versions too."""
        for path in sorted(self.directory.glob("*")) if self.directory.is_dir() else ():
            record = read_record(path)
            if record is not None:
                yield record, path

    def leftovers(self, name: str) -> list[Path]:
        """Directories of a framework, complete or not."""
        paths = sorted(self.directory.glob(f"{name}-*")) if self.directory.is_dir() else []
        return [path for path in paths if path.is_dir() and path.name[len(name) + 1 :][:1].isdigit()]

    def remove(self, path: Path) -> None:
        """Removes an installation and its log; interrupted, it is no longer taken for complete."""
        (path / RECORD).unlink(missing_ok=True)
        _make_writable(path)
        if path.exists():
            shutil.rmtree(path)
        path.with_name(f"{path.name}.log").unlink(missing_ok=True)

    @contextmanager
    def locked(self, recipe: Recipe) -> Iterator[None]:
        """Only one process at a time installs a recipe; another waits until it has ended."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / f".{recipe.directory_name}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def read_record(path: Path) -> Record | None:
    """The record of a directory; None if its installation is not complete."""
    try:
        content = json.loads((path / RECORD).read_text())
        return Record(str(content["name"]), str(content["version"]), int(content["revision"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_atomically(path: Path, text: str) -> None:
    """Replaces a file as a whole; after a crash it has the old or the new content."""
    with NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(file.name, path)


def _make_writable(path: Path) -> None:
    """Go's module files are read-only, also their directories, which cannot be removed then."""
    for folder, _, _ in os.walk(path):
        os.chmod(folder, 0o755)
