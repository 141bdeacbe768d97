"""JobSet: several Kubernetes Jobs as one workload."""

from pathlib import Path

from volcano.frameworks.operators import Adaptation, manager_image, render
from volcano.frameworks.recipe import ImageMapping, Installation, Recipe

VERSION = "0.8.0"


def install(installation: Installation) -> None:
    installation.go("sigs.k8s.io/jobset", f"v{VERSION}", {"jobset": "."})
    render(installation, "source/config/default", Adaptation())


def images(directory: Path) -> tuple[ImageMapping, ...]:
    return (manager_image("*/jobset/jobset:*", directory / "bin/jobset"),)


RECIPE = Recipe(
    name="jobset",
    version=VERSION,
    summary="Controller of JobSets: several Jobs as one workload",
    size="60 MB",
    install=install,
    images=images,
    requires=("go", "kubectl"),
)
