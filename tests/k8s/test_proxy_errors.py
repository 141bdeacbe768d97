"""Errors of `pods/proxy`, `services/proxy`, `nodes/proxy` and of kubelets: the same as of a real API server."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from tests.apiserver.servers import TestServer
from tests.conftest import started
from tests.k8s.control_plane.cluster import RealCluster
from volcano.apiserver.proxy.kubelets import KubeletClientOptions
from volcano.base.http.messages import Exchange, Response
from volcano.kube.api.manifest import Manifest

pytestmark = pytest.mark.k8s

NODE: Manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}}
POD_SPEC = {
    "nodeName": "bare",
    "containers": [{"name": "main", "image": "web"}],
    "automountServiceAccountToken": False,
}
POD: Manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": POD_SPEC}
SERVICE: Manifest = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {"ports": [{"name": "http", "port": 80}]},
}
DEFAULT = "/api/v1/namespaces/default"
TARGETS = (
    f"{DEFAULT}/pods/none/proxy/",
    f"{DEFAULT}/pods/web/proxy/",
    f"{DEFAULT}/pods/ftp:web:80/proxy/",
    f"{DEFAULT}/services/none/proxy/",
    f"{DEFAULT}/services/none:80/proxy/",
    f"{DEFAULT}/services/web:81/proxy/",
    f"{DEFAULT}/services/a:b:c:d/proxy/",
    "/api/v1/nodes/none/proxy/pods",
    "/api/v1/nodes/a:b:c:d/proxy/",
)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    yield from started(tmp_path_factory)


def ask(cluster: RealCluster, method: str, target: str, body: Manifest | None = None) -> Manifest:
    data = json.dumps(body).encode() if body is not None else None
    headers = {"Authorization": f"Bearer {cluster.token}", "Content-Type": "application/json"}
    request = urllib.request.Request(cluster.url + target, data, headers, method=method)
    context = ssl.create_default_context(cafile=str(cluster.ca_file))
    try:
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            found: Manifest = json.load(answer)
    except urllib.error.HTTPError as error:
        found = json.load(error)
    return found


async def test_errors_are_those_of_a_real_server(real: RealCluster) -> None:
    server = await TestServer(kubelets=KubeletClientOptions()).start()
    for path, manifest in (
        ("/api/v1/nodes", NODE),
        (f"{DEFAULT}/pods", POD),
        (f"{DEFAULT}/services", SERVICE),
    ):
        made = ask(real, "POST", path, manifest)
        assert made["kind"] == manifest["kind"], made
        assert (await server.post(path, manifest)).code == 201
    differences = {}
    for target in TARGETS:
        answer = await server.send("GET", target)
        answer = await answer.run() if isinstance(answer, Exchange) else answer
        assert isinstance(answer, Response)
        ours, theirs = json.loads(answer.body), ask(real, "GET", target)
        compared = ("code", "reason", "message", "details")
        if [ours.get(name) for name in compared] != [theirs.get(name) for name in compared]:
            differences[target] = (ours, theirs)
    assert differences == {}
