"""Our client and a real API server: every way to authenticate, proxies, and an expired resourceVersion."""

import asyncio
import base64
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.k8s.control_plane.cluster import RealCluster
from volcano.base.clock import SystemClock
from volcano.kube.api.errors import Forbidden, Gone, Unauthorized
from volcano.kube.api.kinds import CONFIG_MAP, NAMESPACE, ROLE_BINDING, SERVICE_ACCOUNT, Kind
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.connect import connect
from volcano.kube.client.http import HttpClient, RetryPolicy
from volcano.kube.client.kubeconfig import ClientConfig, Overrides, in_cluster_config, load_client_config
from volcano.kube.client.protocol import EventType, Query, Watch
from volcano.kube.informers.reflector import Reflector, each_event

pytestmark = pytest.mark.k8s

REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@asynccontextmanager
async def client_of(settings: ClientConfig) -> AsyncIterator[HttpClient]:
    client = connect(settings, SystemClock(), environment={}, retries=RetryPolicy(attempts=2))
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def admin(cluster: RealCluster) -> AsyncIterator[HttpClient]:
    async with client_of(load_client_config({}, kubeconfig=str(cluster.kubeconfig))) as client:
        yield client


async def username(client: HttpClient) -> str:
    review = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
    reply = await client.raw("POST", REVIEW, review, "application/json")
    return str(yaml.safe_load(reply.body)["status"]["userInfo"]["username"])


def kubeconfig(cluster: RealCluster, path: Path, user: Manifest, **options: Any) -> Path:
    """A kubeconfig with the server's CA, a context for `user` and a context without credentials."""
    authority = base64.b64encode(cluster.ca_file.read_bytes()).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "c",
                "cluster": {"server": cluster.url, "certificate-authority-data": authority, **options},
            }
        ],
        "users": [{"name": "u", "user": user}],
        "contexts": [
            {"name": "authenticated", "context": {"cluster": "c", "user": "u"}},
            {"name": "anonymous", "context": {"cluster": "c"}},
        ],
        "current-context": "authenticated",
    }
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.parametrize("inline", [True, False], ids=["inline", "separate files"])
async def test_a_client_certificate_authenticates_the_user(
    real_apiserver: RealCluster, tmp_path: Path, inline: bool
) -> None:
    credential = real_apiserver.client_certificate("jane", "system:masters")
    if inline:
        user = {
            "client-certificate-data": base64.b64encode(credential.cert_pem).decode(),
            "client-key-data": base64.b64encode(credential.key_pem).decode(),
        }
    else:
        (tmp_path / "jane.crt").write_bytes(credential.cert_pem)
        (tmp_path / "jane.key").write_bytes(credential.key_pem)
        user = {"client-certificate": "jane.crt", "client-key": "jane.key"}
    path = kubeconfig(real_apiserver, tmp_path / "config", user)
    async with client_of(load_client_config({"KUBECONFIG": str(path)})) as client:
        assert await username(client) == "jane"


async def test_a_context_selects_the_user(real_apiserver: RealCluster, tmp_path: Path) -> None:
    path = kubeconfig(real_apiserver, tmp_path / "config", {"token": real_apiserver.token})
    async with client_of(load_client_config({}, kubeconfig=str(path))) as client:
        assert await username(client) == "admin"
    settings = load_client_config({}, kubeconfig=str(path), overrides=Overrides(context="anonymous"))
    async with client_of(settings) as client:
        with pytest.raises(Forbidden, match="system:anonymous"):
            await client.list(NAMESPACE)


async def test_a_credential_plugin_runs_again_when_its_token_is_rejected(
    real_apiserver: RealCluster, tmp_path: Path
) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(  # the first token is invalid
        f"""#!/bin/sh
if [ -e {tmp_path}/asked ]; then token={real_apiserver.token}; else touch {tmp_path}/asked; token=stale; fi
printf '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{"token":"%s"}}}}' $token
"""
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    command = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./plugin",
        "interactiveMode": "Never",
    }
    path = kubeconfig(real_apiserver, tmp_path / "config", {"exec": command})
    async with client_of(load_client_config({}, kubeconfig=str(path))) as client:
        assert await username(client) == "admin"


