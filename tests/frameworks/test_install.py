"""Installation of frameworks: complete or not at all, once, with reasons."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from volcano.frameworks.cache import IMAGES, Cache, cache_directory
from volcano.frameworks.install import image_files, install, recipe_names, recipe_of, remove
from volcano.frameworks.install import installed as installed_by_name
from volcano.frameworks.installation import Installation, explain_failure
from volcano.frameworks.recipe import ImageMapping, NotAvailable, Recipe
from volcano.nodes.image_map import parse


def touch(installation: Installation) -> None:
    installation.run("touch", "program")


def recipe(
    steps: Callable[[Installation], None] = touch, *, requires: tuple[str, ...] = (), size: str = "1 kB"
) -> Recipe:
    return Recipe(
        name="demo",
        version="1.0",
        summary="a program",
        size=size,
        install=steps,
        images=lambda directory: (ImageMapping("demo:*", paths=(str(directory),)),),
        requires=requires,
    )


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "frameworks")


def silent(line: str) -> None:
    """Shows no progress."""


def test_an_installed_framework_is_not_installed_again(cache: Cache) -> None:
    runs: list[str] = []

    def steps(installation: Installation) -> None:
        runs.append(installation.name)
        touch(installation)

    paths = {install(recipe(steps), cache, silent) for _ in range(3)}
    assert (runs, len(paths)) == (["demo"], 1)
    assert (paths.pop() / "program").exists()


def test_progress_names_each_command(cache: Cache) -> None:
    lines: list[str] = []
    install(recipe(), cache, lines.append)
    assert lines == ["touch program"]


def test_a_half_finished_installation_is_begun_again(cache: Cache) -> None:
    def fails(installation: Installation) -> None:
        installation.run("touch", "leftover")
        installation.run("false")

    with pytest.raises(
        NotAvailable, match=r"demo: `false` failed with exit code 1: it printed nothing; the log is "
    ):
        install(recipe(fails), cache, silent)
    assert not cache.is_installed(recipe())
    path = install(recipe(), cache, silent)
    assert sorted(file.name for file in path.iterdir()) == [IMAGES, "installed.json", "program"]


def test_a_killed_installation_is_not_taken_for_a_finished_one(cache: Cache) -> None:
    program = (
        "import os, sys; from pathlib import Path; from tests.frameworks.test_install import *\n"
        "def dies(installation):\n    touch(installation); os.kill(os.getpid(), 9)\n"
        f"install(recipe(dies), Cache(Path({str(cache.directory)!r})), silent)"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2], check=False)
    assert ended.returncode == -9
    assert cache.path_of(recipe()).exists()
    assert not cache.is_installed(recipe())
    assert list(cache.installed()) == []


def test_two_processes_install_one_after_the_other(cache: Cache) -> None:
    running: list[int] = []
    most: list[int] = []

    def steps(installation: Installation) -> None:
        running.append(1)
        most.append(len(running))
        installation.run("sleep", "0.2")
        running.pop()

    threads = [threading.Thread(target=install, args=(recipe(steps), cache, silent)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_a_new_revision_is_installed_again(cache: Cache) -> None:
    install(recipe(), cache, silent)
    newer = replace(recipe(), revision=2)
    assert not cache.is_installed(newer)
    install(newer, cache, silent)
    assert cache.is_installed(newer)


def test_an_environment_whose_interpreter_is_gone_is_installed_again(cache: Cache) -> None:
    path = install(recipe(), cache, silent)
    (path / "venv" / "bin").mkdir(parents=True)
    (path / "venv" / "bin" / "python").symlink_to("/nonexistent/python")
    assert not cache.is_installed(recipe())


def test_a_missing_program_is_named(cache: Cache) -> None:
    with pytest.raises(
        NotAvailable, match="demo: needs the program `no-such-compiler`, which was not found in PATH"
    ):
        install(recipe(requires=("no-such-compiler",)), cache, silent)


def test_too_little_space_is_reported_before_anything_is_downloaded(cache: Cache) -> None:
    cache.directory.mkdir(parents=True)
    with pytest.raises(NotAvailable, match=r"demo: needs about 2000000.0 GB while it is installed, but only"):
        install(recipe(size="1000000 GB"), cache, silent)


def test_an_installation_is_stopped_with_its_processes_after_its_time(cache: Cache) -> None:
    def slow(installation: Installation) -> None:
        installation.run("sh", "-c", "echo $$ > pid; sleep 60")

    with pytest.raises(NotAvailable, match=r"demo: not installed within 1 s \(at: sh -c"):
        install(recipe(slow), cache, silent, within=1.0)
    pid = int((cache.path_of(recipe()) / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_an_unwritable_cache_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotAvailable, match=r"demo: .*/file.*: "):
        install(recipe(), Cache(tmp_path / "file" / "frameworks"), silent)


def test_images_are_written_beside_the_framework_and_kept_current(cache: Cache) -> None:
    path = install(recipe(), cache, silent)
    assert parse((path / IMAGES).read_text(), IMAGES) == (ImageMapping("demo:*", paths=(str(path),)),)
    changed = replace(recipe(), images=lambda directory: (ImageMapping("other:*"),))
    install(changed, cache, silent)
    assert parse((path / IMAGES).read_text(), IMAGES) == (ImageMapping("other:*"),)


def test_only_complete_installations_of_known_frameworks_have_images(cache: Cache) -> None:
    ray = replace(recipe(), name="ray", version=recipe_of("ray").version)
    for one in (recipe(), ray, replace(ray, version="0.1")):
        install(one, cache, silent)
    assert list(image_files(cache)) == [cache.path_of(ray) / IMAGES]


def test_removal_takes_every_version_and_half_finished_ones(cache: Cache) -> None:
    ray = replace(recipe(), name="ray")
    install(ray, cache, silent)
    half = cache.directory / "ray-0.5"
    (half / "source").mkdir(parents=True)
    (half / "source").chmod(0o500)
    other = install(replace(recipe(), name="ray-operator"), cache, silent)
    assert remove("ray", cache) == [half, cache.path_of(ray)]
    assert [path.name for path in cache.directory.iterdir() if path.is_dir()] == [other.name]


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (
            "ERROR: Could not find a version that satisfies\nERROR: No matching distribution found for nix==9",
            "package nix==9 is not available from the configured package index for this Python",
        ),
        ("OSError: [Errno 28] No space left on device", "no space left on the disk; free some space"),
        (
            "[ERROR] Could not find artifact a:b:jar:1 in central",
            "artifact a:b:jar:1 is not available from the configured Maven repository",
        ),
        (
            "go: example.org/a@v1: reading https://proxy/a.info: 404 Not Found",
            "Go module example.org/a@v1 is not available from the configured module proxy",
        ),
        ("Max retries exceeded with url", "the package index cannot be reached"),
        ("one\ntwo\nthree\nfour", "`pip` failed with exit code 1: two | three | four"),
    ],
)
def test_reasons_of_failed_commands(output: str, reason: str) -> None:
    assert explain_failure(["/usr/bin/pip"], 1, output).startswith(reason)


def test_a_package_that_does_not_exist_is_named(cache: Cache) -> None:
    def steps(installation: Installation) -> None:
        installation.pip("--no-index", "no-such-package==1")

    with pytest.raises(NotAvailable, match=r"demo: package no-such-package==1 is not available from"):
        install(recipe(steps), cache, silent)


def test_the_cache_is_outside_of_the_repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("VOLCANO_FRAMEWORKS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "volcano" / "frameworks"
    monkeypatch.setenv("VOLCANO_FRAMEWORKS", str(tmp_path / "own"))
    assert cache_directory() == tmp_path / "own"


def test_the_time_of_tests_is_taken_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VOLCANO_FRAMEWORKS", str(tmp_path))
    monkeypatch.setenv("VOLCANO_FRAMEWORKS_TIMEOUT", "0")
    with pytest.raises(NotAvailable, match="not installed within 0 s"):
        installed_by_name("ray")


@pytest.mark.parametrize("name", recipe_names())
def test_recipes_are_complete(name: str, tmp_path: Path) -> None:
    found = recipe_of(name)
    assert found.name == name
    assert found.bytes > 0
    assert found.summary
    parse(json.dumps({"images": []}), "none")
    for mapping in found.images(tmp_path / found.directory_name):
        assert mapping.pattern


def test_an_unknown_framework_is_an_error() -> None:
    for name in ("no-such", "../recipe", ""):
        with pytest.raises(KeyError):
            recipe_of(name)
