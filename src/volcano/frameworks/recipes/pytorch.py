"""PyTorch with its distributed package (gloo) and torchrun, for the `pytorch` job plugin."""

from pathlib import Path

from volcano.frameworks.python_images import python_images
from volcano.frameworks.recipe import ImageMapping, Installation, Recipe

VERSION = "1.13.1"


def install(installation: Installation) -> None:
    installation.pip(f"torch=={VERSION}", "numpy<2")


def images(directory: Path) -> tuple[ImageMapping, ...]:
    return python_images(directory, "pytorch/pytorch:*", "nvcr.io/nvidia/pytorch:*")


RECIPE = Recipe(
    name="pytorch",
    version=VERSION,
    summary="PyTorch with torchrun",
    size="3.3 GB",
    install=install,
    images=images,
)