async def test_a_rotated_token_file_is_read_again(real_apiserver: RealCluster, tmp_path: Path) -> None:
    namespace, host, port = "rotation", *real_apiserver.url.removeprefix("https://").split(":")
    async with admin(real_apiserver) as root:
        await root.create(NAMESPACE, {"metadata": {"name": namespace}})
        await root.create(SERVICE_ACCOUNT, {"metadata": {"namespace": namespace, "name": "robot"}})
        binding = {
            "metadata": {"namespace": namespace, "name": "robot"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "cluster-admin",
            },
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": "robot"}],
        }
        await root.create(ROLE_BINDING, binding)
        (tmp_path / "ca.crt").write_bytes(real_apiserver.ca_file.read_bytes())
        (tmp_path / "namespace").write_text(namespace)
        (tmp_path / "token").write_text("one-that-ran-out")
        pod = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        async with client_of(in_cluster_config(pod, tmp_path)) as client:
            with pytest.raises(Unauthorized):
                await client.list(CONFIG_MAP, Query(namespace=namespace))
            (tmp_path / "token").write_text(await _token(root, namespace))
            assert await username(client) == f"system:serviceaccount:{namespace}:robot"
            async with asyncio.timeout(10):
                while not await _may_list(
                    client, namespace
                ):  # the authorizer sees the binding a little later
                    await asyncio.sleep(0.05)


async def _may_list(client: HttpClient, namespace: str) -> bool:
    try:
        await client.list(CONFIG_MAP, Query(namespace=namespace))
    except Forbidden:
        return False
    return True


async def _token(client: HttpClient, namespace: str) -> str:
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 600},
        "metadata": {"namespace": namespace, "name": "robot"},
    }
    created = await client.create(SERVICE_ACCOUNT, request, subresource="token")
    return str(created["status"]["token"])


async def test_requests_go_through_the_configured_proxy(real_apiserver: RealCluster, tmp_path: Path) -> None:
    connects: list[str] = []

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[0]
        connects.append(line)
        host, port = line.split()[1].rsplit(":", 1)
        server_reader, server_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(_copy(reader, server_writer), _copy(server_reader, writer))

    server = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    user, options = {"token": real_apiserver.token}, {"proxy-url": f"http://127.0.0.1:{port}"}
    path = kubeconfig(real_apiserver, tmp_path / "config", user, **options)
    async with client_of(load_client_config({}, kubeconfig=str(path))) as client:
        assert await username(client) == "admin"
    assert connects == [f"CONNECT {real_apiserver.url.removeprefix('https://')} HTTP/1.1"]
    server.close()
    await server.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def test_a_reflector_relists_when_its_resource_version_is_too_old(
    fresh_apiserver: RealCluster,
) -> None:
    fresh_apiserver.kill("kube-apiserver")
    fresh_apiserver.restart("kube-apiserver")  # its watch cache starts empty
    async with admin(fresh_apiserver) as client:
        with pytest.raises(Gone, match="too old"):
            async for _ in client.watch(NAMESPACE, Query(resource_version="1")):
                pass
        stale = StaleWatchClient(client)
        received: list[str] = []
        reflector = Reflector(
            stale,  # type: ignore[arg-type]
            Watch(NAMESPACE),
            each_event(lambda event: received.append(f"{event.type} {event.object['metadata']['name']}")),
            SystemClock(),
        )
        running = asyncio.create_task(reflector.run())
        async with asyncio.timeout(20):
            await reflector.synced.wait()
            while stale.lists < 2:
                await asyncio.sleep(0.02)
            await client.create(NAMESPACE, {"metadata": {"name": "after-the-gap"}})
            while f"{EventType.ADDED} after-the-gap" not in received:
                await asyncio.sleep(0.02)
        assert received.count(f"{EventType.ADDED} default") == 1  # unchanged objects are not dispatched again
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


class StaleWatchClient:
    """A client whose first watch starts at a resourceVersion the server does not have any more."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client
        self.lists = 0

    async def list(self, *arguments: Any, **more: Any) -> Any:
        self.lists += 1
        return await self._client.list(*arguments, **more)

    def watch(self, kind: Kind, query: Query, **more: Any) -> Any:
        if self.lists == 1:
            query = Query(namespace=query.namespace, resource_version="1")
        return self._client.watch(kind, query, **more)
