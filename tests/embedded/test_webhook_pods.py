"""Webhooks that run in pods are dialled through the pods' network; other targets are rejected."""

import asyncio
import base64
import time
from pathlib import Path

import pytest

from tests.embedded.pods import PodCluster, pod_cluster
from volcano.base.http.tls import Authority, create_authority, issue
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import CONFIG_MAP, SECRET, VALIDATING_WEBHOOK

# Denies each request and says why.
WEBHOOK = """
import http.server, json, ssl

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        response = {"uid": review["request"]["uid"], "allowed": False, "status": {"message": "denied in a pod"}}
        body = json.dumps({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/etc/tls/tls.crt", "/etc/tls/tls.key")
server = http.server.HTTPServer(("0.0.0.0", 8443), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}


async def register(cluster: PodCluster, authority: Authority, client: dict[str, object]) -> None:
    bundle = base64.b64encode(authority.cert_pem).decode()
    hook = {
        "name": "deny.example.com",
        "clientConfig": {**client, "caBundle": bundle},
        "rules": [RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
    }
    await cluster.create(VALIDATING_WEBHOOK, "deny", webhooks=[hook])


@pytest.mark.parametrize("runtime", ["netns", "userns"])
async def test_a_webhook_in_a_pod_is_called_by_its_service(tmp_path: Path, runtime: str) -> None:
    authority = create_authority("hooks", now=time.time())
    credential = issue(authority, "hooks", now=time.time(), hosts=["hooks.default.svc"], server=True)
    async with pod_cluster(tmp_path, runtime) as cluster:
        data = {"tls.crt": credential.cert_pem.decode(), "tls.key": credential.key_pem.decode()}
        await cluster.create(SECRET, "tls", stringData=data)
        # The Service's port differs from the pod's, which is found by its name.
        port = {"name": "https", "port": 443, "targetPort": "webhook"}
        await cluster.service("hooks", {"app": "hooks"}, port)
        await cluster.pod(
            "hooks",
            "python3",
            "-c",
            WEBHOOK,
            labels={"app": "hooks"},
            ready={"tcpSocket": {"port": 8443}, "periodSeconds": 1},
            ports=[{"name": "webhook", "containerPort": 8443}],
            volumes=[{"name": "tls", "secret": {"secretName": "tls"}}],
            mounts=[{"name": "tls", "mountPath": "/etc/tls"}],
        )
        service = {"name": "hooks", "namespace": "default"}
        await register(cluster, authority, {"service": service})
        for _ in range(100):
            with pytest.raises(ApiError) as raised:
                await cluster.create(CONFIG_MAP, "denied")
            if "no endpoints available" not in raised.value.message:
                break
            await asyncio.sleep(0.05)
        expected = 'admission webhook "deny.example.com" denied the request: denied in a pod'
        assert raised.value.message == expected


async def test_a_webhook_outside_this_machine_is_not_called_unless_allowed(tmp_path: Path) -> None:
    authority = create_authority("hooks", now=time.time())
    async with pod_cluster(tmp_path, "plain") as cluster:
        await register(cluster, authority, {"url": "https://192.0.2.7:8443/"})
        with pytest.raises(ApiError) as raised:
            await cluster.create(CONFIG_MAP, "rejected")
        assert "connecting to 192.0.2.7:8443 is not allowed" in raised.value.message
        assert "--allow-egress 192.0.2.7" in raised.value.message
