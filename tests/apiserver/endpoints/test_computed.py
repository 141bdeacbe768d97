"""metrics.k8s.io and APIServices: computed for each request, read-only."""

from typing import Any

import pytest

from tests.apiserver.servers import TestServer
from volcano.apiserver.endpoints.computed import Measurement, Usage
from volcano.apiserver.interfaces import User
from volcano.kube.api.manifest import Manifest

METRICS = "/apis/metrics.k8s.io/v1beta1"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
JOE = User("joe", ("system:authenticated",))


class Declared:
    """Every node uses two cpus and 1 GiB; of the pods, those that are labelled."""

    def node(self, node: Manifest) -> Measurement | None:
        return Measurement({"": Usage(2.0, 1 << 30)}, 1_800_000_000.0, 15.0)

    def pod(self, pod: Manifest) -> Measurement | None:
        if "measured" not in pod["metadata"].get("labels", {}):
            return None
        usage = {container["name"]: Usage(0.25, 64 << 20) for container in pod["spec"]["containers"]}
        return Measurement(usage, 1_800_000_000.0, 15.25)


def pod(name: str, **labels: str) -> Manifest:
    containers = [{"name": "main", "image": "none"}, {"name": "sidecar", "image": "none"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"containers": containers},
    }


@pytest.fixture
async def server() -> TestServer:
    started = await TestServer(tokens={"joes": JOE}, resource_metrics=Declared()).start()
    for name in ("a", "b"):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"pool": name}}}
        await started.ask("POST", "/api/v1/nodes", node)
    for manifest in (pod("p", measured="yes", app="web"), pod("q", measured="yes"), pod("new")):
        await started.ask("POST", "/api/v1/namespaces/default/pods", manifest)
    return started


async def test_metrics_of_nodes_are_listed_and_read(server: TestServer) -> None:
    listed = (await server.get(f"{METRICS}/nodes")).json
    assert (listed["kind"], listed["apiVersion"]) == ("NodeMetricsList", "metrics.k8s.io/v1beta1")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "b"]
    assert (await server.get(f"{METRICS}/nodes/a")).json == {
        "kind": "NodeMetrics",
        "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {"name": "a", "labels": {"pool": "a"}, "creationTimestamp": "2027-01-15T08:00:00Z"},
        "timestamp": "2027-01-15T08:00:00Z",
        "window": "15s",
        "usage": {"cpu": "2000000000n", "memory": "1048576Ki"},
    }


async def test_metrics_of_pods_are_those_of_their_containers(server: TestServer) -> None:
    found = (await server.get(f"{METRICS}/namespaces/default/pods/p")).json
    usage = {"cpu": "250000000n", "memory": "65536Ki"}
    assert found["containers"] == [{"name": "main", "usage": usage}, {"name": "sidecar", "usage": usage}]
    assert found["window"] == "15.25s"
    for path in (f"{METRICS}/pods", f"{METRICS}/namespaces/default/pods"):
        assert names(await server.get(path)) == ["p", "q"], "a pod that is not measured has no metrics"
    assert names(await server.get(f"{METRICS}/namespaces/other/pods")) == []


async def test_selectors_choose_pods_and_nodes_by_their_labels_and_names(server: TestServer) -> None:
    pods = f"{METRICS}/namespaces/default/pods"
    assert names(await server.get(f"{pods}?labelSelector=app%3Dweb")) == ["p"]
    assert names(await server.get(f"{pods}?fieldSelector=metadata.name%3Dq")) == ["q"]
    assert names(await server.get(f"{METRICS}/nodes?labelSelector=pool%21%3Da")) == ["b"]
    assert (await server.get(f"{pods}?labelSelector=a%20b")).code == 400


