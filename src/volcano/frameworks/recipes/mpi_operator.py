"""MPI operator: MPIJob v2beta1, whose launcher reaches the workers over ssh."""

from pathlib import Path

from volcano.frameworks.operators import USER, Adaptation, render
from volcano.frameworks.recipe import ImageMapping, Installation, Recipe

VERSION = "0.6.0"
ADAPTATION = Adaptation(arguments={"mpi-operator": ("--gang-scheduling=volcano",)})


def install(installation: Installation) -> None:
    installation.go("github.com/kubeflow/mpi-operator", f"v{VERSION}", {"mpi-operator": "./cmd/mpi-operator"})
    render(installation, "source/manifests/overlays/standalone", ADAPTATION)


def images(directory: Path) -> tuple[ImageMapping, ...]:
    program = f"{directory}/bin/mpi-operator"
    return (ImageMapping("*mpioperator/mpi-operator:*", paths=(program,), entrypoint=(program,), user=USER),)


RECIPE = Recipe(
    name="mpi-operator",
    version=VERSION,
    summary="Operator of MPIJob v2beta1",
    size="60 MB",
    install=install,
    images=images,
    requires=("go", "kubectl"),
)
