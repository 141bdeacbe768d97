"""Manifests of operators, as they are adapted to a cluster on one host."""

from pathlib import Path

from volcano.base.yaml_loader import load_documents
from volcano.frameworks.operators import FILE, Adaptation, adapted, write
from volcano.kube.api.manifest import Manifest


def deployment(*containers: Manifest) -> Manifest:
    spec = {"template": {"spec": {"containers": list(containers)}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "manager"}, "spec": spec}


def containers_of(manifest: Manifest) -> list[Manifest]:
    found: list[Manifest] = manifest["spec"]["template"]["spec"]["containers"]
    return found


def role(name: str) -> Manifest:
    return {"kind": "ClusterRole", "metadata": {"name": name}, "rules": [{"verbs": ["get"]}]}


def test_arguments_and_environment_are_added_and_resources_removed() -> None:
    manager = {"name": "manager", "args": ["--a"], "resources": {"requests": {"cpu": "1"}}}
    proxy = {"name": "proxy", "env": [{"name": "X", "value": "1"}]}
    change = Adaptation(arguments={"manager": ("--b",)}, environment={"Y": "2"})
    first, second = containers_of(adapted([deployment(manager, proxy)], change)[0])
    assert first == {"name": "manager", "args": ["--a", "--b"], "env": [{"name": "Y", "value": "2"}]}
    assert second["env"] == [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]
    assert "args" not in second


def test_probes_get_the_time_that_a_busy_machine_needs() -> None:
    probe = {"httpGet": {"path": "/healthz", "port": 8081}, "timeoutSeconds": 1}
    manager = {"name": "manager", "livenessProbe": {**probe}, "readinessProbe": {**probe}}
    (container,) = containers_of(adapted([deployment(manager)], Adaptation())[0])
    assert container["livenessProbe"] == {**probe, "timeoutSeconds": 10, "failureThreshold": 6}
    assert container["readinessProbe"] == {**probe, "timeoutSeconds": 10}


def test_objects_and_containers_can_be_left_out() -> None:
    change = Adaptation(without=("ClusterRole/other", "container/proxy"))
    left = adapted([deployment({"name": "manager"}, {"name": "proxy"}), role("other"), role("own")], change)
    assert [manifest["metadata"]["name"] for manifest in left] == ["manager", "own"]
    assert [container["name"] for container in containers_of(left[0])] == ["manager"]


def test_rights_are_added_to_the_role_of_that_name_only() -> None:
    aggregated = {"kind": "ClusterRole", "metadata": {"name": "sum"}, "aggregationRule": {}}  # has no rules
    rule = {"verbs": ["*"]}
    left = adapted([role("own"), role("other"), aggregated], Adaptation(rights={"own": (rule,)}))
    assert [len(manifest.get("rules", ())) for manifest in left] == [2, 1, 0]


def test_a_namespace_that_the_manifests_lack_comes_first() -> None:
    names = [m["metadata"]["name"] for m in adapted([role("own")], Adaptation(namespace="argo"))]
    assert names == ["argo", "own"]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argo"}}
    assert len(adapted([namespace], Adaptation(namespace="argo"))) == 1


def test_the_file_contains_what_was_written(tmp_path: Path) -> None:
    manifests = [role("own"), deployment({"name": "manager", "args": ["--percent=50%", "text: with colon"]})]
    assert write(tmp_path, manifests, Adaptation()) == tmp_path / FILE
    documents = load_documents((tmp_path / FILE).read_text())
    assert [document.value for document in documents] == adapted(manifests, Adaptation())
