"""Kueue: admits jobs by quotas of its own, before our scheduler places their pods."""

from pathlib import Path

from volcano.frameworks.operators import Adaptation, manager_image, render
from volcano.frameworks.recipe import ImageMapping, Installation, Recipe

VERSION = "0.10.0"
# The proxy before the metrics is a program of its own. The visibility server needs API aggregation.
ADAPTATION = Adaptation(
    without=("container/kube-rbac-proxy", "APIService/v1beta1.visibility.kueue.x-k8s.io"),
    arguments={"manager": ("--feature-gates=VisibilityOnDemand=false",)},
)


def install(installation: Installation) -> None:
    # The module contains a part of its dependencies only, so that they are not taken from there.
    installation.go("sigs.k8s.io/kueue", f"v{VERSION}", {"kueue": "./cmd/kueue"}, ("-mod=mod",))
    render(installation, "source/config/default", ADAPTATION)


def images(directory: Path) -> tuple[ImageMapping, ...]:
    return (manager_image("*/kueue/kueue:*", directory / "bin/kueue"),)


RECIPE = Recipe(
    name="kueue",
    version=VERSION,
    summary="Job queueing with quotas, before the scheduler",
    size="70 MB",
    install=install,
    images=images,
    requires=("go", "kubectl"),
)
