"""`pods/proxy` and `services/proxy` of pods on local nodes, and of nodes without a process behind their pods."""

import json
from pathlib import Path

import pytest
import yaml

from tests.embedded.pods import pod_cluster, until
from volcano.base.http.pool import ConnectionPool
from volcano.base.http.tls_context import client_context
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.options import ClusterOptions
from volcano.kube.api.kinds import NODE, POD
from volcano.kube.api.manifest import Manifest
from volcano.nodes.pools import parse_pools

HTTP = """
import http.server, socket

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = f"{socket.gethostname()} {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

http.server.ThreadingHTTPServer(("0.0.0.0", 8080), Handler).serve_forever()
"""
DEFAULT = "/api/v1/namespaces/default"


async def get(cluster: LocalCluster, target: str) -> tuple[int, str]:
    """Status and body of a request of the administrator over HTTPS."""
    authority = (cluster.options.directory / "ca.crt").read_bytes()
    token = (cluster.options.directory / "admin.token").read_text()
    server = yaml.safe_load(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    pool = ConnectionPool(server, tls=client_context(authority))
    try:
        reply = await pool.request("GET", target, {"Authorization": f"Bearer {token}"})
    finally:
        await pool.close()
    return reply.status, reply.body.decode()


@pytest.mark.parametrize("runtime", ["netns", "userns", "plain"])
async def test_pods_and_services_of_local_nodes_are_reached(tmp_path: Path, runtime: str) -> None:
    async with pod_cluster(tmp_path, runtime) as cluster:
        probe = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
        ports = [{"containerPort": 8080}]
        await cluster.pod("web", "python3", "-c", HTTP, labels={"app": "web"}, ready=probe, ports=ports)
        await cluster.service("front", {"app": "web"}, {"port": 80, "targetPort": 8080})
        for target in (
            "pods/web/proxy/x?y=1",
            "pods/http:web:8080/proxy/x?y=1",
            "services/front:80/proxy/x?y=1",
        ):

            async def answered(target: str = target) -> str | None:
                status, body = await get(cluster.cluster, f"{DEFAULT}/{target}")
                return (
                    body if status == 200 else None
                )  # the endpoints of the Service follow the pod's readiness

            body = await until(answered, f"{target} is not reached")
            assert body.endswith(" /x?y=1")
            assert runtime == "plain" or body.startswith("web ")
        assert await error(cluster.cluster, f"{DEFAULT}/pods/web:8081/proxy/") == (503, "ServiceUnavailable")
        assert await error(cluster.cluster, "/api/v1/nodes/local-0/proxy/pods") == (501, "NotImplemented")


async def test_pods_on_nodes_of_kubelets_have_no_invented_log(tmp_path: Path) -> None:
    cluster = LocalCluster(ClusterOptions(tmp_path, durable=False, pools=parse_pools([1], [])))
    try:
        await cluster.start()
        node: Manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker"}}
        node["status"] = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 1}},
        }
        await cluster.client.create(NODE, node)
        nodes = (await cluster.client.list(NODE)).items
        simulated = next(each for each in nodes if each["metadata"]["name"] != "worker")
        for name, node_name in (("real", "worker"), ("simulated", simulated["metadata"]["name"])):
            spec = {"nodeName": node_name, "containers": [{"name": "main", "image": "none"}]}
            metadata = {"name": name, "namespace": "default"}
            await cluster.client.create(
                POD, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
            )
        status, body = await get(cluster, f"{DEFAULT}/pods/real/log")
        assert status == 500
        assert "https://127.0.0.1:1/containerLogs/default/real/main" in json.loads(body)["message"]

        async def started() -> bool:
            return "simulated container main" in (await get(cluster, f"{DEFAULT}/pods/simulated/log"))[1]

        await until(started, "the simulated pod has no log")
        assert await error(cluster, f"{DEFAULT}/pods/simulated/exec?command=ls&stdout=1") == (
            501,
            "NotImplemented",
        )
        assert await error(cluster, f"{DEFAULT}/pods/real/exec?command=ls&stdout=1") == (400, "BadRequest")
        name = simulated["metadata"]["name"]
        assert await error(cluster, f"/api/v1/nodes/{name}/proxy/pods") == (501, "NotImplemented")
    finally:
        await cluster.stop()


async def error(cluster: LocalCluster, target: str) -> tuple[int, str]:
    status, body = await get(cluster, target)
    return status, json.loads(body)["reason"]
