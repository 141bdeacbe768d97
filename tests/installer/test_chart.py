"""The chart with Helm: lint, rendering by values, and errors for unsupported values."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.installer.helm import NAMESPACE, Helm, served
from tests.installer.rendered import DEPLOYMENTS
from tests.installer.test_single_file import PARSERS
from tests.k8s.control_plane.build import program
from tools.generate_installer import single_file
from tools.installer.places import CHART, SINGLE_FILE
from tools.package_chart import package
from volcano.webhooks.registration import configurations

pytestmark = pytest.mark.k8s
COMPONENTS = {
    "scheduler": "volcano-scheduler",
    "controller": "volcano-controllers",
    "admission": "volcano-admission",
}


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm"))


def test_the_chart_lints(helm: Helm) -> None:
    output = helm.run("lint", "--strict", str(CHART)).stdout
    assert "0 chart(s) failed" in output
    assert "[WARNING]" not in output


def test_the_single_file_is_what_the_chart_renders(helm: Helm) -> None:
    stale = "run `python -m tools.generate_installer`"
    assert single_file(program("helm")) == SINGLE_FILE.read_text(), stale


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("switch", ["basic.{}.enabled", "custom.{}_enable"])
def test_a_disabled_component_renders_nothing(helm: Helm, component: str, switch: str) -> None:
    rendered = helm.template(f"{switch.format(component)}=false")
    name = COMPONENTS[component]
    assert rendered.names("Deployment") == set(COMPONENTS.values()) - {name}
    for kind in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "PodDisruptionBudget"):
        assert not {found for found in rendered.names(kind) if found.startswith(name)}, kind
    webhooks = rendered.names("ValidatingWebhookConfiguration") | rendered.names(
        "MutatingWebhookConfiguration"
    )
    assert bool(webhooks) == (component != "admission")


def test_the_documented_settings_are_accepted(helm: Helm) -> None:
    rendered = helm.template(
        "basic.scheduler.enabled=true", "basic.controller.enabled=true", "basic.admission.enabled=true"
    )
    assert rendered.names("Deployment") == set(COMPONENTS.values())


def test_values_of_an_existing_volcano_are_accepted(helm: Helm, tmp_path: Path) -> None:
    """The defaults of Volcano's chart, as `helm get values --all` shows them."""
    values: dict[str, dict[str, Any]] = {
        "basic": {
            "image_registry": "images.example",
            "image_tag_version": "v1",
            "image_pull_policy": "Always",
            "scheduler_image_name": "us/vc-scheduler",
            "controller_image_name": "us/vc-controller-manager",
            "admission_image_name": "us/vc-webhook-manager",
            "agent_image_name": "us/vc-agent",
            "admission_secret_name": "volcano-admission-secret",
            "admission_config_file": "config/volcano-admission.conf",
            "scheduler_config_file": "config/volcano-scheduler.conf",
            "image_pull_secret": "",
            "admission_port": 8443,
        },
        "custom": {
            "metrics_enable": False,
            "scheduler_pprof_enable": False,
            "scheduler_plugins_dir": "",
            "scheduler_name": None,
            "leader_elect_enable": False,
            "controller_worker_threads": 3,
            "controller_worker_threads_for_gc": 5,
            "scheduler_node_worker_threads": 20,
            "scheduler_schedule_period": "1s",
            "enabled_admissions": "/jobs/mutate,/jobs/validate,/podgroups/validate,/queues/mutate",
            "colocation_enable": False,
            "admission_log_level": 4,
            "default_csc": {"runAsUser": 2000},
        },
        "service": {"ipFamilyPolicy": "", "ipFamilies": []},
    }
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    rendered = helm.template(f"--values={file}")
    assert rendered.container("volcano-scheduler")["image"] == "images.example/us/vc-scheduler:v1"
    assert rendered.container("volcano-controllers")["securityContext"]["runAsUser"] == 2000
    assert len(rendered.names("MutatingWebhookConfiguration")) == 2
    for name in DEPLOYMENTS:
        parsed = PARSERS[name](rendered.container(name)["args"])
        assert name == "volcano-admission" or not parsed.leader_elect
    webhooks = PARSERS["volcano-admission"](rendered.container("volcano-admission")["args"])
    assert webhooks.enabled == values["custom"]["enabled_admissions"].split(",")


