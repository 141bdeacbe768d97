"""volcano-development.yaml as committed: its flags, permissions, webhooks and CRDs match our programs."""

import argparse
import tomllib
from collections.abc import Callable, Sequence

import pytest

from tests.installer.rendered import DEPLOYMENTS, Object, Rendered
from tools.installer.places import ROOT, SINGLE_FILE
from volcano.cmd import controllers, scheduler, webhooks
from volcano.kube.api import crds
from volcano.kube.api.manifest import Key
from volcano.scheduler.engine.config import parse, shipped
from volcano.webhooks.registration import configurations
from volcano.webhooks.rules import BY_PATH

NAMESPACE = "volcano-system"
Parse = Callable[[Sequence[str]], argparse.Namespace]
PARSERS: dict[str, Parse] = {
    "volcano-scheduler": lambda given: scheduler.build_parser().parse_args(given),
    "volcano-controllers": controllers.parse,
    "volcano-admission": webhooks.parse,
}


@pytest.fixture(scope="module")
def installed() -> Rendered:
    return Rendered.of(SINGLE_FILE.read_text())


def test_the_namespace_comes_first_and_everything_namespaced_is_in_it(installed: Rendered) -> None:
    first = installed.objects[0]
    assert (first["kind"], first["metadata"]["name"]) == ("Namespace", NAMESPACE)
    assert {found["metadata"].get("namespace", NAMESPACE) for found in installed.objects} == {NAMESPACE}


def test_every_crd_is_included_unchanged_and_kept_on_uninstall(installed: Rendered) -> None:
    found = sorted(installed.all("CustomResourceDefinition"), key=lambda crd: str(crd["metadata"]["name"]))
    assert found == crds.load()
    assert {crd["metadata"]["annotations"]["helm.sh/resource-policy"] for crd in found} == {"keep"}


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_programs_accept_the_flags_of_their_deployments(installed: Rendered, name: str) -> None:
    container = installed.container(name)
    assert container["command"] == [DEPLOYMENTS[name]]
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert DEPLOYMENTS[name] in scripts
    parsed = PARSERS[name](container["args"])
    assert parsed.enable_healthz
    assert parsed.healthz_address == ":11251"


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_pods_are_unprivileged_and_probed_and_have_their_own_service_account(
    installed: Rendered, name: str
) -> None:
    pod, container = installed.pod(name), installed.container(name)
    assert pod["serviceAccountName"] == name
    assert name in installed.names("ServiceAccount")
    assert pod["securityContext"]["runAsNonRoot"] is True
    context = container["securityContext"]
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["runAsUser"] == 1000
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["healthz"] == 11251
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "healthz"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "healthz"}


def test_names_and_labels_are_those_of_volcano(installed: Rendered) -> None:
    labels = {
        found["metadata"]["name"]: found["spec"]["selector"]["matchLabels"]
        for found in installed.all("Deployment")
    }
    assert labels == {
        "volcano-scheduler": {"app": "volcano-scheduler"},
        "volcano-controllers": {"app": "volcano-controller"},
        "volcano-admission": {"app": "volcano-admission"},
    }
    assert installed.names("PodDisruptionBudget") == set(DEPLOYMENTS)
    assert {"volcano-admission-service", "volcano-scheduler-service"} <= installed.names("Service")
    assert "volcano-scheduler-configmap" in installed.names("ConfigMap")


def test_the_scheduler_configuration_is_the_shipped_one(installed: Rendered) -> None:
    data = installed.one("ConfigMap", "volcano-scheduler-configmap")["data"]
    assert data["volcano-scheduler.conf"].strip() == shipped().strip()
    assert parse(data["volcano-scheduler.conf"], "volcano-scheduler.conf").actions
    mounted = PARSERS["volcano-scheduler"](installed.container("volcano-scheduler")["args"]).scheduler_conf
    (mount, _) = installed.container("volcano-scheduler")["volumeMounts"]
    assert mounted == f"{mount['mountPath']}/volcano-scheduler.conf"


def test_roles_permit_exactly_the_leases_of_the_flags(installed: Rendered) -> None:
    for name in ("volcano-scheduler", "volcano-controllers"):
        parsed = PARSERS[name](installed.container(name)["args"])
        assert parsed.leader_elect
        assert parsed.leader_elect_resource_namespace == NAMESPACE
        (named,) = [rule for rule in installed.one("Role", name)["rules"] if "resourceNames" in rule]
        assert named["resourceNames"] == [parsed.leader_elect_resource_name]


def comparable(configuration: Object) -> Object:
    """A webhook configuration without labels, CA bundle and namespace selector."""
    (webhook,) = configuration["webhooks"]
    client = {name: value for name, value in webhook["clientConfig"].items() if name != "caBundle"}
    kept = {name: value for name, value in webhook.items() if name != "namespaceSelector"}
    return {"kind": configuration["kind"], "webhook": {**kept, "clientConfig": client}}


def test_webhooks_equal_those_that_the_manager_registers(installed: Rendered) -> None:
    wanted = configurations(
        authority=b"",
        enabled=list(BY_PATH),
        scheduler_names=("volcano",),
        service=Key(NAMESPACE, "volcano-admission-service"),
        controllers=(f"system:serviceaccount:{NAMESPACE}:volcano-controllers",),
    )
    for kind, manifest in wanted:
        found = installed.one(kind.kind, manifest["metadata"]["name"])
        assert comparable(found) == comparable(manifest)
        assert "caBundle" not in found["webhooks"][0]["clientConfig"]
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    assert sum(len(installed.names(kind)) for kind in kinds) == len(wanted)


def test_the_manager_may_patch_exactly_these_configurations(installed: Rendered) -> None:
    rules = installed.one("ClusterRole", "volcano-admission")["rules"]
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        (rule,) = [rule for rule in rules if rule["resources"] == [f"{kind.lower()}s"]]
        assert set(rule["resourceNames"]) == installed.names(kind)
        assert rule["verbs"] == ["patch"]


def test_no_role_has_a_wildcard(installed: Rendered) -> None:
    roles = [*installed.all("ClusterRole"), *installed.all("Role")]
    assert len(roles) == 8
    for role in roles:
        for rule in role["rules"]:
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
