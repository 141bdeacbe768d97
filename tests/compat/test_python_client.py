"""The official Python client works unmodified with our server, for core kinds and custom resources."""

import importlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.compat.clusters import running_cluster

# The client is partly untyped.
kubernetes: Any = importlib.import_module("kubernetes")
for part in ("config", "client", "dynamic", "utils", "watch"):
    importlib.import_module(f"kubernetes.{part}")
ApiException = kubernetes.client.exceptions.ApiException

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

GROUP, VERSION = "batch.volcano.sh", "v1alpha1"
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "busybox:1", "command": ["sleep", "1000"]}]},
}
JOB: dict[str, Any] = {
    "apiVersion": f"{GROUP}/{VERSION}",
    "kind": "Job",
    "metadata": {"name": "train"},
    "spec": {
        "minAvailable": 1,
        "schedulerName": "volcano",
        "queue": "default",
        "tasks": [
            {
                "name": "worker",
                "replicas": 1,
                "template": {"spec": {**POD["spec"], "restartPolicy": "Never"}},
            }
        ],
    },
}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), "--in-memory", "--nodes", "2") as cluster:
        yield kubernetes.config.new_client_from_config(str(cluster.kubeconfig))


@pytest.fixture
def core(api: Any) -> Any:
    return kubernetes.client.CoreV1Api(api)


@pytest.fixture
def namespace(core: Any, request: pytest.FixtureRequest) -> str:
    """The test's own namespace, with the ServiceAccount that pods need."""
    name = f"test-{abs(hash(request.node.name)) % 10**8}"
    core.create_namespace({"metadata": {"name": name}})
    eventually(lambda: core.list_namespaced_service_account(name).items)
    return name


