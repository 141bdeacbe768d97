"""`vc-webhook-manager`: our admission as webhooks of an API server, certificates and registration included."""

import argparse
import asyncio
import base64
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import yaml

from volcano.admission.registration import configurations
from volcano.admission.review import Settings
from volcano.admission.rules import BY_PATH
from volcano.admission.webhook import BODY_LIMIT, Webhook
from volcano.clock import Clock, Instant, SystemClock
from volcano.entry import process
from volcano.kube.client import Client, Event, Options, PatchType
from volcano.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from volcano.kube.index import Index
from volcano.kube.kinds import NAMESPACE, POD_GROUP, QUEUE, SECRET, Kind
from volcano.kube.manifest import Key, Manifest, key_of
from volcano.kube.mirror import Mirror
from volcano.kube.reconciler import Watch
from volcano.local.parts import check_template
from volcano.log import Log
from volcano.metrics import CollectorRegistry
from volcano.net.server import Server
from volcano.net.tls import (
    Authority,
    Credential,
    covers,
    create_authority,
    issue,
    load_credential,
    needs_renewal,
    server_context,
)

log = Log("webhooks")

NAME = "vc-webhook-manager"
SECRET_NAME = "volcano-admission-secret"
LOOKED_AT: tuple[Kind, ...] = (QUEUE, NAMESPACE, POD_GROUP)
RENEWAL_CHECK = 3600.0  # seconds between looks at certificates and registration
RETRY = 2.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    parsed = parser.parse_args(arguments)
    parsed.enabled = [path.strip() for path in parsed.enabled_admission.split(",") if path.strip()]
    unknown = [path for path in parsed.enabled if path not in BY_PATH]
    if unknown:
        parser.error(f"--enabled-admission: unknown service {unknown[0]!r}; choose from {', '.join(BY_PATH)}")
    if not (parsed.webhook_url or (parsed.webhook_namespace and parsed.webhook_service_name)):
        parser.error(
            "name --webhook-url, or --webhook-namespace and --webhook-service-name: where we are reached"
        )
    return process.run_until_told(_run(parsed), name=NAME, verbosity=parsed.v)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=NAME, description=__doc__)
    process.add_client_flags(parser, qps=50, burst=100)
    parser.add_argument("--listen-address", default="", help="listen here (default: everywhere)")
    parser.add_argument("--port", type=int, default=8443)
    for name in ("--tls-cert-file", "--tls-private-key-file", "--ca-cert-file"):
        parser.add_argument(
            name, type=Path, default=None, help="certificates of yours; without them we make our own"
        )
    parser.add_argument("--webhook-namespace", default="", help="the namespace of the Service in front of us")
    parser.add_argument("--webhook-service-name", default="", help="the Service in front of us")
    parser.add_argument(
        "--webhook-url", default="", help="where the API server reaches us, instead of a Service"
    )
    parser.add_argument(
        "--enabled-admission", default=",".join(BY_PATH), help="which services (default: all)"
    )
    parser.add_argument(
        "--scheduler-name", action="append", default=[], help="schedulers whose pods are ours"
    )
    parser.add_argument("--admission-conf", type=Path, default=None, help="resource groups")
    process.add_switch(parser, "--enable-healthz", default=False, help="serve /healthz")
    parser.add_argument("--healthz-address", default=":11251")
    parser.add_argument("--graceful-shutdown-time", type=process.duration, default=30.0)
    process.add_switch(
        parser, "--enable-queue-allocated-pods-check", default=False, help="keep queues in use"
    )
    parser.add_argument("--max-queue-depth", type=int, default=5)
    process.add_switch(
        parser, "--enable-root-queue-protection", default=True, help="keep the root queue's shares"
    )
    parser.add_argument("--feature-gates", default="", help="SchedulingGatesQueueAdmission=true gates pods")
    parser.set_defaults(enable_metrics=False)
    return parser


@dataclass(frozen=True, slots=True)
class IndexLookup:
    """What rules look at, from what the mirrors have seen."""

    index: Index

    def find(self, kind: Kind, key: Key) -> Manifest | None:
        return self.index.get(kind, key)

    def all(self, kind: Kind, namespace: str = "") -> list[Manifest]:
        return [m for m in self.index.all(kind) if not namespace or key_of(m).namespace == namespace]


async def _run(arguments: argparse.Namespace) -> None:
    clock, index = SystemClock(), Index()
    webhook = Webhook(IndexLookup(index), _settings(arguments), arguments.enabled)
    async with AsyncExitStack() as stack:
        client = process.client_of(arguments, clock, user_agent=NAME)
        stack.push_async_callback(client.close)
        mirrors = [Mirror(client, Watch(kind), _sink(index), clock) for kind in LOOKED_AT]
        health = process.Health(
            ready={"caches": lambda: "" if all(m.synced.is_set() for m in mirrors) else "not listed yet"}
        )
        await process.serve(arguments, stack, health, CollectorRegistry())
        async with asyncio.TaskGroup() as group:
            for mirror in mirrors:
                group.create_task(mirror.run())
            for mirror in mirrors:
                await mirror.synced.wait()
            credentials = await _certificates(arguments, client, clock)
            context = server_context(credentials.server)
            server = Server(webhook, tls=context, max_body=BODY_LIMIT)
            port = await server.start(arguments.listen_address or "0.0.0.0", arguments.port)
            stack.push_async_callback(server.stop, arguments.graceful_shutdown_time)
            log.info("listening", port=port)
            await _register(arguments, client, credentials.authority)
            while True:
                await clock.sleep(RENEWAL_CHECK)
                credentials = await _certificates(arguments, client, clock)
                load_credential(context, credentials.server)
                await _register(arguments, client, credentials.authority)


