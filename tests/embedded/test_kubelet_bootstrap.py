"""A new node joins: bootstrap token, certificate signing request, client certificate, own Node."""

import asyncio
import base64
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives import serialization

from tests.base.http.requests import KEY, certificate_request
from tests.embedded.test_cluster import cluster, until
from tests.kubectl.conftest import find_kubectl
from volcano.base.clock import SystemClock
from volcano.base.http.tls import Credential
from volcano.embedded.cluster import LocalCluster
from volcano.kube.api.errors import Forbidden
from volcano.kube.api.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from volcano.kube.api.kinds import NODE, SECRET
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.connect import connect
from volcano.kube.client.kubeconfig import load_client_config
from volcano.kube.client.protocol import Client

TOKEN = {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"}


def kubeconfig(running: LocalCluster, path: Path, user: dict[str, Any]) -> Path:
    """The kubeconfig of another user of the cluster."""
    config = yaml.safe_load(running.kubeconfig.read_text())
    config["users"] = [{"name": entry["name"], "user": user} for entry in config["users"]]
    path.write_text(yaml.safe_dump(config))
    return path


@asynccontextmanager
async def client_of(path: Path) -> AsyncIterator[Client]:
    client = connect(load_client_config({}, kubeconfig=str(path)), SystemClock())
    try:
        yield client
    finally:
        await client.close()


def private_key() -> bytes:
    return KEY.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def request(name: str, signer: str, usages: list[str], pem: str) -> Manifest:
    spec = {"signerName": signer, "usages": usages, "request": pem}
    return {"apiVersion": CSR.api_version, "kind": CSR.kind, "metadata": {"name": name}, "spec": spec}


async def test_a_new_node_gets_its_certificate_and_registers(tmp_path: Path) -> None:
    async with cluster(tmp_path / "data") as running:
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": TOKEN,
        }
        await running.client.create(SECRET, secret)
        file = kubeconfig(running, tmp_path / "bootstrap", {"token": "abcdef.0123456789abcdef"})
        pem = certificate_request("system:node:edge", ["system:nodes"])
        signer, usages = "kubernetes.io/kube-apiserver-client-kubelet", ["digital signature", "client auth"]
        async with client_of(file) as bootstrap:
            await bootstrap.create(CSR, request("edge", signer, usages, pem))

            async def certificate() -> str:
                found = await bootstrap.get(CSR, Key("", "edge"))
                return str((found.get("status") or {}).get("certificate") or "")

            issued = await until(certificate)
        credential = Credential(base64.b64decode(issued), private_key())
        data = {
            "client-certificate-data": base64.b64encode(credential.cert_pem).decode(),
            "client-key-data": base64.b64encode(credential.key_pem).decode(),
        }
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "edge"}}
        async with client_of(kubeconfig(running, tmp_path / "kubelet", data)) as kubelet:
            created = await kubelet.create(NODE, node)
            assert created["metadata"]["name"] == "edge"
            other = {**node, "metadata": {"name": "other"}}
            with pytest.raises(Forbidden, match='node "edge" is not allowed to modify node "other"'):
                await kubelet.create(NODE, other)
            with pytest.raises(Forbidden):
                await kubelet.list(SECRET)


@pytest.mark.skipif(not find_kubectl(), reason="no kubectl: set $KUBECTL or put it on the PATH")
async def test_an_administrator_decides_on_requests_with_kubectl(tmp_path: Path) -> None:
    async with cluster(tmp_path / "data") as running:
        signer = "kubernetes.io/kube-apiserver-client"
        for name in ("jane", "joe"):
            pem = certificate_request(name, ["dev"])
            await running.client.create(CSR, request(name, signer, ["client auth"], pem))

        def kubectl(*arguments: str) -> str:
            command = [find_kubectl(), "--kubeconfig", str(running.kubeconfig), *arguments]
            return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

        approved = await asyncio.to_thread(kubectl, "certificate", "approve", "jane")
        denied = await asyncio.to_thread(kubectl, "certificate", "deny", "joe")
        assert ("approved" in approved, "denied" in denied) == (True, True)

        async def is_issued() -> bool:
            return "Approved,Issued" in await asyncio.to_thread(kubectl, "get", "csr")

        await until(is_issued)
        listed = await asyncio.to_thread(kubectl, "get", "csr", "--no-headers")
        rows = {line.split()[0]: line.split() for line in listed.splitlines()}
        assert rows["jane"][2:] == [signer, "system:volcano", "<none>", "Approved,Issued"]
        assert rows["joe"][-1] == "Denied"
