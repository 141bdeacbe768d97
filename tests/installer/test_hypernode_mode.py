"""The chart runs the HyperNode controller with the other controllers, alone, or not at all."""

import pytest

from tests.installer.helm import Helm
from tests.installer.rendered import Rendered
from volcano.cmd import controllers, hypernode_controllers

pytestmark = pytest.mark.k8s
ALONE = "volcano-hypernode-controllers"


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm"))


def runs_it(rendered: Rendered) -> bool:
    """Whether vc-controller-manager runs the HyperNode controller."""
    parsed = controllers.parse(rendered.container("volcano-controllers")["args"])
    enabled = controllers.enabled_controllers(parsed.controllers, parsed.gates)
    assert "job-controller" in enabled
    return "hyperNode-controller" in enabled


def resources(rendered: Rendered, kind: str, name: str) -> set[str]:
    return {resource for rule in rendered.one(kind, name)["rules"] for resource in rule["resources"]}


def test_it_runs_with_the_other_controllers_by_default(helm: Helm) -> None:
    rendered = helm.template()
    assert runs_it(rendered)
    assert ALONE not in rendered.names("Deployment")
    assert "hypernodes/status" in resources(rendered, "ClusterRole", "volcano-controllers")


def test_it_runs_alone_with_its_own_rights(helm: Helm) -> None:
    rendered = helm.template("custom.hypernode_controller_mode=standalone", "custom.scheduler_name=mine")
    assert not runs_it(rendered)
    assert rendered.container(ALONE)["command"] == ["vc-hypernode-controller-manager"]
    parsed = hypernode_controllers.parse(rendered.container(ALONE)["args"])
    assert (parsed.kube_api_qps, parsed.kube_api_burst, parsed.enable_healthz) == (50, 100, True)
    environment = {entry["name"]: entry["value"] for entry in rendered.container(ALONE)["env"]}
    assert environment["HELM_RELEASE_NAME"] == "volcano"
    rights = resources(rendered, "ClusterRole", ALONE)
    assert rights == {"hypernodes", "hypernodes/status", "nodes", "secrets", "events"}
    assert resources(rendered, "Role", ALONE) == {"configmaps", "leases"}
    assert "hypernodes" not in resources(rendered, "ClusterRole", "volcano-controllers")
    assert {"volcano-hypernode-controllers-service"} <= rendered.names("Service")
    assert ALONE in rendered.names("PodDisruptionBudget")


def test_it_runs_alone_without_the_other_controllers(helm: Helm) -> None:
    rendered = helm.template("custom.hypernode_controller_mode=standalone", "custom.controller_enable=false")
    assert ALONE in rendered.names("Deployment")
    assert "volcano-controllers" not in rendered.names("Deployment")
    assert "volcano-controller-configmap" in rendered.names("ConfigMap")


def test_it_does_not_run_when_disabled(helm: Helm) -> None:
    rendered = helm.template("custom.hypernode_controller_mode=disabled")
    assert not runs_it(rendered)
    assert ALONE not in rendered.names("Deployment")
    assert "hypernodes" not in resources(rendered, "ClusterRole", "volcano-controllers")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            ["custom.hypernode_controller_mode=both"],
            "custom.hypernode_controller_mode=both: choose from controller-manager, standalone, disabled",
        ),
        (
            [
                "custom.hypernode_controller_mode=standalone",
                "custom.controller_enabled_controllers=hyperNode-controller",
            ],
            "custom.controller_enabled_controllers names hyperNode-controller; leave it out there",
        ),
        (
            [
                "custom.hypernode_controller_mode=standalone",
                "custom.hypernode_controller_replicas=2",
                "custom.leader_elect_enable=false",
            ],
            "custom.hypernode_controller_replicas=2 needs custom.leader_elect_enable=true",
        ),
    ],
)
def test_values_that_contradict_each_other_are_errors(helm: Helm, values: list[str], text: str) -> None:
    assert text in helm.render_error(*values)