async def test_metrics_are_printed_as_a_table(server: TestServer) -> None:
    table = (await server.get(f"{METRICS}/nodes", accept=TABLE)).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "cpu", "memory", "Window"]
    assert [row["cells"] for row in table["rows"]] == [[name, "2000m", "1048576Ki", "15s"] for name in "ab"]
    table = (await server.get(f"{METRICS}/namespaces/default/pods/p", accept=TABLE)).json
    assert [row["cells"] for row in table["rows"]] == [["p", "500m", "131072Ki", "15.25s"]]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (f"{METRICS}/nodes/none", 'nodes.metrics.k8s.io "none" not found'),
        (f"{METRICS}/namespaces/default/pods/new", 'pods.metrics.k8s.io "new" not found'),
        (
            "/apis/apiregistration.k8s.io/v1/apiservices/v9.none",
            'apiservices.apiregistration.k8s.io "v9.none"',
        ),
    ],
)
async def test_what_is_not_measured_or_served_is_not_found(
    server: TestServer, path: str, message: str
) -> None:
    answer = await server.get(path)
    assert (answer.code, message in answer.message) == (404, True), answer.message


async def test_metrics_cannot_be_written(server: TestServer) -> None:
    assert (await server.ask("POST", f"{METRICS}/nodes", {"kind": "NodeMetrics"})).code == 405
    assert (await server.ask("DELETE", f"{METRICS}/nodes/a")).code == 405
    assert (await server.get(f"{METRICS}/nodes?watch=true")).code == 405
    assert (await server.get(f"{METRICS}/nodes/a/status")).code == 404


async def test_the_right_to_read_metrics_comes_with_the_role_view(server: TestServer) -> None:
    path = f"{METRICS}/namespaces/default/pods"
    denied = await server.get(path, token="joes")
    assert denied.code == 403
    assert 'cannot list resource "pods" in API group "metrics.k8s.io"' in denied.message
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "joe", "namespace": "default"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "system:aggregated-metrics-reader",
        },
        "subjects": [{"kind": "User", "name": "joe", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    created = await server.ask("POST", f"{rbac}/namespaces/default/rolebindings", binding)
    assert created.code == 201
    assert (await server.get(path, token="joes")).code == 200
    assert (await server.get(f"{METRICS}/nodes", token="joes")).code == 403
    view = (await server.get(f"{rbac}/clusterroles/system:aggregated-metrics-reader")).json
    assert view["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"


async def test_metrics_are_discovered_as_of_metrics_server(server: TestServer) -> None:
    resources = (await server.get(METRICS)).json["resources"]
    assert [(each["name"], each["kind"], each["namespaced"], each["verbs"]) for each in resources] == [
        ("nodes", "NodeMetrics", False, ["get", "list"]),
        ("pods", "PodMetrics", True, ["get", "list"]),
    ]
    groups = (await server.get("/apis")).json["groups"]
    assert "metrics.k8s.io" in [group["name"] for group in groups]
    document = (await server.get("/openapi/v3/apis/metrics.k8s.io/v1beta1")).json
    assert "io.k8s.metrics.pkg.apis.metrics.v1beta1.NodeMetrics" in document["components"]["schemas"]


async def test_api_services_list_what_is_served(server: TestServer) -> None:
    path = "/apis/apiregistration.k8s.io/v1/apiservices"
    found = {item["metadata"]["name"]: item for item in (await server.get(path)).json["items"]}
    assert {"v1.", "v1.apps", "v2.autoscaling", "v1.autoscaling", "v1beta1.metrics.k8s.io"} <= found.keys()
    metrics = found["v1beta1.metrics.k8s.io"]
    assert metrics["spec"]["service"] == {"namespace": "kube-system", "name": "metrics-server", "port": 443}
    assert metrics["status"]["conditions"][0]["status"] == "True"
    assert "service" not in found["v1."]["spec"]
    assert "group" not in found["v1."]["spec"]
    table = (await server.get(f"{path}/v1beta1.metrics.k8s.io", accept=TABLE)).json
    assert table["rows"][0]["cells"][:3] == ["v1beta1.metrics.k8s.io", "kube-system/metrics-server", "True"]
    selected = await server.get(f"{path}?fieldSelector=metadata.name%3Dv1.apps")
    assert names(selected) == ["v1.apps"]


def names(answer: Any) -> list[str]:
    return [item["metadata"]["name"] for item in answer.json["items"]]
