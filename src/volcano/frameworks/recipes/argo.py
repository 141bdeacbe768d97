"""Argo Workflows: the workflow controller and the executor that runs in the pods of steps."""

import shutil
from pathlib import Path

from volcano.frameworks.operators import USER, Adaptation, render
from volcano.frameworks.recipe import ImageMapping, Installation, Recipe

VERSION = "3.6.5"
ADAPTATION = Adaptation(
    namespace="argo",
    arguments={"workflow-controller": ("--executor-image", f"argoproj/argoexec:v{VERSION}")},
    environment={"DEFAULT_REQUEUE_TIME": "2s"},  # the time between two steps; 10 s by default
    # The server is the web interface, which is not built.
    without=("Deployment/argo-server", "Service/argo-server"),
)


MODULE = "github.com/argoproj/argo-workflows/v3"


def install(installation: Installation) -> None:
    installation.go(MODULE, f"v{VERSION}", {"workflow-controller": "./cmd/workflow-controller"})
    # Some proxies serve this module without signal_linux.go. The file for Darwin has the same content.
    folder = installation.directory / "source" / "workflow" / "executor" / "os-specific"
    if not (folder / "signal_linux.go").exists():
        shutil.copyfile(folder / "signal_darwin.go", folder / "signal_linux.go")
    installation.go(MODULE, f"v{VERSION}", {"argoexec": "./cmd/argoexec"})
    render(installation, "source/manifests/cluster-install", ADAPTATION)


def images(directory: Path) -> tuple[ImageMapping, ...]:
    """Containers of both images call their program by its name."""
    path = {"PATH": f"{directory}/bin:/usr/local/bin:/usr/bin:/bin"}
    return tuple(
        ImageMapping(f"*argoproj/{program}*", paths=(f"{directory}/bin",), environment=path, user=USER)
        for program in ("workflow-controller", "argoexec")
    )


RECIPE = Recipe(
    name="argo",
    version=VERSION,
    summary="Argo Workflows: workflow controller and executor",
    size="200 MB",
    install=install,
    images=images,
    requires=("go", "kubectl"),
)
