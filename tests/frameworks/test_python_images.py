"""Image maps of frameworks that are Python packages."""

import re
import sys
from pathlib import Path

import pytest

from volcano.frameworks.install import recipe_of
from volcano.frameworks.python_images import python_images
from volcano.nodes.image_map import ImageMap

EXAMPLES = Path(__file__).parents[2] / "examples" / "frameworks"
PYTHON = ("tensorflow", "mxnet", "paddle", "mindspore", "horovod")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """An installation whose virtual environment belongs to an interpreter elsewhere."""
    programs = tmp_path / "framework" / "venv" / "bin"
    programs.mkdir(parents=True)
    (tmp_path / "interpreter" / "bin").mkdir(parents=True)
    (tmp_path / "interpreter" / "bin" / "python3").symlink_to(sys.executable)
    (programs / "python").symlink_to(tmp_path / "interpreter" / "bin" / "python3")
    (programs.parent / "pyvenv.cfg").write_text(f"home = {tmp_path / 'interpreter' / 'bin'}\n")
    return tmp_path / "framework"


def test_programs_of_the_environment_precede_those_of_the_host(directory: Path) -> None:
    (mapping,) = python_images(directory, "demo:*", environment={"QUIET": "1"})
    first, *others = mapping.environment["PATH"].split(":")
    assert first == f"{directory}/venv/bin"
    assert "/usr/bin" in others
    assert mapping.environment["QUIET"] == "1"


def test_the_interpreter_of_the_environment_is_mounted_with_it(directory: Path) -> None:
    (mapping,) = python_images(directory, "demo:*")
    assert mapping.paths[0] == str(directory)
    assert str(directory.parent / "interpreter") in mapping.paths
    assert f"{directory}/venv" not in mapping.paths


@pytest.mark.parametrize("name", PYTHON)
def test_the_images_of_every_example_are_mapped_to_its_framework(name: str, directory: Path) -> None:
    mapped = ImageMap(recipe_of(name).images(directory))
    used = {
        image
        for path in (EXAMPLES / name).glob("*.yaml")
        for image in re.findall(r"^ +(?:- )?image: (\S+)$", path.read_text(), re.MULTILINE)
    }
    assert used
    assert {image for image in used if mapped.find(image) is None} == set()
