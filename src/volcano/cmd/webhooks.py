"""`vc-webhook-manager`: admission webhooks, with certificates and registration."""

import argparse
import asyncio
import ssl
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from volcano.base.clock import Clock, SystemClock
from volcano.base.http.server import Server
from volcano.base.http.tls import load_credential, server_context
from volcano.base.log import Log
from volcano.base.metrics import CollectorRegistry
from volcano.base.os_errors import explain_os_error
from volcano.cli.program_parser import ProgramParser, examples
from volcano.cmd.feature_gates import QUEUE_ADMISSION, add_gates_flag
from volcano.cmd.podgroup_fields import slim_group
from volcano.component import process
from volcano.component.certificates import SECRET_NAME, certificates
from volcano.controllers.job.plugins.loading import known_plugins
from volcano.embedded.admission import check_template
from volcano.kube.api.errors import ApiError, NotFound
from volcano.kube.api.kinds import HYPER_NODE, NAMESPACE, POD_GROUP, QUEUE, Kind
from volcano.kube.api.manifest import Key, Manifest, key_of
from volcano.kube.api.names import SYSTEM_NAMESPACE
from volcano.kube.client.protocol import Client, Decode, Event, Options, PatchType, Watch
from volcano.kube.informers.indexer import Indexer
from volcano.kube.informers.reflector import Reflector, each_event
from volcano.webhooks.registration import configurations
from volcano.webhooks.resourcegroups import GroupsFile
from volcano.webhooks.review import AdmissionOptions, NotCached, no_resource_groups
from volcano.webhooks.rules import BY_PATH
from volcano.webhooks.webhook import BODY_LIMIT, Webhook

log = Log("webhooks")

NAME = "vc-webhook-manager"
# Kinds that rules read on every request are watched. PodGroups are needed only when a queue becomes a parent, and
# HyperNodes only when a tier is named: they are listed on demand, because there are thousands.
KEPT = (QUEUE, NAMESPACE)
FETCHED: Mapping[Kind, Decode] = {POD_GROUP: slim_group, HYPER_NODE: orjson.loads}
CHECK_SECONDS = 60.0  # seconds between checks of certificates, registration and resource groups
RECHECK_SECONDS = 5.0  # seconds between checks while the registration is incomplete
WHOLE = Options(patch_type=PatchType.APPLY, field_manager=NAME, force=True)
PART = Options(patch_type=PatchType.STRATEGIC, field_manager=NAME)


