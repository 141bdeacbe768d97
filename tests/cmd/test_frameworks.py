"""`volcano frameworks`: list, install, remove and path; and examples that need a framework."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cmd.test_volcano import Shown, say
from volcano.cli.volcano import example_files
from volcano.cli.volcano.framework import commands as frameworks
from volcano.frameworks import install as installer
from volcano.frameworks.cache import Cache
from volcano.frameworks.installation import Installation
from volcano.frameworks.recipe import ImageMapping, NotAvailable, Recipe
from volcano.frameworks.recipes import ray

__all__ = ["say"]


def touch(installation: Installation) -> None:
    installation.run("touch", "program")


def images(directory: Path) -> tuple[ImageMapping, ...]:
    return (ImageMapping("demo:*", paths=(str(directory),)),)


SMALL = Recipe("ray", "1.0", "a small program", "1 kB", touch, images)


@pytest.fixture(autouse=True)
def small_ray(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache of its own, and a recipe of Ray that is installed in no time."""
    monkeypatch.setenv("VOLCANO_FRAMEWORKS", str(tmp_path / "cache"))
    monkeypatch.setattr(ray, "RECIPE", SMALL)
    return tmp_path / "cache" / "ray-1.0"


def test_every_framework_is_listed_with_its_state(say: Callable[..., Shown]) -> None:
    lines = say("frameworks", "list").out.splitlines()
    assert lines[0].split() == ["NAME", "VERSION", "STATUS", "SIZE", "NEEDS", "DESCRIPTION"]
    assert [line.split()[0] for line in lines[1:]] == installer.recipe_names()
    (row,) = [line for line in lines if line.startswith("ray ")]
    assert row.split() == ["ray", "1.0", "NotInstalled", "1", "kB", "-", "a", "small", "program"]


def test_a_framework_is_installed_with_progress_listed_and_removed(
    say: Callable[..., Shown], small_ray: Path
) -> None:
    shown = say("frameworks", "install", "ray")
    assert shown.code == 0
    progress = shown.err.splitlines()
    assert progress[0] == "installing ray 1.0 (about 1 kB) ..."
    assert progress[1].split() == ["0", "s", "touch", "program"]
    assert progress[2].startswith(f"installed ray 1.0 in {small_ray} after")
    assert say("frameworks", "install", "ray").err == f"ray 1.0 is installed in {small_ray}\n"
    assert say("frameworks", "path", "ray").out == f"{small_ray}\n"
    rows = json.loads(say("frameworks", "list", "-o", "json").out)["frameworks"]
    (row,) = [row for row in rows if row["name"] == "ray"]
    assert (row["status"], row["directory"]) == ("Installed", str(small_ray))
    assert say("frameworks", "remove", "ray").out == f"removed {small_ray}\n"
    assert not small_ray.exists()
    assert say("frameworks", "remove", "ray").err == "ray is not installed\n"


def test_the_result_of_an_installation_is_json(
    say: Callable[..., Shown], small_ray: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = say("frameworks", "install", "ray", "-o", "json")
    expected = {"name": "ray", "version": "1.0", "directory": str(small_ray)}
    assert (json.loads(shown.out), shown.err) == ({"frameworks": [expected]}, "")


def test_a_framework_that_fails_does_not_stop_the_others(
    say: Callable[..., Shown], small_ray: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(installation: Installation) -> None:
        raise NotAvailable("spark: package pyspark is not available")

    broken = Recipe("spark", "1.0", "a program", "1 kB", fail, images)
    monkeypatch.setattr("volcano.frameworks.recipes.spark.RECIPE", broken)
    shown = say("frameworks", "install", "spark", "ray")
    assert shown.code == 1
    assert "volcano: spark: package pyspark is not available\n" in shown.err
    assert small_ray.exists()
    (row,) = [row for row in frameworks.rows_of(Cache()) if row.recipe.name == "spark"]
    assert row.status == "Incomplete"


def test_mistakes_are_explained(say: Callable[..., Shown]) -> None:
    shown = say("frameworks", "install", "rai")
    assert (shown.code, shown.err) == (
        3,
        "volcano: no framework 'rai'; did you mean 'ray'?; `volcano frameworks list` lists them\n",
    )
    shown = say("frameworks", "path", "ray")
    assert (shown.code, shown.err) == (
        3,
        "volcano: ray is not installed; `volcano frameworks install ray` installs it\n",
    )
    assert say("frameworks", "install", "ray", "--timeout", "x").err.startswith("volcano: --timeout: ")


HEADER = """# A program on Ray: it needs more than one file.
#
#   volcano frameworks install ray
#   volcano run --fake-gpus 1 $(volcano frameworks path ray)/program examples/frameworks/ray/part.yaml {path}
"""


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    directory = tmp_path / "examples"
    path = directory / "frameworks" / "ray" / "main.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(HEADER.format(path="examples/frameworks/ray/main.yaml"))
    (path.parent / "part.yaml").write_text("# Part of an example.\n")
    monkeypatch.setattr(example_files, "DIRECTORY", directory)
    monkeypatch.setattr(example_files, "FRAMEWORKS", directory / "frameworks")
    return path


def test_an_example_of_a_framework_is_found_by_its_name(example: Path, say: Callable[..., Shown]) -> None:
    assert example_files.names() == ["ray/main"]
    for name in ("ray/main", "ray", "frameworks/ray/main.yaml"):
        assert example_files.path_of(name) == example
    assert "ray/main" in say("examples", "list").out
    (example.parent / "other.yaml").write_text(example.read_text())
    shown = say("examples", "show", "ray")
    assert shown.err == "volcano: 'ray' has several examples: ray/main, ray/other; choose one\n"


def test_an_example_is_run_with_what_it_needs(
    example: Path, say: Callable[..., Shown], small_ray: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[object]] = []

    def run(arguments: object) -> int:
        seen.append([getattr(arguments, name) for name in ("fake_gpus", "timeout", "files")])
        return 0

    monkeypatch.setattr("volcano.cli.volcano.runs.run", run)
    shown = say("examples", "run", "ray", "--", "--timeout", "1m")
    assert shown.code == 0, shown.err
    files = [str(small_ray / "program"), str(example.parent / "part.yaml"), str(example)]
    assert seen == [[1, "1m", files]]
    assert (small_ray / "program").exists()


def test_an_example_whose_framework_cannot_be_installed_says_why(
    example: Path, say: Callable[..., Shown], monkeypatch: pytest.MonkeyPatch
) -> None:
    needy = Recipe("ray", "1.0", "a program", "1 kB", touch, images, requires=("no-such-program",))
    monkeypatch.setattr(ray, "RECIPE", needy)
    shown = say("examples", "run", "ray")
    assert shown.code == 1
    assert "volcano: ray: needs the program `no-such-program`, which was not found in PATH" in shown.err
