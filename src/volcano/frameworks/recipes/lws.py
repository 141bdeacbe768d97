"""LeaderWorkerSet: groups of pods with a leader."""

from pathlib import Path

from volcano.frameworks.operators import Adaptation, manager_image, render
from volcano.frameworks.recipe import ImageMapping, Installation, Recipe

VERSION = "0.6.0"


def install(installation: Installation) -> None:
    installation.go("sigs.k8s.io/lws", f"v{VERSION}", {"lws": "./cmd"})
    render(installation, "source/config/default", Adaptation())


def images(directory: Path) -> tuple[ImageMapping, ...]:
    return (manager_image("*/lws/lws:*", directory / "bin/lws"),)


RECIPE = Recipe(
    name="lws",
    version=VERSION,
    summary="Controller of LeaderWorkerSets: groups of pods with a leader",
    size="60 MB",
    install=install,
    images=images,
    requires=("go", "kubectl"),
)