def eventually(condition: Callable[[], Any], seconds: float = 10) -> Any:
    """Polls until the result is true, and returns it."""
    deadline = time.monotonic() + seconds
    while not (result := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert result, f"not true within {seconds} s"
    return result


def test_discovery_and_version(api: Any, core: Any) -> None:
    assert kubernetes.client.VersionApi(api).get_code().major == "1"
    assert "pods" in [resource.name for resource in core.get_api_resources().resources]
    groups = [group.name for group in kubernetes.client.ApisApi(api).get_api_versions().groups]
    assert {"apps", GROUP, "scheduling.volcano.sh"} <= set(groups)


def test_nodes_and_namespaces_are_listed(core: Any) -> None:
    eventually(
        lambda: len(core.list_node(label_selector="!node-role.kubernetes.io/control-plane").items) == 2
    )
    names = [namespace.metadata.name for namespace in core.list_namespace().items]
    assert {"default", "kube-system", "volcano-system"} <= set(names)


def test_a_pod_is_created_read_changed_and_deleted(core: Any, namespace: str) -> None:
    made = core.create_namespaced_pod(namespace, POD)
    assert (made.metadata.name, made.status.phase) == ("web", "Pending")
    assert core.read_namespaced_pod("web", namespace).metadata.uid == made.metadata.uid
    patched = core.patch_namespaced_pod("web", namespace, {"metadata": {"labels": {"tier": "front"}}})
    assert patched.metadata.labels == {"app": "web", "tier": "front"}
    found = core.list_namespaced_pod(
        namespace, label_selector="tier=front", field_selector="metadata.name=web"
    )
    assert [pod.metadata.name for pod in found.items] == ["web"]
    patched.metadata.annotations = {"note": "updated"}
    assert eventually(lambda: _replaced(core, namespace))
    deleted = core.delete_namespaced_pod("web", namespace, grace_period_seconds=0)
    assert deleted.metadata.name == "web"
    with pytest.raises(ApiException) as caught:
        eventually(lambda: core.read_namespaced_pod("web", namespace) is None, 5)
    assert caught.value.status == 404
    assert '"reason":"NotFound"' in str(caught.value.body).replace(" ", "")


def _replaced(core: Any, namespace: str) -> bool:
    """Reads, changes and replaces the pod; False on a conflict."""
    pod = core.read_namespaced_pod("web", namespace)
    pod.metadata.annotations = {**(pod.metadata.annotations or {}), "note": "updated"}
    try:
        return bool(
            core.replace_namespaced_pod("web", namespace, pod).metadata.annotations["note"] == "updated"
        )
    except ApiException as error:
        if error.status != 409:
            raise
        return False


def test_typed_models_are_accepted(core: Any, namespace: str) -> None:
    models = kubernetes.client
    body = models.V1ConfigMap(metadata=models.V1ObjectMeta(name="settings"), data={"a": "1"})
    assert core.create_namespaced_config_map(namespace, body).data == {"a": "1"}
    secret = models.V1Secret(metadata=models.V1ObjectMeta(name="key"), string_data={"password": "x"})
    assert core.create_namespaced_secret(namespace, secret).data == {"password": "eA=="}


def test_an_outdated_update_conflicts(core: Any, namespace: str) -> None:
    stale = core.create_namespaced_config_map(
        namespace, {"metadata": {"name": "settings"}, "data": {"a": "1"}}
    )
    core.patch_namespaced_config_map("settings", namespace, {"data": {"a": "2"}})
    with pytest.raises(ApiException) as caught:
        core.replace_namespaced_config_map("settings", namespace, stale)
    assert caught.value.status == 409


def test_the_error_for_an_invalid_object_names_the_field(core: Any, namespace: str) -> None:
    with pytest.raises(ApiException) as caught:
        core.create_namespaced_pod(namespace, {**POD, "spec": {"containers": []}})
    assert caught.value.status == 422
    assert "spec.containers: Required value" in str(caught.value.body)


def test_a_watch_receives_every_change(core: Any, namespace: str) -> None:
    seen: list[tuple[str, str]] = []
    version = core.list_namespaced_config_map(namespace).metadata.resource_version
    watch = kubernetes.watch.Watch()

    def follow() -> None:
        stream = watch.stream(
            core.list_namespaced_config_map, namespace, resource_version=version, timeout_seconds=20
        )
        for event in stream:
            if event["object"].metadata.name != "kube-root-ca.crt":
                seen.append((event["type"], event["object"].metadata.name))
            if event["type"] == "DELETED":
                watch.stop()

    thread = threading.Thread(target=follow)
    thread.start()
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "a"}, "data": {"v": "1"}})
    core.patch_namespaced_config_map("a", namespace, {"data": {"v": "2"}})
    core.delete_namespaced_config_map("a", namespace)
    thread.join(25)
    assert not thread.is_alive()
    assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


def test_pages_contain_every_object_once(core: Any, namespace: str) -> None:
    for number in range(7):
        core.create_namespaced_config_map(
            namespace, {"metadata": {"name": f"c{number}", "labels": {"mine": "yes"}}}
        )
    names, token = [], ""
    while True:
        page = core.list_namespaced_config_map(
            namespace, label_selector="mine", limit=3, _continue=token or None
        )
        names += [item.metadata.name for item in page.items]
        token = page.metadata._continue
        if not token:
            break
    assert names == [f"c{number}" for number in range(7)]


def test_create_from_yaml_creates_every_object(api: Any, core: Any, namespace: str, tmp_path: Path) -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": POD["metadata"], "spec": POD["spec"]},
        },
    }
    path = tmp_path / "all.yaml"
    path.write_text(yaml.safe_dump_all([deployment, {**POD, "metadata": {"name": "single"}}]))
    kubernetes.utils.create_from_yaml(api, str(path), namespace=namespace)
    eventually(lambda: len(core.list_namespaced_pod(namespace, label_selector="app=web").items) == 2)
    assert core.read_namespaced_pod("single", namespace).metadata.name == "single"
    apps = kubernetes.client.AppsV1Api(api)
    scaled = apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 1}})
    assert scaled.spec.replicas == 1
    eventually(lambda: len(core.list_namespaced_pod(namespace, label_selector="app=web").items) == 1)


