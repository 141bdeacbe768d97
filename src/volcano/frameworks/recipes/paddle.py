"""PaddlePaddle for CPUs, with gloo for collective operations."""

from pathlib import Path

from volcano.frameworks.python_images import python_images
from volcano.frameworks.recipe import ImageMapping, Installation, Recipe

VERSION = "3.0.0"


def install(installation: Installation) -> None:
    installation.pip(f"paddlepaddle=={VERSION}")


def images(directory: Path) -> tuple[ImageMapping, ...]:
    return python_images(directory, "paddlepaddle/paddle:*")


RECIPE = Recipe(
    name="paddle",
    version=VERSION,
    summary="PaddlePaddle for CPUs",
    size="850 MB",
    install=install,
    images=images,
)