def main(arguments: Sequence[str] | None = None) -> int:
    parsed = parse(arguments)
    return process.run_until_signal(_run(parsed), name=NAME, verbosity=parsed.v)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parses and validates the flags. Exits with a message if they are invalid."""
    parser = build_parser()
    parsed = parser.parse_args(arguments)
    parsed.enabled = [path.strip() for path in parsed.enabled_admission.split(",") if path.strip()]
    unknown = [path for path in parsed.enabled if path not in BY_PATH]
    if unknown:
        parser.fail(f"--enabled-admission: unknown service {unknown[0]!r}; choose from {', '.join(BY_PATH)}")
    if not (parsed.webhook_url or (parsed.webhook_namespace and parsed.webhook_service_name)):
        parser.fail(
            "give --webhook-url, or --webhook-namespace and --webhook-service-name: the API server needs the address"
        )
    if not 0 <= parsed.port <= 65535:
        parser.fail(f"--port {parsed.port}: choose 1 to 65535")
    return parsed


def build_parser() -> ProgramParser:
    parser = ProgramParser(
        prog=NAME,
        description="Validate and complete objects of Volcano's kinds for a Kubernetes cluster.",
        epilog=examples(
            "vc-webhook-manager --kubeconfig ~/.kube/config --webhook-url https://this-host:8443",
            "vc-webhook-manager --webhook-namespace volcano-system --webhook-service-name volcano-admission-service",
        ),
    )
    process.add_client_flags(parser, qps=50, burst=100)
    parser.add_argument(
        "--listen-address",
        default="",
        metavar="ADDRESS",
        help="address to listen on (default: all addresses)",
    )
    parser.add_argument("--port", type=int, default=8443, help="port to listen on (default 8443)")
    for name in ("--tls-cert-file", "--tls-private-key-file", "--ca-cert-file"):
        parser.add_argument(
            name, type=Path, default=None, metavar="FILE", help="your own certificates (default: generated)"
        )
    parser.add_argument(
        "--webhook-namespace",
        default="",
        metavar="NAMESPACE",
        help="namespace of the Service of this webhook",
    )
    parser.add_argument(
        "--webhook-service-name", default="", metavar="NAME", help="name of the Service of this webhook"
    )
    parser.add_argument(
        "--webhook-url",
        default="",
        metavar="URL",
        help="address at which the API server reaches this webhook, instead of a Service",
    )
    parser.add_argument(
        "--certificate-secret",
        default=SECRET_NAME,
        metavar="NAME",
        help=f"Secret of the generated certificates (default {SECRET_NAME})",
    )
    process.add_switch(
        parser,
        "--register-webhooks",
        default=True,
        help="write the webhook configurations; false: they exist, and only their caBundle is set",
    )
    parser.add_argument(
        "--enabled-admission",
        default=",".join(BY_PATH),
        metavar="PATHS",
        help="admission services to serve (default: all)",
    )
    parser.add_argument(
        "--scheduler-name",
        action="append",
        default=[],
        metavar="NAME",
        help="names of the schedulers whose pods are validated; repeatable (default volcano)",
    )
    parser.add_argument(
        "--controllers-user",
        action="append",
        default=[],
        metavar="USER",
        help="user name of vc-controller-manager: PodGroups that it creates for jobs are not sent to this webhook",
    )
    parser.add_argument(
        "--admission-conf",
        type=Path,
        default=None,
        metavar="FILE",
        help="resource groups, which assign pods to schedulers and nodes",
    )
    process.add_switch(parser, "--enable-healthz", default=False, help="serve /healthz")
    parser.add_argument(
        "--healthz-address", default=":11251", metavar="ADDRESS", help="address of /healthz (default :11251)"
    )
    parser.add_argument(
        "--graceful-shutdown-time",
        type=process.duration,
        default=30.0,
        metavar="DURATION",
        help="time that requests in progress have to finish (default 30s)",
    )
    process.add_switch(
        parser,
        "--enable-queue-allocated-pods-check",
        default=False,
        help="reject the deletion of queues with allocated pods (default false)",
    )
    parser.add_argument(
        "--max-queue-depth",
        type=int,
        default=5,
        metavar="N",
        help="levels of the queue hierarchy (default 5)",
    )
    process.add_switch(
        parser,
        "--enable-root-queue-protection",
        default=True,
        help="reject changes of the root queue (default true)",
    )
    add_gates_flag(
        parser,
        "SchedulingGatesQueueAdmission=true adds gates to pods until their queue admits them",
    )
    process.add_ignored_flags(parser)
    parser.set_defaults(enable_metrics=False)
    return parser


@dataclass(frozen=True, slots=True)
class IndexLookup:
    """Lookup for rules, from watched kinds and from objects fetched for one review."""

    index: Indexer
    fetched: Mapping[Kind, list[Manifest]] = field(default_factory=dict)

    def find(self, kind: Kind, key: Key) -> Manifest | None:
        return self.index.get(kind, key)

    def all(self, kind: Kind, namespace: str = "") -> list[Manifest]:
        if kind in FETCHED and kind not in self.fetched:
            raise NotCached(kind)
        found = self.fetched[kind] if kind in FETCHED else self.index.all(kind)
        return [m for m in found if not namespace or key_of(m).namespace == namespace]


async def _run(arguments: argparse.Namespace) -> None:
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        client = process.client_of(arguments, clock, user_agent=NAME)
        stack.push_async_callback(client.close)
        await serve_reviews(arguments, client, clock)


async def serve_reviews(arguments: argparse.Namespace, client: Client, clock: Clock) -> None:
    """Serves admission reviews until cancelled, once certificates, caches and registration are ready."""
    index, groups = Indexer(), _groups(arguments.admission_conf)

    async def fetch(kind: Kind) -> IndexLookup:
        try:
            listing = await client.list(kind, decode=FETCHED[kind])
        except NotFound:  # the kind is not installed
            return IndexLookup(index, {kind: []})
        return IndexLookup(index, {kind: list(listing.items)})

    settings = _options(arguments, groups)
    webhook = Webhook(IndexLookup(index), settings, arguments.enabled, fetch=fetch)
    reflectors = [Reflector(client, Watch(kind), each_event(_sink(index)), clock) for kind in KEPT]
    listening: list[int] = []
    health = process.Health(
        ready={
            "caches": lambda: "" if all(m.synced.is_set() for m in reflectors) else "not listed yet",
            "webhooks": lambda: "" if listening else "not listening yet",
        }
    )
    async with AsyncExitStack() as stack:
        await process.serve(arguments, stack, health, CollectorRegistry())
        async with asyncio.TaskGroup() as group:
            for reflector in reflectors:
                group.create_task(reflector.run())
            for reflector in reflectors:
                await reflector.synced.wait()
            credentials = await certificates(arguments, client, clock)
            context = server_context(credentials.server)
            server = Server(webhook, tls=context, max_body=BODY_LIMIT)
            port = await process.listen(server, arguments.listen_address or "0.0.0.0", arguments.port)
            stack.push_async_callback(server.stop, arguments.graceful_shutdown_time)
            listening.append(port)
            log.info("webhook server listening", port=port)
            await maintain(
                arguments,
                client,
                clock,
                context,
                groups,
                registered=await register(arguments, client, credentials.authority, groups),
            )


async def maintain(
    arguments: argparse.Namespace,
    client: Client,
    clock: Clock,
    context: ssl.SSLContext,
    groups: GroupsFile | None = None,
    *,
    registered: bool = True,
) -> None:
    """Keeps certificates, registration and resource groups up to date until cancelled."""
    while True:
        await clock.sleep(CHECK_SECONDS if registered else RECHECK_SECONDS)
        if groups is not None:
            groups.reload()
        credentials = await certificates(arguments, client, clock)
        load_credential(context, credentials.server)
        registered = await register(arguments, client, credentials.authority, groups)


def _sink(index: Indexer) -> Callable[[Event], None]:
    def see(event: Event) -> None:
        index.apply(event)

    return see


def _groups(path: Path | None) -> GroupsFile | None:
    try:
        return GroupsFile(path) if path else None
    except OSError as error:
        raise SystemExit(f"{NAME}: --admission-conf {explain_os_error(error, str(path))}") from None
    except ValueError as error:
        raise SystemExit(f"{NAME}: --admission-conf {path}: {error}") from None


def _options(arguments: argparse.Namespace, groups: GroupsFile | None) -> AdmissionOptions:
    return AdmissionOptions(
        scheduler_names=tuple(arguments.scheduler_name) or ("volcano",),
        max_queue_depth=arguments.max_queue_depth,
        protect_root_queue=arguments.enable_root_queue_protection,
        check_allocated_pods=arguments.enable_queue_allocated_pods_check,
        check_template=check_template,
        job_plugins=frozenset(known_plugins()),
        resource_groups=groups or no_resource_groups,
        gate_queue_admission=QUEUE_ADMISSION in arguments.gates,
        own_namespace=arguments.webhook_namespace or SYSTEM_NAMESPACE,
    )


async def register(
    arguments: argparse.Namespace, client: Client, authority: bytes, groups: GroupsFile | None = None
) -> bool:
    """Writes the webhook configurations, or only the CA bundle into those of an installer.

    Returns whether all were written; a failed write is retried at the next check.
    """
    service = Key(arguments.webhook_namespace, arguments.webhook_service_name)
    wanted = configurations(
        authority=authority,
        enabled=arguments.enabled,
        scheduler_names=tuple(arguments.scheduler_name) or ("volcano",),
        service=None if arguments.webhook_url else service,
        url=arguments.webhook_url,
        controllers=arguments.controllers_user,
        assigns_pods=groups is not None and len(groups()) > 0,
    )
    taken = True
    for kind, manifest in wanted:
        patch, options = (manifest, WHOLE) if arguments.register_webhooks else (_trust(manifest), PART)
        try:
            await client.patch(kind, key_of(manifest), patch, options=options)
        except ApiError as error:
            taken = False
            log.warning("webhook registration failed", configuration=key_of(manifest), reason=error.message)
    return taken


def _trust(configuration: Manifest) -> Manifest:
    """Patch with only the CA bundle of every webhook in a configuration."""
    entries = (
        {"name": webhook["name"], "clientConfig": {"caBundle": webhook["clientConfig"]["caBundle"]}}
        for webhook in configuration["webhooks"]
    )
    return {"webhooks": list(entries)}


if __name__ == "__main__":
    sys.exit(main())
