"""Accounting of `vc-controller-manager`: its flags, and the API group that the API server passes on to it.

kube-apiserver authenticates and authorizes requests for the group, and passes them on with its front-proxy certificate
(an APIService). This server accepts no other client.
"""

import argparse
import asyncio
import base64
import json
import re
import ssl
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import orjson

from volcano.accounting import api
from volcano.accounting.service.service import AccountingOptions, AccountingService
from volcano.base.clock import Clock
from volcano.base.http.messages import Answer, Request, Response
from volcano.base.http.server import Server
from volcano.base.http.tls import load_credential, server_context
from volcano.base.log import Log
from volcano.base.metrics import CollectorRegistry
from volcano.cli.errors import CommandError
from volcano.cli.volcano.settings import retention_of
from volcano.component import process
from volcano.component.certificates import Certificates, shared_certificates
from volcano.kube.api.errors import ApiError, Forbidden, MethodNotAllowed, NotFound
from volcano.kube.api.kinds import API_SERVICE, CONFIG_MAP
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Client, Options, PatchType

log = Log("accounting")

AUTHENTICATION: Final = Key("kube-system", "extension-apiserver-authentication")
SERVICE: Final = re.compile(r"([a-z0-9.-]+)/([a-z0-9.-]+)(?::([0-9]{1,5}))?")
CHECK_SECONDS: Final = 60.0
RETRY_SECONDS: Final = 5.0
JSON: Final = {"Content-Type": "application/json"}
OWNER: Final = Options(patch_type=PatchType.APPLY, field_manager="vc-controller-manager", force=True)


def add_accounting_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--accounting-database",
        default="",
        metavar="URL",
        help="record pod runs in this database: postgresql://user@host/name, with the password in the environment "
        "variable PGPASSWORD, or sqlite:///file (default: no accounting)",
    )
    parser.add_argument(
        "--accounting-retention",
        default="400d",
        metavar="DURATION",
        help="time for which each pod run is kept; after that, sums of months are (default 400d)",
    )
    parser.add_argument(
        "--accounting-address",
        default=":8446",
        metavar="ADDRESS",
        help="address of the API group accounting.volcano.sh (default :8446)",
    )
    parser.add_argument(
        "--accounting-service",
        default="",
        metavar="NAMESPACE/NAME",
        help="Service through which the API server reaches this address, with :PORT unless that is 443: the group is "
        "registered with it",
    )


def accounting_problem(arguments: argparse.Namespace) -> str:
    """Error in the flags; empty if they are valid."""
    try:
        retention_of(arguments.accounting_retention)
    except CommandError as error:
        return str(error)
    service = arguments.accounting_service
    if service and SERVICE.fullmatch(service) is None:
        return (
            f"--accounting-service {service}: write NAMESPACE/NAME, such as volcano-system/volcano-accounting"
        )
    return ""


def _service_of(arguments: argparse.Namespace) -> tuple[Key, int]:
    """The Service of the flags, and its port."""
    found = SERVICE.fullmatch(arguments.accounting_service)
    assert found is not None
    return Key(found[1], found[2]), int(found[3] or 443)


def accounting_of(
    arguments: argparse.Namespace, clock: Clock, registry: CollectorRegistry
) -> AccountingService | None:
    """The service that the flags ask for; None without a database."""
    if not arguments.accounting_database:
        return None
    options = AccountingOptions(
        arguments.accounting_database,
        retention_of(arguments.accounting_retention),
        tuple(arguments.scheduler_name),
    )
    return AccountingService(options, clock, lambda: registry)


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """The client that the API server is to this one: the CA of its certificate, and its names (empty: any)."""

    authority: bytes
    names: Collection[str] = ()


class AccountingHandler:
    """Handles requests of the front proxy."""

    def __init__(self, service: AccountingService, names: Callable[[], Collection[str]]) -> None:
        self._service = service
        self._names = names

    async def __call__(self, request: Request) -> Answer:
        if request.path in ("/healthz", "/readyz", "/livez"):
            return Response(200, {"Content-Type": "text/plain; charset=utf-8"}, b"ok")
        try:
            self._check_client(request)
            found = discovery(request.path) or await self._answer(request)
        except ApiError as error:
            return Response(error.code, dict(JSON), orjson.dumps(error.status()))
        return Response(200, dict(JSON), orjson.dumps(found))

    def _check_client(self, request: Request) -> None:
        name, allowed = request.peer.common_name, self._names()
        if not name or (allowed and name not in allowed):
            raise Forbidden("only the API server may connect; send the request to it")

    async def _answer(self, request: Request) -> Manifest:
        parts = [part for part in request.path.split("/") if part]
        if parts[:3] != ["apis", api.GROUP, api.VERSION]:
            raise NotFound("the server could not find the requested resource")
        if request.method != "GET":
            raise MethodNotAllowed("the server does not allow this method on the requested resource")
        match parts[3:]:
            case ["namespaces", namespace, resource]:
                return await self._service.respond(resource, namespace, request.query)
            case [resource]:
                return await self._service.respond(resource, "", request.query)
        raise NotFound("the server could not find the requested resource")


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
async def serving_accounting(
    arguments: argparse.Namespace, client: Client, clock: Clock, service: AccountingService
) -> AsyncIterator[None]:
    """Serves the group while the block lasts, also while another replica records; not without a Service."""

    async def serve() -> None:
        while arguments.accounting_service:
            try:
                await _serve(arguments, client, clock, service)
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
    arguments: argparse.Namespace, client: Client, clock: Clock, service: AccountingService
) -> None:
    """Serves the group until cancelled, and keeps its certificates and its registration up to date."""
    name, service_port = _service_of(arguments)
    proxy = await _front_proxy(client, clock)
    credentials = await _certificates(client, clock, name)
    context = server_context(credentials.server, client_authority=proxy.authority)
    names = [proxy.names]
    handler = AccountingHandler(service, lambda: names[0])
    server = Server(handler, tls=context)
    host, port = process.split_address(arguments.accounting_address)
    async with AsyncExitStack() as stack:
        log.info("accounting API listening", port=await process.listen(server, host, port))
        stack.push_async_callback(server.stop, 1.0)
        while True:
            registered = await _register(client, api_service(name, service_port, credentials.authority))
            await clock.sleep(CHECK_SECONDS if registered else RETRY_SECONDS)
            credentials = await _certificates(client, clock, name)
            load_credential(context, credentials.server)
            latest = await _front_proxy(client, clock)
            if latest.authority != proxy.authority:
                _trust(context, latest.authority)
            proxy, names[0] = latest, latest.names


async def _certificates(client: Client, clock: Clock, service: Key) -> Certificates:
    hosts = [
        f"{service.name}.{service.namespace}.svc",
        f"{service.name}.{service.namespace}",
        service.name,
        f"{service.name}.{service.namespace}.svc.cluster.local",
    ]
    return await shared_certificates(client, Key(service.namespace, f"{service.name}-secret"), hosts, clock)


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


def api_service(service: Key, port: int, authority: bytes) -> Manifest:
    return {
        "apiVersion": API_SERVICE.api_version,
        "kind": API_SERVICE.kind,
        "metadata": {"name": f"{api.VERSION}.{api.GROUP}", "labels": {"app": "volcano-accounting"}},
        "spec": {
            "group": api.GROUP,
            "version": api.VERSION,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"namespace": service.namespace, "name": service.name, "port": port},
            "caBundle": base64.b64encode(authority).decode(),
        },
    }


def _trust(context: ssl.SSLContext, authority: bytes) -> None:
    context.load_verify_locations(cadata=authority.decode())
