"""The dashboard in the chart: off by default; its flags, permissions, Service and Ingress by authentication."""

from typing import Any

import pytest

from tests.installer.helm import Helm
from tests.installer.rendered import Rendered
from tools.installer.places import ROOT
from volcano.cli.volcano.parser import build_parser
from volcano.dashboard.feed import SHOWN as KINDS
from volcano.dashboard.options import DashboardOptions

pytestmark = pytest.mark.k8s
NAME = "volcano-dashboard"
ON = "dashboard.enabled=true"
PROXY = (
    ON,
    "dashboard.auth=proxy",
    "dashboard.sidecars[0].name=proxy",
    "dashboard.sidecars[0].image=proxy:1",
    "dashboard.sidecar_port=4180",
)
SHOWN = {(kind.group, kind.plural) for kind in KINDS}


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm"))


def flags(rendered: Rendered) -> Any:
    container = next(each for each in rendered.pod(NAME)["containers"] if each["name"] == NAME)
    assert container["command"] == ["volcano"]
    return build_parser().parse_args(container["args"])


def granted(rendered: Rendered, verb: str) -> set[tuple[str, str]]:
    """Group and resource of what the dashboard's own ClusterRole allows."""
    return {
        (group, resource)
        for rule in rendered.one("ClusterRole", NAME)["rules"]
        if verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_by_default_there_is_no_dashboard(helm: Helm) -> None:
    rendered = helm.template()
    assert not [each for each in rendered.objects if NAME in str(each["metadata"]["name"])]


def test_viewers_enter_a_token_and_the_dashboard_itself_only_reads(helm: Helm) -> None:
    rendered = helm.template(ON)
    parsed = flags(rendered)
    assert (parsed.auth, parsed.address, parsed.port) == ("token", "0.0.0.0", 8420)
    assert granted(rendered, "watch") == SHOWN
    assert granted(rendered, "list") == SHOWN | {("", "services")}
    verbs = {verb for rule in rendered.one("ClusterRole", NAME)["rules"] for verb in rule["verbs"]}
    assert verbs == {"list", "watch"}
    (local,) = rendered.one("Role", NAME)["rules"]
    assert local["resourceNames"] == ["volcano-scheduler-service:metrics"]
    pod = rendered.pod(NAME)
    assert pod["serviceAccountName"] == NAME
    assert pod["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http", "scheme": "HTTP"}
    assert container["readinessProbe"]["httpGet"]["path"] == "/healthz"
    (port,) = rendered.one("Service", NAME)["spec"]["ports"]
    assert port == {"name": "http", "port": 80, "targetPort": "http"}


def test_without_metrics_of_the_scheduler_and_with_accounting_the_rules_differ(helm: Helm) -> None:
    rendered = helm.template(ON, "custom.scheduler_metrics_enable=false", "custom.accounting_enable=true")
    accounting = {("accounting.volcano.sh", "runs"), ("accounting.volcano.sh", "jobs")}
    assert granted(rendered, "list") == SHOWN | accounting
    assert NAME not in rendered.names("Role")


def test_only_with_a_proxy_the_dashboard_may_impersonate(helm: Helm) -> None:
    rendered = helm.template(*PROXY, "dashboard.impersonate_groups={research,product}")
    parsed = flags(rendered)
    assert parsed.auth == "proxy"
    assert parsed.proxy_user_header.lower() == DashboardOptions().user_header
    assert parsed.trusted_proxy == [], "loopback: the proxy is in the same pod"
    assert granted(rendered, "impersonate") == {("", "users"), ("", "groups")}
    groups = next(
        rule for rule in rendered.one("ClusterRole", NAME)["rules"] if "groups" in rule["resources"]
    )
    assert groups["resourceNames"] == ["research", "product"]
    assert [each["name"] for each in rendered.pod(NAME)["containers"]] == [NAME, "proxy"]
    assert rendered.one("Service", NAME)["spec"]["ports"][0]["targetPort"] == 4180


def test_a_proxy_elsewhere_is_trusted_by_its_addresses(helm: Helm) -> None:
    rendered = helm.template(ON, "dashboard.auth=proxy", "dashboard.trusted_proxies={10.1.0.0/16}")
    assert flags(rendered).trusted_proxy == ["10.1.0.0/16"]


def test_a_secret_serves_https(helm: Helm) -> None:
    rendered = helm.template(ON, "dashboard.tls_secret=certificate")
    parsed = flags(rendered)
    assert str(parsed.tls_cert_file) == "/volcano.dashboard/tls.crt"
    assert str(parsed.tls_private_key_file) == "/volcano.dashboard/tls.key"
    volume = next(each for each in rendered.pod(NAME)["volumes"] if each["name"] == "certificate")
    assert volume["secret"]["secretName"] == "certificate"
    assert rendered.container(NAME)["livenessProbe"]["httpGet"]["scheme"] == "HTTPS"
    assert rendered.one("Service", NAME)["spec"]["ports"] == [
        {"name": "https", "port": 443, "targetPort": "https"}
    ]


def test_an_ingress_leads_to_the_service(helm: Helm) -> None:
    rendered = helm.template(
        ON,
        "dashboard.ingress.enabled=true",
        "dashboard.ingress.host=volcano.example",
        "dashboard.ingress.class_name=nginx",
        "dashboard.ingress.tls_secret=certificate",
        "dashboard.ingress.annotations.a=b",
        "dashboard.allowed_hosts={other.example}",
    )
    ingress = rendered.one("Ingress", NAME)
    assert ingress["metadata"]["annotations"] == {"a": "b"}
    assert ingress["spec"]["ingressClassName"] == "nginx"
    assert ingress["spec"]["tls"] == [{"hosts": ["volcano.example"], "secretName": "certificate"}]
    backend = ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert backend == {"name": NAME, "port": {"name": "http"}}
    assert flags(rendered).allowed_host == ["other.example", "volcano.example"]


def test_reports_of_the_simulator_are_mounted_read_only(helm: Helm) -> None:
    rendered = helm.template(ON, "dashboard.reports_claim=reports")
    assert str(flags(rendered).reports) == "/reports"
    mount = next(each for each in rendered.container(NAME)["volumeMounts"] if each["name"] == "reports")
    assert mount["readOnly"] is True


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (("dashboard.auth=link",), "choose from token, proxy"),
        ((ON, "dashboard.auth=proxy"), "dashboard.auth=proxy needs the proxy"),
        ((*PROXY[:-1],), "needs dashboard.sidecar_port"),
        ((ON, "dashboard.ingress.enabled=true"), "needs dashboard.ingress.host"),
        (("dashboard.enable=true",), "enable"),
        (("dashboard.ingress.hosts=a",), "hosts"),
    ],
)
def test_settings_that_cannot_work_are_rejected(helm: Helm, settings: tuple[str, ...], error: str) -> None:
    assert error in helm.render_error(*settings)


def test_the_image_has_what_the_dashboard_needs() -> None:
    dockerfile = (ROOT / "installer" / "dockerfile" / "Dockerfile").read_text()
    assert '".[postgresql,dashboard]"' in dockerfile
