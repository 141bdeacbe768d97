"""MindSpore for CPUs."""

from pathlib import Path

from volcano.frameworks.python_images import python_images
from volcano.frameworks.recipe import ImageMapping, Installation, Recipe

VERSION = "2.7.1"


def install(installation: Installation) -> None:
    installation.pip(f"mindspore=={VERSION}")


def images(directory: Path) -> tuple[ImageMapping, ...]:
    return python_images(directory, "mindspore/mindspore-cpu:*")


RECIPE = Recipe(
    name="mindspore",
    version=VERSION,
    summary="MindSpore for CPUs",
    size="2.8 GB",
    install=install,
    images=images,
)
