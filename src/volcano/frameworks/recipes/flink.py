"""Flink, for a session cluster as a Job."""

from pathlib import Path

from volcano.frameworks.recipe import ImageMapping, Installation, Recipe

VERSION = "1.20.3"


def install(installation: Installation) -> None:
    installation.pip(f"apache-flink-libraries=={VERSION}", "setuptools", "wheel")
    installation.maven(f"org.apache.flink:flink-sql-gateway:{VERSION}", transitive=False)


def images(directory: Path) -> tuple[ImageMapping, ...]:
    return ()


RECIPE = Recipe(
    name="flink",
    version=VERSION,
    summary="Flink's session cluster and SQL client",
    size="260 MB",
    install=install,
    images=images,
    requires=("java", "mvn"),
)
