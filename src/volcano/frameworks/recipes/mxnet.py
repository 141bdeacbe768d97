"""MXNet with its distributed key-value store."""

from pathlib import Path

from volcano.frameworks.python_images import python_images
from volcano.frameworks.recipe import ImageMapping, Installation, Recipe

VERSION = "1.9.1"


def install(installation: Installation) -> None:
    installation.pip(f"mxnet=={VERSION}", "numpy<1.24")  # MXNet uses names that NumPy 1.24 has removed


def images(directory: Path) -> tuple[ImageMapping, ...]:
    return python_images(directory, "mxnet/python:*")


RECIPE = Recipe(
    name="mxnet",
    version=VERSION,
    summary="MXNet for CPUs",
    size="300 MB",
    install=install,
    images=images,
)
