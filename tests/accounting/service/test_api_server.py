"""The aggregated API server of accounting: it answers the front proxy, and nothing else."""

import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from tests.cluster import SmallCluster
from tests.cmd.loopback import ask, free_port
from volcano.accounting.api import KINDS
from volcano.accounting.service.api_group import ApiGroup
from volcano.accounting.service.api_server import ServiceReference, parse_service, serving
from volcano.accounting.service.service import AccountingOptions, AccountingService
from volcano.base.clock import SystemClock, VirtualClock
from volcano.base.http.tls import create_authority, issue
from volcano.base.http.tls_context import client_context
from volcano.kube.api.kinds import CONFIG_MAP, NAMESPACE, SECRET
from volcano.kube.api.manifest import Key, Manifest

ROOT = "/apis/accounting.volcano.sh/v1alpha1"
SERVICE = ServiceReference(Key("volcano-system", "volcano-accounting"))
PROXY, OTHER, NO_CERTIFICATE = "front-proxy", "other", ""
HOST = "volcano-accounting.volcano-system.svc"


@dataclass(frozen=True, slots=True)
class Served:
    """A server, and the front proxies that may and may not use it."""

    port: int
    contexts: dict[str, ssl.SSLContext]

    async def get(self, path: str, client: str = PROXY, body: bytes | None = None) -> tuple[int, Manifest]:
        status, answer = await ask(self.port, path, body, tls=self.contexts[client], host=HOST)
        return status, orjson.loads(answer)


@asynccontextmanager
async def served(directory: Path) -> AsyncIterator[Served]:
    now = SystemClock().now().wall  # certificates are verified with the machine's clock
    proxies = create_authority("front-proxy-ca", now=now)
    async with SmallCluster() as cluster:
        await cluster.create(NAMESPACE, "volcano-system")
        data = {
            "requestheader-client-ca-file": proxies.cert_pem.decode(),
            "requestheader-allowed-names": '["front-proxy"]',
        }
        await cluster.create(
            CONFIG_MAP, "extension-apiserver-authentication", namespace="kube-system", data=data
        )
        port, clock = free_port(), VirtualClock(now)
        service = AccountingService(AccountingOptions(f"sqlite:///{directory / 'runs.db'}"), clock)
        try:
            async with serving(f"127.0.0.1:{port}", SERVICE, cluster.client, clock, ApiGroup(service)):
                await cluster.rest()
                data = (await cluster.get(SECRET, "volcano-accounting-secret", "volcano-system"))["data"]
                authority = base64.b64decode(data["ca.crt"])
                contexts = {
                    name: client_context(authority, issue(proxies, name, now=now, client=True))
                    for name in (PROXY, OTHER)
                }
                yield Served(port, {**contexts, NO_CERTIFICATE: client_context(authority)})
        finally:
            await service.close()


async def test_it_lists_what_was_recorded_for_the_front_proxy(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        for path in (f"{ROOT}/runs", f"{ROOT}/namespaces/default/runs"):
            status, answer = await server.get(path)
            assert (status, answer["kind"], answer["items"]) == (200, "RunList", [])


async def test_discovery_names_the_group_and_its_resources(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        _, groups = await server.get("/apis")
        assert [group["preferredVersion"]["groupVersion"] for group in groups["groups"]] == [ROOT[6:]]
        _, resources = await server.get(ROOT)
        assert [each["name"] for each in resources["resources"]] == [kind.plural for kind in KINDS]


@pytest.mark.parametrize(
    ("path", "client", "body", "code"),
    [
        pytest.param(f"{ROOT}/runs", OTHER, None, 403, id="a name that is not allowed"),
        pytest.param(f"{ROOT}/runs", NO_CERTIFICATE, None, 403, id="no client certificate"),
        pytest.param(f"{ROOT}/runs", PROXY, b"{}", 405, id="create"),
        pytest.param(f"{ROOT}/runs/one", PROXY, None, 405, id="get"),
        pytest.param(f"{ROOT}/runs?watch=true", PROXY, None, 405, id="watch"),
        pytest.param(f"{ROOT}/unknown", PROXY, None, 404, id="an unknown resource"),
        pytest.param("/api/v1/pods", PROXY, None, 404, id="another group"),
    ],
)
async def test_other_requests_are_rejected(
    tmp_path: Path, path: str, client: str, body: bytes | None, code: int
) -> None:
    async with served(tmp_path) as server:
        status, answer = await server.get(path, client, body)
        assert (status, answer["kind"], answer["code"]) == (code, "Status", code)


def test_a_service_has_the_port_of_https_unless_another_is_named() -> None:
    key = Key("volcano-system", "volcano-accounting")
    assert parse_service("volcano-system/volcano-accounting") == ServiceReference(key, 443)
    assert parse_service("volcano-system/volcano-accounting:8443") == ServiceReference(key, 8443)
    with pytest.raises(ValueError, match="write NAMESPACE/NAME"):
        parse_service("volcano-accounting")