def test_a_pod_is_bound_runs_and_writes_its_log(core: Any, namespace: str) -> None:
    models = kubernetes.client
    pod = {**POD, "spec": {**POD["spec"], "schedulerName": "no-scheduler"}}
    core.create_namespaced_pod(namespace, pod)
    target = models.V1ObjectReference(api_version="v1", kind="Node", name="node-0")
    body = models.V1Binding(metadata=models.V1ObjectMeta(name="web"), target=target)
    # The response is a Status, which this client's model of a Binding cannot represent.
    core.create_namespaced_pod_binding("web", namespace, body, _preload_content=False)
    eventually(lambda: core.read_namespaced_pod("web", namespace).status.phase == "Running")
    assert core.read_namespaced_pod("web", namespace).spec.node_name == "node-0"


def test_jobs_are_custom_objects(api: Any, namespace: str) -> None:
    custom = kubernetes.client.CustomObjectsApi(api)
    where = (GROUP, VERSION, namespace, "jobs")
    made = custom.create_namespaced_custom_object(*where, JOB)
    assert made["spec"]["queue"] == "default"
    patched = custom.patch_namespaced_custom_object(*where, "train", {"metadata": {"labels": {"team": "ml"}}})
    assert patched["metadata"]["labels"]["team"] == "ml"
    listed = custom.list_namespaced_custom_object(*where, label_selector="team=ml")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["train"]
    assert listed["kind"] == "JobList"
    assert eventually(lambda: _custom_replaced(custom, where))
    with pytest.raises(ApiException) as caught:
        custom.create_namespaced_custom_object(
            *where, {**JOB, "spec": {**JOB["spec"], "minAvailable": "many"}}
        )
    assert caught.value.status == 422
    assert "spec.minAvailable" in str(caught.value.body)
    custom.delete_namespaced_custom_object(*where, "train")
    eventually(lambda: not custom.list_namespaced_custom_object(*where)["items"])


def _custom_replaced(custom: Any, where: tuple[str, str, str, str]) -> bool:
    job = custom.get_namespaced_custom_object(*where, "train")
    job["metadata"].setdefault("annotations", {})["note"] = "updated"
    try:
        changed = custom.replace_namespaced_custom_object(*where, "train", job)
    except ApiException as error:
        if error.status != 409:
            raise
        return False
    return bool(changed["metadata"]["annotations"]["note"] == "updated")


def test_queues_have_a_status_subresource(api: Any) -> None:
    custom = kubernetes.client.CustomObjectsApi(api)
    where = ("scheduling.volcano.sh", "v1beta1", "queues")
    body = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "research"},
        "spec": {"weight": 4},
    }
    custom.create_cluster_custom_object(*where, body)
    changed = custom.patch_cluster_custom_object_status(
        *where, "research", {"status": {"pending": 3}, "spec": {"weight": 9}}
    )
    assert changed["status"]["pending"] == 3
    assert changed["spec"]["weight"] == 4
    assert "default" in [
        queue["metadata"]["name"] for queue in custom.list_cluster_custom_object(*where)["items"]
    ]
    custom.delete_cluster_custom_object(*where, "research")


def test_the_dynamic_client_finds_every_kind(api: Any, namespace: str) -> None:
    dynamic = kubernetes.dynamic.DynamicClient(api)
    maps = dynamic.resources.get(api_version="v1", kind="ConfigMap")
    maps.create(body={"metadata": {"name": "settings"}, "data": {"a": "1"}}, namespace=namespace)
    applied = dynamic.server_side_apply(
        maps,
        body={
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings", "namespace": namespace},
            "data": {"b": "2"},
        },
        field_manager="tester",
        namespace=namespace,
    )
    assert dict(applied.data) == {"a": "1", "b": "2"}
    queues = dynamic.resources.get(api_version="scheduling.volcano.sh/v1beta1", kind="Queue")
    assert "default" in [queue.metadata.name for queue in queues.get().items]


def test_an_invalid_token_is_unauthorized(api: Any) -> None:
    wrong = kubernetes.client.Configuration()
    wrong.host, wrong.ssl_ca_cert = api.configuration.host, api.configuration.ssl_ca_cert
    wrong.api_key = {"authorization": "Bearer wrong"}
    with pytest.raises(ApiException) as caught:
        kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(wrong)).list_node()
    assert caught.value.status == 401
