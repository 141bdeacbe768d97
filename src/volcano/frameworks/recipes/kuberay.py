"""KubeRay: the operator of RayCluster, RayJob and RayService, with Volcano as its batch scheduler."""

from pathlib import Path

from volcano.frameworks.operators import Adaptation, manager_image, render
from volcano.frameworks.recipe import ImageMapping, Installation, Recipe

VERSION = "1.4.2"
# With Volcano it needs these rights, which its Helm chart grants but not these manifests.
RIGHTS = (
    {"apiGroups": ["scheduling.volcano.sh"], "resources": ["podgroups"], "verbs": ["*"]},
    {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["get"]},
)
ADAPTATION = Adaptation(
    arguments={"kuberay-operator": ("--batch-scheduler=volcano",)}, rights={"kuberay-operator": RIGHTS}
)


def install(installation: Installation) -> None:
    module = "github.com/ray-project/kuberay/ray-operator"
    installation.go(module, f"v{VERSION}", {"kuberay-operator": "."})
    render(installation, "source/config/default", ADAPTATION)


def images(directory: Path) -> tuple[ImageMapping, ...]:
    return (manager_image("*kuberay/operator:*", directory / "bin/kuberay-operator"),)


RECIPE = Recipe(
    name="kuberay",
    version=VERSION,
    summary="Operator of RayCluster and RayJob",
    size="60 MB",
    install=install,
    images=images,
    requires=("go", "kubectl"),
)
