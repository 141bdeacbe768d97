"""Kubeflow trainer v2: TrainJobs, made from runtimes. It creates JobSets, so that it needs `jobset` too."""

from pathlib import Path

from volcano.frameworks.operators import Adaptation, manager_image, render
from volcano.frameworks.recipe import ImageMapping, Installation, Recipe

VERSION = "2.0.0"
KUSTOMIZATION = "source/manifests/overlays/manager"
JOBSET = "../../third-party/jobset"  # a file on another host; the recipe `jobset` installs it


def install(installation: Installation) -> None:
    programs = {"trainer": "./cmd/trainer-controller-manager"}
    installation.go("github.com/kubeflow/trainer/v2", f"v{VERSION}", programs)
    file = installation.directory / KUSTOMIZATION / "kustomization.yaml"
    lines = [line for line in file.read_text().splitlines() if JOBSET not in line]
    file.write_text("\n".join(lines) + "\n")
    render(installation, KUSTOMIZATION, Adaptation())


def images(directory: Path) -> tuple[ImageMapping, ...]:
    return (manager_image("*/trainer-controller-manager:*", directory / "bin/trainer"),)


RECIPE = Recipe(
    name="trainer",
    version=VERSION,
    summary="Kubeflow trainer: TrainJob and training runtimes",
    size="70 MB",
    install=install,
    images=images,
    requires=("go", "kubectl"),
)
