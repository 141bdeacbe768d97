"""TensorFlow for CPUs, for the `tensorflow` job plugin."""

from pathlib import Path

from volcano.frameworks.python_images import python_images
from volcano.frameworks.recipe import ImageMapping, Installation, Recipe

VERSION = "2.16.2"


def install(installation: Installation) -> None:
    installation.pip(f"tensorflow-cpu=={VERSION}")


def images(directory: Path) -> tuple[ImageMapping, ...]:
    return python_images(directory, "tensorflow/tensorflow:*")


RECIPE = Recipe(
    name="tensorflow",
    version=VERSION,
    summary="TensorFlow for CPUs",
    size="1.3 GB",
    install=install,
    images=images,
)
