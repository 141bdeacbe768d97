"""Horovod with PyTorch and gloo, compiled from its source package."""

from pathlib import Path

from volcano.frameworks.python_images import python_images
from volcano.frameworks.recipe import ImageMapping, Installation, Recipe

VERSION = "0.28.1"
# Horovod is compiled as C++14, which the headers of PyTorch 2.1 and later do not allow. Of the versions
# before, this one is the smallest.
TORCH = "1.13.1"
BUILD = {
    "HOROVOD_WITH_PYTORCH": "1",
    "HOROVOD_WITHOUT_TENSORFLOW": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
    "HOROVOD_WITH_GLOO": "1",
    "HOROVOD_WITHOUT_MPI": "1",
    "HOROVOD_CPU_OPERATIONS": "GLOO",
    "MAKEFLAGS": "-j2",
}


def install(installation: Installation) -> None:
    """Compiles Horovod against the PyTorch of the same environment, which takes several minutes."""
    # The build imports torch, so it runs without isolation, and needs what isolation would have provided. Its setup
    # uses pkg_resources, which later versions of setuptools no longer have.
    needed = ("cloudpickle", "psutil", "pyyaml", "packaging", "cffi")
    installation.pip(f"torch=={TORCH}", "numpy<2", "setuptools<70", "wheel", *needed)
    installation.pip("--no-build-isolation", "--no-binary", "horovod", f"horovod=={VERSION}", env=BUILD)


def images(directory: Path) -> tuple[ImageMapping, ...]:
    return python_images(directory, "horovod/horovod:*")


RECIPE = Recipe(
    name="horovod",
    version=VERSION,
    summary="Horovod with PyTorch and gloo, compiled here",
    size="3.4 GB",
    install=install,
    images=images,
    requires=("cmake", "g++", "make"),
)
