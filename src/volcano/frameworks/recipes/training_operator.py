"""Kubeflow training operator v1: PyTorchJob, TFJob, MPIJob and others, with Volcano for gangs."""

from pathlib import Path

from volcano.frameworks.operators import USER, Adaptation, render
from volcano.frameworks.recipe import ImageMapping, Installation, Recipe

VERSION = "1.9.3"
# Workers of a PyTorchJob wait for the name of the master. The operator's own template calls nslookup, which few hosts
# have; every host has getent.
TEMPLATE = """\
- name: init-pytorch
  image: {{.InitContainerImage}}
  command:
  - sh
  - -c
  - >-
    for attempt in $(seq {{.MaxTries}}); do
    getent hosts {{.MasterAddr}} && exit 0; echo waiting for the master; sleep 2; done; exit 1
"""


def install(installation: Installation) -> None:
    module = "github.com/kubeflow/training-operator"
    installation.go(module, f"v{VERSION}", {"training-operator": "./cmd/training-operator.v1"})
    template = installation.directory / "init-container.yaml"
    template.write_text(TEMPLATE)
    arguments = ("--gang-scheduler-name=volcano", f"--pytorch-init-container-template-file={template}")
    adaptation = Adaptation(arguments={"training-operator": arguments})
    render(installation, "source/manifests/overlays/standalone", adaptation)


def images(directory: Path) -> tuple[ImageMapping, ...]:
    """The operator, and the image that brings kubectl into the launcher of an MPIJob."""
    operator = (f"{directory}/bin/training-operator:/manager", f"{directory}/init-container.yaml")
    return (
        ImageMapping("*kubeflow/training*/training-operator:*", paths=operator, user=USER),
        ImageMapping(
            "*/kubectl-delivery:*",
            entrypoint=("/bin/sh", "-c"),
            arguments=('cp "$(command -v kubectl)" "$TARGET_DIR/kubectl"',),
        ),
    )


RECIPE = Recipe(
    name="training-operator",
    version=VERSION,
    summary="Kubeflow training operator: PyTorchJob, TFJob and MPIJob",
    size="70 MB",
    install=install,
    images=images,
    requires=("go", "kubectl"),
)
