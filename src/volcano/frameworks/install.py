"""Installs frameworks into the cache and finds what is installed. Start reading at `installed`."""

import os
import shutil
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules

from volcano.base.clock import Clock, SystemClock
from volcano.base.os_errors import explain_os_error
from volcano.frameworks import recipes
from volcano.frameworks.cache import IMAGES, Cache, Record, write_atomically
from volcano.frameworks.errors import NotAvailable
from volcano.frameworks.installation import Installation, Progress
from volcano.frameworks.recipe import Recipe
from volcano.nodes.image_map import as_yaml

__all__ = ["Installation", "NotAvailable", "installed"]

WITHIN = "VOLCANO_FRAMEWORKS_TIMEOUT"
SPACE_FACTOR = 2  # downloads and unpacked archives take space while a framework is installed


def recipe_names() -> list[str]:
    """Names of all frameworks: of the modules of `recipes`, with dashes."""
    return sorted(module.name.replace("_", "-") for module in iter_modules(recipes.__path__))


def recipe_of(name: str) -> Recipe:
    """The recipe of a framework. Raises KeyError if there is none of this name."""
    module = f"{recipes.__name__}.{name.replace('-', '_')}"
    if not name.replace("-", "").replace("_", "").isalnum() or find_spec(module) is None:
        raise KeyError(name)
    recipe = import_module(module).RECIPE
    if not isinstance(recipe, Recipe):
        raise TypeError(f"{module}.RECIPE is no Recipe")
    return recipe


def installed(name: str, within: float | None = None) -> Path:
    """The directory of a framework, installed if needed.

    Raises NotAvailable with the reason, also after `within` seconds, or $VOLCANO_FRAMEWORKS_TIMEOUT.
    """
    if within is None and os.environ.get(WITHIN):
        within = float(os.environ[WITHIN])
    return install(recipe_of(name), Cache(), lambda line: None, within=within)


def install(
    recipe: Recipe,
    cache: Cache,
    progress: Progress,
    *,
    within: float | None = None,
    again: bool = False,
    clock: Clock | None = None,
) -> Path:
    """Installs a recipe unless it is installed, and writes its image map; returns its directory."""
    path = cache.path_of(recipe)
    try:
        if again or not cache.is_installed(recipe):
            with cache.locked(recipe):
                if again or not cache.is_installed(recipe):
                    _install(recipe, cache, progress, within, clock or SystemClock())
        _write_images(recipe, path)
    except OSError as error:
        raise NotAvailable(f"{recipe.name}: {explain_os_error(error)}") from None
    return path


def _install(recipe: Recipe, cache: Cache, progress: Progress, within: float | None, clock: Clock) -> None:
    path, log = cache.path_of(recipe), cache.log_of(recipe)
    installation = Installation(recipe.name, path, log, progress, clock, within)
    installation.require(*recipe.requires)
    cache.remove(path)  # what an earlier attempt has left
    _check_space(recipe, cache.directory)
    path.mkdir(parents=True)
    log.write_text("")
    recipe.install(installation)
    cache.complete(recipe)


def _check_space(recipe: Recipe, directory: Path) -> None:
    needed, free = recipe.bytes * SPACE_FACTOR, shutil.disk_usage(directory).free
    if free < needed:
        raise NotAvailable(
            f"{recipe.name}: needs about {needed / 1e9:.1f} GB while it is installed, but only {free / 1e9:.1f} GB "
            f"are free in {directory}; free some space, or set VOLCANO_FRAMEWORKS to a directory on another disk"
        )


def _write_images(recipe: Recipe, path: Path) -> None:
    """Writes the image map of an installed framework, if it has changed."""
    text = as_yaml(recipe.images(path))
    target = path / IMAGES
    if not target.exists() or target.read_text() != text:
        write_atomically(target, text)


def image_files(cache: Cache | None = None) -> Iterator[Path]:
    """Image maps of the installed frameworks: of the recipe's version, or of another one of the same framework."""
    for record, path in (cache or Cache()).installed():
        if (path / IMAGES).exists() and _is_current(record):
            yield path / IMAGES


def _is_current(record: Record) -> bool:
    try:
        return recipe_of(record.name).version == record.version
    except KeyError:
        return False


def remove(name: str, cache: Cache) -> list[Path]:
    """Removes every version of a framework, half-finished ones too; returns their directories."""
    recipe = recipe_of(name)
    paths = cache.leftovers(recipe.name)
    for path in paths:
        cache.remove(path)
    return paths