def _sink(index: Index) -> Callable[[Event], None]:
    def see(event: Event) -> None:
        index.apply(event)

    return see


def _settings(arguments: argparse.Namespace) -> Settings:
    groups: tuple[Manifest, ...] = ()
    if arguments.admission_conf:
        try:
            loaded = yaml.safe_load(arguments.admission_conf.read_text()) or {}
            groups = tuple(loaded.get("resourceGroups") or ())
        except (OSError, yaml.YAMLError, AttributeError) as error:
            raise SystemExit(f"{NAME}: --admission-conf {arguments.admission_conf}: {error}") from None
    return Settings(
        scheduler_names=tuple(arguments.scheduler_name) or ("volcano",),
        max_queue_depth=arguments.max_queue_depth,
        protect_root_queue=arguments.enable_root_queue_protection,
        check_allocated_pods=arguments.enable_queue_allocated_pods_check,
        check_template=check_template,
        resource_groups=groups,
        gate_queue_admission="SchedulingGatesQueueAdmission=true" in arguments.feature_gates,
    )


@dataclass(frozen=True, slots=True)
class Certificates:
    """The authority the API server is told to trust, and what we show."""

    authority: bytes
    server: Credential


async def _certificates(arguments: argparse.Namespace, client: Client, clock: Clock) -> Certificates:
    """The user's certificates, or our own, kept in a Secret that all replicas share and renewed before they expire."""
    files = (arguments.ca_cert_file, arguments.tls_cert_file, arguments.tls_private_key_file)
    if all(files):
        authority, certificate, key = (path.read_bytes() for path in files)
        return Certificates(authority, Credential(certificate, key))
    hosts = _hosts(arguments)
    while True:
        try:
            return await _shared(
                client, Key(arguments.webhook_namespace or "volcano-system", SECRET_NAME), hosts, clock.now()
            )
        except (AlreadyExists, Conflict):
            continue  # another replica was faster: take its
        except ApiError as error:
            log.warning("certificates cannot be kept yet", reason=error.message)
            await clock.sleep(RETRY)


async def _shared(client: Client, key: Key, hosts: Sequence[str], now: Instant) -> Certificates:
    try:
        secret: Manifest | None = await client.get(SECRET, key)
    except NotFound:
        secret = None
    data = {name: base64.b64decode(text) for name, text in ((secret or {}).get("data") or {}).items()}
    if _good(data, hosts, now):
        return Certificates(data["ca.crt"], Credential(data["tls.crt"], data["tls.key"]))
    authority = (
        Authority(data["ca.crt"], data["ca.key"])
        if data.get("ca.key") and data.get("ca.crt") and not needs_renewal(data["ca.crt"], now.wall)
        else create_authority("volcano-admission", now=now.wall)
    )
    server = issue(authority, hosts[0], hosts=hosts, now=now.wall, server=True)
    content = {
        "ca.crt": authority.cert_pem,
        "ca.key": authority.key_pem,
        "tls.crt": server.cert_pem,
        "tls.key": server.key_pem,
    }
    metadata: Manifest = {"name": key.name, "namespace": key.namespace}
    if secret is not None:
        metadata["resourceVersion"] = secret["metadata"]["resourceVersion"]
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": (secret or {}).get("type", "Opaque"),
        "data": {name: base64.b64encode(value).decode() for name, value in content.items()},
    }
    await (client.create(SECRET, manifest) if secret is None else client.update(SECRET, manifest))
    return Certificates(authority.cert_pem, server)


def _good(data: dict[str, bytes], hosts: Sequence[str], now: Instant) -> bool:
    if not all(data.get(name) for name in ("ca.crt", "tls.crt", "tls.key")):
        return False
    try:
        return covers(data["tls.crt"], hosts) and not needs_renewal(data["tls.crt"], now.wall)
    except ValueError:
        return False


def _hosts(arguments: argparse.Namespace) -> list[str]:
    if arguments.webhook_url:
        authority = arguments.webhook_url.split("://")[-1].split("/")[0]
        return [authority.rpartition(":")[0].strip("[]") or authority]
    name, namespace = arguments.webhook_service_name, arguments.webhook_namespace
    return [f"{name}.{namespace}.svc", f"{name}.{namespace}", name, f"{name}.{namespace}.svc.cluster.local"]


async def _register(arguments: argparse.Namespace, client: Client, authority: bytes) -> None:
    """Writes the webhook configurations; a refusal is tried again at the next look."""
    service = Key(arguments.webhook_namespace, arguments.webhook_service_name)
    wanted = configurations(
        authority=authority,
        enabled=arguments.enabled,
        scheduler_names=tuple(arguments.scheduler_name) or ("volcano",),
        service=None if arguments.webhook_url else service,
        url=arguments.webhook_url,
    )
    options = Options(patch_type=PatchType.APPLY, field_manager=NAME, force=True)
    for kind, manifest in wanted:
        try:
            await client.patch(kind, key_of(manifest), manifest, options=options)
        except ApiError as error:
            log.warning("registration refused", configuration=key_of(manifest), reason=error.message)


if __name__ == "__main__":
    sys.exit(main())
