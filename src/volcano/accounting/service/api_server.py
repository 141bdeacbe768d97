"""The aggregated API server of accounting: serves the API group on a port of its own, and registers it.

kube-apiserver authenticates and authorizes requests for the group, and passes them on with its front-proxy certificate
(an APIService). This server accepts no other client.
"""

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import orjson

from volcano.accounting import api
from volcano.accounting.service.api_group import JSON, ApiGroup
from volcano.base.clock import Clock
from volcano.base.http.messages import Answer, Request, Response
from volcano.base.http.server import Server
from volcano.base.http.tls import load_credential, server_context
from volcano.base.log import Log
from volcano.component import process
from volcano.component.certificates import Certificates, service_hosts, shared_certificates
from volcano.kube.api.errors import ApiError, Forbidden
from volcano.kube.api.kinds import API_SERVICE, CONFIG_MAP
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Client, Options, PatchType

log = Log("accounting")

AUTHENTICATION: Final = Key("kube-system", "extension-apiserver-authentication")
SERVICE: Final = re.compile(r"([a-z0-9.-]+)/([a-z0-9.-]+)(?::([0-9]{1,5}))?")
CHECK_SECONDS: Final = 60.0
RETRY_SECONDS: Final = 5.0
OWNER: Final = Options(patch_type=PatchType.APPLY, field_manager="vc-controller-manager", force=True)


@dataclass(frozen=True, slots=True)
class ServiceReference:
    """The Service through which the API server reaches this one."""

    key: Key
    port: int = 443


def parse_service(text: str) -> ServiceReference | None:
    """Parses `namespace/name` or `namespace/name:port`; None for an empty text. Raises ValueError."""
    if not text:
        return None
    found = SERVICE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text}: write NAMESPACE/NAME, such as volcano-system/volcano-accounting")
    return ServiceReference(Key(found[1], found[2]), int(found[3] or 443))


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """The client that the API server is to this one: the CA of its certificate, and its names (empty: any)."""

    authority: bytes
    names: Collection[str] = ()


class FrontProxyHandler:
    """Handles requests of the front proxy."""

    def __init__(self, group: ApiGroup, names: Callable[[], Collection[str]]) -> None:
        self._group = group
        self._names = names

    async def __call__(self, request: Request) -> Answer:
        if request.path in ("/healthz", "/readyz", "/livez"):
            return Response(200, {"Content-Type": "text/plain; charset=utf-8"}, b"ok")
        try:
            self._check_client(request)
            found = discovery(request.path)
            return await self._group.handle(request) if found is None else _json(200, found)
        except ApiError as error:
            return _json(error.code, error.status())

    def _check_client(self, request: Request) -> None:
        name, allowed = request.peer.common_name, self._names()
        if not name or (allowed and name not in allowed):
            raise Forbidden("only the API server may connect; send the request to it")


def _json(code: int, manifest: Manifest) -> Response:
    return Response(code, dict(JSON), orjson.dumps(manifest))


def discovery(path: str) -> Manifest | None:
    """The answer to a discovery request; None for another path."""
    version = {"groupVersion": api.API_VERSION, "version": api.VERSION}
    group = {"name": api.GROUP, "versions": [version], "preferredVersion": version}
    match path.strip("/").split("/"):
        case ["apis"]:
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]}
        case ["apis", api.GROUP]:
            return {"kind": "APIGroup", "apiVersion": "v1", **group}
        case ["apis", api.GROUP, api.VERSION]:
            resources = [
                {
                    "name": kind.plural,
                    "singularName": kind.singular,
                    "namespaced": kind.namespaced,
                    "kind": kind.kind,
                    "verbs": list(kind.verbs),
                }
                for kind in api.KINDS
            ]
            return {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": api.API_VERSION,
                "resources": resources,
            }
    return None


@asynccontextmanager
async def serving(
    address: str, service: ServiceReference, client: Client, clock: Clock, group: ApiGroup
) -> AsyncIterator[None]:
    """Serves the group while the block lasts, also while another replica records."""

    async def serve() -> None:
        while True:
            try:
                await _serve(address, service, client, clock, group)
            except (process.AddressError, OSError, ValueError) as error:
                log.warning("accounting API not served, retrying", reason=error)
                await clock.sleep(RETRY_SECONDS)

    task = asyncio.create_task(serve(), name="accounting API")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _serve(
    address: str, service: ServiceReference, client: Client, clock: Clock, group: ApiGroup
) -> None:
    """Serves the group until cancelled, and keeps its certificates and its registration up to date."""
    proxy = await _front_proxy(client, clock)
    credentials = await _certificates(client, clock, service)
    context = server_context(credentials.server, client_authority=proxy.authority)
    names = [proxy.names]
    server = Server(FrontProxyHandler(group, lambda: names[0]), tls=context)
    host, port = process.split_address(address)
    async with AsyncExitStack() as stack:
        log.info("accounting API listening", port=await process.listen(server, host, port))
        stack.push_async_callback(server.stop, 1.0)
        while True:
            registered = await _register(client, api_service(service, credentials.authority))
            await clock.sleep(CHECK_SECONDS if registered else RETRY_SECONDS)
            credentials = await _certificates(client, clock, service)
            load_credential(context, credentials.server)
            latest = await _front_proxy(client, clock)
            if latest.authority != proxy.authority:
                context.load_verify_locations(cadata=latest.authority.decode())
            proxy, names[0] = latest, latest.names


async def _certificates(client: Client, clock: Clock, service: ServiceReference) -> Certificates:
    secret = service.key._replace(name=f"{service.key.name}-secret")
    return await shared_certificates(client, secret, service_hosts(service.key), clock)


async def _front_proxy(client: Client, clock: Clock) -> FrontProxy:
    """Reads what the API server publishes about its front proxy; waits until it does."""
    while True:
        try:
            data = (await client.get(CONFIG_MAP, AUTHENTICATION)).get("data") or {}
            authority = data.get("requestheader-client-ca-file", "")
            if authority:
                return FrontProxy(
                    authority.encode(), json.loads(data.get("requestheader-allowed-names") or "[]")
                )
            reason = "the API server has no --requestheader-client-ca-file"
        except ApiError as error:
            reason = error.message
        except ValueError as error:
            reason = f"requestheader-allowed-names cannot be read: {error}"
        log.warning("accounting API not served, retrying", reason=reason)
        await clock.sleep(CHECK_SECONDS)


async def _register(client: Client, manifest: Manifest) -> bool:
    """Registers the group with the API server. Returns whether it was written; a failed write is retried."""
    try:
        await client.patch(API_SERVICE, Key("", manifest["metadata"]["name"]), manifest, options=OWNER)
    except ApiError as error:
        log.warning("registration of the accounting API failed", reason=error.message)
        return False
    return True


def api_service(service: ServiceReference, authority: bytes) -> Manifest:
    return {
        "apiVersion": API_SERVICE.api_version,
        "kind": API_SERVICE.kind,
        "metadata": {"name": f"{api.VERSION}.{api.GROUP}", "labels": {"app": "volcano-accounting"}},
        "spec": {
            "group": api.GROUP,
            "version": api.VERSION,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"namespace": service.key.namespace, "name": service.key.name, "port": service.port},
            "caBundle": base64.b64encode(authority).decode(),
        },
    }
