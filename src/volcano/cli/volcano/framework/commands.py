"""`volcano frameworks`: install, list and remove frameworks for pods of this host."""

import argparse
import json
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from volcano.cli.errors import CommandError, near, value_of
from volcano.cli.printing.tables import Column
from volcano.cli.session import Session
from volcano.frameworks.cache import Cache
from volcano.frameworks.install import install, recipe_names, recipe_of, remove
from volcano.frameworks.recipe import NotAvailable, Recipe
from volcano.kube.api.duration import parse as parse_duration
from volcano.services.errors import NotFoundError

INSTALLED, INCOMPLETE, ABSENT = "Installed", "Incomplete", "NotInstalled"


@dataclass(frozen=True, slots=True)
class Row:
    """One framework of `volcano frameworks list`."""

    recipe: Recipe
    status: str
    directory: Path

    @property
    def missing(self) -> list[str]:
        """Programs that the installation needs and that this host lacks."""
        return [program for program in self.recipe.requires if shutil.which(program) is None]

    def as_json(self) -> dict[str, Any]:
        recipe = self.recipe
        return {
            "name": recipe.name,
            "version": recipe.version,
            "status": self.status,
            "size": recipe.size,
            "summary": recipe.summary,
            "requires": list(recipe.requires),
            "missing": self.missing,
            "directory": str(self.directory) if self.status == INSTALLED else None,
        }


def list_frameworks(arguments: argparse.Namespace) -> int:
    """Prints a table of all frameworks."""
    session, rows = Session(), rows_of(Cache())
    if arguments.output == "json":
        session.write(json.dumps({"frameworks": [row.as_json() for row in rows]}, indent=2))
        return 0
    columns = [
        Column("NAME", lambda row: row.recipe.name),
        Column("VERSION", lambda row: row.recipe.version),
        Column("STATUS", lambda row: row.status, coloured=True),
        Column("SIZE", lambda row: row.recipe.size, spare=2),
        Column("NEEDS", lambda row: ", ".join(row.missing) or "-", spare=3),
        Column("DESCRIPTION", lambda row: row.recipe.summary, sentence=True, spare=1),
    ]
    session.table(columns, rows, wrapped=True)
    return 0


def rows_of(cache: Cache) -> list[Row]:
    """Every framework and whether it is installed."""
    rows = []
    for recipe in map(recipe_of, recipe_names()):
        path = cache.path_of(recipe)
        status = INSTALLED if cache.is_installed(recipe) else INCOMPLETE if path.exists() else ABSENT
        rows.append(Row(recipe, status, path))
    return rows


def install_frameworks(arguments: argparse.Namespace) -> int:
    """Installs frameworks one after the other; each failure is reported, and the others go on."""
    within = _duration(arguments.timeout)
    recipes = [known(name) for name in arguments.frameworks]
    cache, failures, results = Cache(), [], []
    quiet = arguments.output == "json"
    for recipe in recipes:
        try:
            path = install_with_progress(recipe, cache, within=within, again=arguments.force, quiet=quiet)
            results.append({"name": recipe.name, "version": recipe.version, "directory": str(path)})
        except NotAvailable as error:
            failures.append(str(error))
            results.append({"name": recipe.name, "version": recipe.version, "error": str(error)})
    if quiet:
        print(json.dumps({"frameworks": results}, indent=2))
    if failures:
        raise CommandError("\nvolcano: ".join(failures))
    return 0


def install_with_progress(
    recipe: Recipe, cache: Cache, *, within: float | None = None, again: bool = False, quiet: bool = False
) -> Path:
    """Installs a framework; shows each step, with a spinner on a terminal."""
    console = Console(stderr=True, quiet=quiet)
    title = f"{recipe.name} {recipe.version}"
    if not again and cache.is_installed(recipe):
        path = install(recipe, cache, lambda line: None)
        console.print(f"{title} is installed in {path}", highlight=False, soft_wrap=True)
        return path
    console.print(f"installing {title} (about {recipe.size}) ...", highlight=False)
    begun = time.monotonic()
    status = console.status(title) if console.is_terminal and not quiet else None

    def show(line: str) -> None:
        text = f"  {time.monotonic() - begun:4.0f} s  {line}"
        if status is not None:
            status.update(f"{title}: {line}", spinner_style="default")
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    if status is not None:
        status.start()
    try:
        path = install(recipe, cache, show, within=within, again=again)
    finally:
        if status is not None:
            status.stop()
    seconds = time.monotonic() - begun
    console.print(f"installed {title} in {path} after {seconds:.0f} s", highlight=False, soft_wrap=True)
    return path


def remove_frameworks(arguments: argparse.Namespace) -> int:
    """Removes frameworks from the cache."""
    cache = Cache()
    for recipe in [known(name) for name in arguments.frameworks]:
        paths = remove(recipe.name, cache)
        for path in paths:
            print(f"removed {path}")
        if not paths:
            print(f"{recipe.name} is not installed", file=sys.stderr)
    return 0


def print_path(arguments: argparse.Namespace) -> int:
    """Prints the directory of an installed framework."""
    recipe, cache = known(arguments.framework), Cache()
    if not cache.is_installed(recipe):
        raise NotFoundError(
            f"{recipe.name} is not installed; `volcano frameworks install {recipe.name}` installs it",
        )
    print(cache.path_of(recipe))
    return 0


def known(name: str) -> Recipe:
    """The recipe of a framework. Raises CommandError if there is none."""
    try:
        return recipe_of(name)
    except KeyError:
        raise NotFoundError(
            f"no framework {name!r}{near(name, recipe_names())}; `volcano frameworks list` lists them",
        ) from None


def _duration(text: str) -> float | None:
    if not text:
        return None
    with value_of("--timeout"):
        return parse_duration(text)