def test_two_replicas_have_anti_affinity_and_a_disruption_budget(helm: Helm) -> None:
    replicas = [f"custom.{component}_replicas=2" for component in COMPONENTS]
    rendered = helm.template(*replicas)
    for name in DEPLOYMENTS:
        assert rendered.one("Deployment", name)["spec"]["replicas"] == 2
        (term,) = rendered.pod(name)["affinity"]["podAntiAffinity"][
            "preferredDuringSchedulingIgnoredDuringExecution"
        ]
        labels = rendered.one("Deployment", name)["spec"]["template"]["metadata"]["labels"]
        assert term["podAffinityTerm"]["labelSelector"]["matchLabels"]["app"] == labels["app"]
        assert rendered.one("PodDisruptionBudget", name)["spec"]["maxUnavailable"] == 1


def test_metrics_add_dashboards_and_service_monitors_where_their_crd_exists(helm: Helm) -> None:
    assert helm.template().names("ServiceMonitor") == set()
    plain = helm.template("custom.metrics_enable=true")
    assert plain.names("ServiceMonitor") == set()
    (dashboards,) = [name for name in plain.names("ConfigMap") if "grafana" in name]
    assert plain.one("ConfigMap", dashboards)["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert "histogram_quantile" in plain.one("ConfigMap", dashboards)["data"]["volcano-scheduler.json"]
    known = helm.template(
        "custom.metrics_enable=true", "--api-versions=monitoring.coreos.com/v1/ServiceMonitor"
    )
    assert known.names("ServiceMonitor") == {"volcano-scheduler", "volcano-controllers"}
    for name in known.names("ServiceMonitor"):
        selected = known.one("ServiceMonitor", name)["spec"]["selector"]["matchLabels"]
        services = [
            found
            for found in known.all("Service")
            if selected.items() <= found["metadata"]["labels"].items()
            and any(port["name"] == "metrics" for port in found["spec"]["ports"])
        ]
        assert len(services) == 1


def test_metrics_can_be_disabled(helm: Helm) -> None:
    rendered = helm.template("custom.scheduler_metrics_enable=false", "custom.service_monitor_enable=true")
    assert rendered.names("ServiceMonitor") == {"volcano-controllers"}
    assert "volcano-scheduler-service" not in rendered.names("Service")
    assert not PARSERS["volcano-scheduler"](rendered.container("volcano-scheduler")["args"]).enable_metrics


def test_settings_of_a_component_override_the_defaults(helm: Helm) -> None:
    rendered = helm.template(
        "custom.default_tolerations[0].key=all",
        "custom.scheduler_tolerations[0].key=one",
        "custom.default_ns.disk=fast",
        "custom.scheduler_main_csc.runAsUser=7",
        "custom.common_labels.team=batch",
        "custom.scheduler_podLabels.tier=x",
        "basic.image_pull_secret=key",
    )
    scheduler, admission = rendered.pod("volcano-scheduler"), rendered.pod("volcano-admission")
    assert scheduler["tolerations"] == [{"key": "one"}]
    assert admission["tolerations"] == [{"key": "all"}]
    assert scheduler["nodeSelector"] == {"disk": "fast"}
    assert scheduler["containers"][0]["securityContext"] == {"runAsUser": 7}
    assert scheduler["imagePullSecrets"] == [{"name": "key"}]
    labels = rendered.one("Deployment", "volcano-scheduler")["spec"]["template"]["metadata"]["labels"]
    assert (labels["team"], labels["tier"]) == ("batch", "x")
    others = [found for found in rendered.objects if found["kind"] != "CustomResourceDefinition"]
    assert all(found["metadata"]["labels"]["team"] == "batch" for found in others)


def test_configurations_are_replaced_by_text_or_by_another_file(helm: Helm) -> None:
    override = helm.template("custom.scheduler_config_override=actions: allocate")
    data = override.one("ConfigMap", "volcano-scheduler-configmap")["data"]
    assert data == {"volcano-scheduler.conf": "actions: allocate\n"}
    other = helm.template("basic.scheduler_config_file=config/volcano-scheduler-preempt.conf")
    data = other.one("ConfigMap", "volcano-scheduler-configmap")["data"]
    assert "reclaim" in data["volcano-scheduler-preempt.conf"]
    flags = PARSERS["volcano-scheduler"](other.container("volcano-scheduler")["args"])
    assert flags.scheduler_conf == "/volcano.scheduler/volcano-scheduler-preempt.conf"


def test_another_scheduler_name_reaches_every_program_and_the_pods_webhook(helm: Helm) -> None:
    rendered = helm.template("custom.scheduler_name=second")
    for name in DEPLOYMENTS:
        assert PARSERS[name](rendered.container(name)["args"]).scheduler_name == ["second"]
    pods = rendered.one("MutatingWebhookConfiguration", "volcano-admission-service-pods-mutate")
    assert pods["webhooks"][0]["matchConditions"][0]["expression"].endswith('in ["second"]')


def test_match_conditions_equal_those_that_the_manager_registers(helm: Helm) -> None:
    rendered = helm.template()
    user = f"system:serviceaccount:{NAMESPACE}:volcano-controllers"
    paths = PARSERS["volcano-admission"](rendered.container("volcano-admission")["args"]).enabled
    wanted = configurations(authority=b"", enabled=paths, scheduler_names=("volcano",), controllers=(user,))
    assert len(wanted) == len(paths)
    for kind, manifest in wanted:
        (webhook,) = rendered.one(kind.kind, manifest["metadata"]["name"])["webhooks"]
        assert webhook.get("matchConditions") == manifest["webhooks"][0].get("matchConditions"), webhook[
            "name"
        ]


def test_resource_groups_make_the_webhook_review_all_pods(helm: Helm) -> None:
    def conditions(name: str, *settings: str) -> object:
        rendered = helm.template(*settings)
        kind = "MutatingWebhookConfiguration" if name.endswith("mutate") else "ValidatingWebhookConfiguration"
        return rendered.one(kind, f"volcano-admission-service-{name}")["webhooks"][0].get("matchConditions")

    groups = (
        "custom.admission_config_override=resourceGroups: [{resourceGroup: gpu\\, schedulerName: volcano}]"
    )
    assert conditions("pods-mutate") is not None
    assert conditions("pods-mutate", groups) is None
    assert conditions("pods-validate", groups) is not None


def test_the_scheduler_reads_config_maps_and_locks_nodes_only_with_shared_devices(helm: Helm) -> None:
    def allowed(config: str) -> tuple[bool, bool]:
        settings = [f"custom.scheduler_config_override={config}"] if config else []
        rules = helm.template(*settings).one("ClusterRole", "volcano-scheduler")["rules"]
        return (
            any("configmaps" in rule["resources"] for rule in rules),
            any("nodes" in rule["resources"] and "patch" in rule["verbs"] for rule in rules),
        )

    assert allowed("") == (False, False)
    assert allowed("deviceshare.VGPUEnable: true") == (True, False)
    assert allowed("deviceshare.NodeLockEnable: true") == (True, True)


def test_the_scheduler_reads_recorded_usage_only_with_fair_shares(helm: Helm) -> None:
    def may_read_usage(*settings: str) -> bool:
        rules = helm.template(*settings).one("ClusterRole", "volcano-scheduler")["rules"]
        return any("decayedusage" in rule["resources"] for rule in rules)

    assert not may_read_usage()
    assert may_read_usage("custom.scheduler_config_override=fairshare.halfLife: 24h")


def test_targets_of_notifications_are_flags_of_the_controllers(helm: Helm) -> None:
    def flags(*settings: str) -> list[str]:
        pod = helm.template(*settings).one("Deployment", "volcano-controllers")["spec"]["template"]["spec"]
        return [each for each in pod["containers"][0]["args"] if each.startswith("--notify")]

    assert flags() == []
    given = flags(
        "custom.controller_notify_allow={10.0.0.0/8,hooks.example.com}", "custom.controller_notify_source=/a"
    )
    assert given == ["--notify-allow=10.0.0.0/8", "--notify-allow=hooks.example.com", "--notify-source=/a"]


def test_the_scheduler_may_patch_pods_only_with_the_feature_gate(helm: Helm) -> None:
    def may_patch_pods(*settings: str) -> bool:
        rules = helm.template(*settings).one("ClusterRole", "volcano-scheduler")["rules"]
        return any("pods" in rule["resources"] and "patch" in rule["verbs"] for rule in rules)

    assert not may_patch_pods()
    assert may_patch_pods("custom.scheduler_feature_gates=SchedulingGatesQueueAdmission=true")


def test_the_namespace_selector_of_webhooks_is_extended(helm: Helm) -> None:
    expression = "custom.webhooks_namespace_selector_expressions[0]"
    rendered = helm.template(f"{expression}.key=batch", f"{expression}.operator=Exists")
    jobs = rendered.one("ValidatingWebhookConfiguration", "volcano-admission-service-jobs-validate")
    own, given = jobs["webhooks"][0]["namespaceSelector"]["matchExpressions"]
    assert own["values"] == [NAMESPACE, "kube-system"]
    assert given == {"key": "batch", "operator": "Exists"}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        pytest.param(
            ["custom.agent_scheduler_enable=true"], "one scheduler serves all pods here", id="agent scheduler"
        ),
        pytest.param(
            ["custom.colocation_enable=true"], "the daemon volcano-agent changes cgroups", id="agent"
        ),
        pytest.param(
            ["custom.scheduler_sharding_mode=hard"],
            "one scheduler serves all nodes",
            id="sharding with a reason",
        ),
        pytest.param(["custom.colocation_enable=true"], "custom.colocation_enable=true", id="agent"),
        pytest.param(["custom.scheduler_plugins_dir=/x"], "custom.scheduler_plugins_dir=/x", id="plugins"),
        pytest.param(["custom.scheduler_sharding_mode=hard"], "sharding is not available", id="sharding"),
        pytest.param(
            ["custom.scheduler_replicas=2", "custom.leader_elect_enable=false"],
            "needs custom.leader_elect_enable=true",
            id="replicas",
        ),
        pytest.param(["custom.scheduler_replica=2"], "'scheduler_replica' not allowed", id="misspelt"),
        pytest.param(["custom.scheduler_replicas=two"], "got string, want null or integer", id="type"),
        pytest.param(["custom.enabled_admissions=/a/b"], 'unknown service "/a/b"', id="service"),
        pytest.param(["basic.scheduler_config_file=x"], 'no file "x"', id="file"),
    ],
)
def test_unsupported_values_are_errors(helm: Helm, setting: list[str], message: str) -> None:
    assert message in helm.render_error(*setting)


def test_a_packaged_chart_is_found_on_a_plain_file_server(helm: Helm, tmp_path: Path) -> None:
    package(program("helm"), tmp_path)
    package(program("helm"), tmp_path)  # again, into an existing index
    with served(tmp_path) as address:
        helm.run("repo", "add", "volcano-sh", address)
        found = helm.run("search", "repo", "volcano-sh/volcano", "--output", "yaml").stdout
        assert [entry["name"] for entry in yaml.safe_load(found)] == ["volcano-sh/volcano"]
        pulled = helm.run("template", "volcano", "volcano-sh/volcano", "--namespace", NAMESPACE).stdout
    assert pulled in SINGLE_FILE.read_text()
