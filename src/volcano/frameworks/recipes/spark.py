"""Spark with its Kubernetes backend, for `spark-submit` and the Spark operator."""

from pathlib import Path

from volcano.frameworks.recipe import ImageMapping, Installation, Recipe

VERSION = "3.5.7"


def install(installation: Installation) -> None:
    installation.pip(f"pyspark=={VERSION}", "setuptools", "wheel")


def home(directory: Path) -> Path:
    """SPARK_HOME of an installation."""
    return next((directory / "venv" / "lib").glob("python3.*/site-packages/pyspark"))


def images(directory: Path) -> tuple[ImageMapping, ...]:
    return ()


RECIPE = Recipe(
    name="spark",
    version=VERSION,
    summary="Spark and PySpark, with the Kubernetes backend",
    size="370 MB",
    install=install,
    images=images,
    requires=("java",),
)
