"""Our client and a real API server: every way to show who we are, through a proxy, and history that is gone."""

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
from volcano.clients.connect import connect
from volcano.clients.http import HttpClient, RetryPolicy
from volcano.clients.kubeconfig import ClientConfig, Overrides, in_cluster_config, load_client_config
from volcano.clock import SystemClock
from volcano.kube.client import EventType, Query
from volcano.kube.controller import Watch
from volcano.kube.errors import Forbidden, Gone, Unauthorized
from volcano.kube.kinds import CONFIG_MAP, NAMESPACE, ROLE_BINDING, SERVICE_ACCOUNT, Kind
from volcano.kube.manifest import Manifest
from volcano.kube.reflector import Reflector, each_event

pytestmark = pytest.mark.k8s

REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@asynccontextmanager
async def client_of(settings: ClientConfig) -> AsyncIterator[HttpClient]:
    made = connect(settings, SystemClock(), environment={}, retries=RetryPolicy(attempts=2))
    try:
        yield made
    finally:
        await made.close()


@asynccontextmanager
async def admin(cluster: RealCluster) -> AsyncIterator[HttpClient]:
    async with client_of(load_client_config({}, kubeconfig=str(cluster.kubeconfig))) as made:
        yield made


async def who_am_i(client: HttpClient) -> str:
    ask = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
    reply = await client.raw("POST", REVIEW, ask, "application/json")
    return str(yaml.safe_load(reply.body)["status"]["userInfo"]["username"])


def kubeconfig(cluster: RealCluster, path: Path, user: Manifest, **about: Any) -> Path:
    """A kubeconfig that trusts the server's certificate, with one context for `user` and one for nobody."""
    authority = base64.b64encode(cluster.ca_file.read_bytes()).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "c",
                "cluster": {"server": cluster.url, "certificate-authority-data": authority, **about},
            }
        ],
        "users": [{"name": "u", "user": user}],
        "contexts": [
            {"name": "somebody", "context": {"cluster": "c", "user": "u"}},
            {"name": "nobody", "context": {"cluster": "c"}},
        ],
        "current-context": "somebody",
    }
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.parametrize("inline", [True, False], ids=["in the file", "in files of their own"])
async def test_a_client_certificate_says_who_we_are(
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
        assert await who_am_i(client) == "jane"


async def test_a_context_chooses_who_we_are(real_apiserver: RealCluster, tmp_path: Path) -> None:
    path = kubeconfig(real_apiserver, tmp_path / "config", {"token": real_apiserver.token})
    async with client_of(load_client_config({}, kubeconfig=str(path))) as client:
        assert await who_am_i(client) == "admin"
    settings = load_client_config({}, kubeconfig=str(path), overrides=Overrides(context="nobody"))
    async with client_of(settings) as client:
        with pytest.raises(Forbidden, match="system:anonymous"):
            await client.list(NAMESPACE)


async def test_a_plugin_is_asked_again_when_its_token_is_refused(
    real_apiserver: RealCluster, tmp_path: Path
) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(  # the first token it gives is no good
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
        assert await who_am_i(client) == "admin"


async def test_a_pods_token_is_read_again_when_it_was_replaced(
    real_apiserver: RealCluster, tmp_path: Path
) -> None:
    room, host, port = "rotation", *real_apiserver.url.removeprefix("https://").split(":")
    async with admin(real_apiserver) as boss:
        await boss.create(NAMESPACE, {"metadata": {"name": room}})
        await boss.create(SERVICE_ACCOUNT, {"metadata": {"namespace": room, "name": "robot"}})
        binding = {
            "metadata": {"namespace": room, "name": "robot"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "cluster-admin",
            },
            "subjects": [{"kind": "ServiceAccount", "namespace": room, "name": "robot"}],
        }
        await boss.create(ROLE_BINDING, binding)
        (tmp_path / "ca.crt").write_bytes(real_apiserver.ca_file.read_bytes())
        (tmp_path / "namespace").write_text(room)
        (tmp_path / "token").write_text("one-that-ran-out")
        pod = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        async with client_of(in_cluster_config(pod, tmp_path)) as client:
            with pytest.raises(Unauthorized):
                await client.list(CONFIG_MAP, Query(namespace=room))
            (tmp_path / "token").write_text(await _token(boss, room))
            assert await who_am_i(client) == f"system:serviceaccount:{room}:robot"
            async with asyncio.timeout(10):
                while not await _may_list(client, room):  # the server learns of the binding in its own time
                    await asyncio.sleep(0.05)


async def _may_list(client: HttpClient, room: str) -> bool:
    try:
        await client.list(CONFIG_MAP, Query(namespace=room))
    except Forbidden:
        return False
    return True


async def _token(client: HttpClient, room: str) -> str:
    ask = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 600},
        "metadata": {"namespace": room, "name": "robot"},
    }
    answer = await client.create(SERVICE_ACCOUNT, ask, subresource="token")
    return str(answer["status"]["token"])


async def test_the_server_is_reached_through_a_proxy(real_apiserver: RealCluster, tmp_path: Path) -> None:
    requested: list[str] = []

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[0]
        requested.append(line)
        host, port = line.split()[1].rsplit(":", 1)
        server_reader, server_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(_pump(reader, server_writer), _pump(server_reader, writer))

    server = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    user, about = {"token": real_apiserver.token}, {"proxy-url": f"http://127.0.0.1:{port}"}
    path = kubeconfig(real_apiserver, tmp_path / "config", user, **about)
    async with client_of(load_client_config({}, kubeconfig=str(path))) as client:
        assert await who_am_i(client) == "admin"
    assert requested == [f"CONNECT {real_apiserver.url.removeprefix('https://')} HTTP/1.1"]
    server.close()
    await server.wait_closed()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def test_history_that_a_real_server_has_forgotten_is_listed_again(
    fresh_apiserver: RealCluster,
) -> None:
    fresh_apiserver.kill("kube-apiserver")
    fresh_apiserver.restart("kube-apiserver")  # it remembers nothing that was before
    async with admin(fresh_apiserver) as client:
        with pytest.raises(Gone, match="too old"):
            async for _ in client.watch(NAMESPACE, Query(resource_version="1")):
                pass
        forgetful = Forgetful(client)
        told: list[str] = []
        mirror = Reflector(
            forgetful,  # type: ignore[arg-type]
            Watch(NAMESPACE),
            each_event(lambda event: told.append(f"{event.type} {event.object['metadata']['name']}")),
            SystemClock(),
        )
        following = asyncio.create_task(mirror.run())
        async with asyncio.timeout(20):
            await mirror.synced.wait()
            while forgetful.lists < 2:
                await asyncio.sleep(0.02)
            await client.create(NAMESPACE, {"metadata": {"name": "after-the-gap"}})
            while f"{EventType.ADDED} after-the-gap" not in told:
                await asyncio.sleep(0.02)
        assert told.count(f"{EventType.ADDED} default") == 1  # what had not changed was not told again
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


class Forgetful:
    """A client whose first watch begins where the server's memory does not reach."""

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
