"""Composition root of a local cluster: constructs every component completely; `LocalCluster` starts them."""

import uuid
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import BinaryIO

from volcano.accounting.service.api_group import ApiGroup
from volcano.accounting.service.service import AccountingOptions, AccountingService
from volcano.accounting.store.file_check import accounting_database, sqlite_url
from volcano.apiserver.authn.access_control import AccessOptions
from volcano.apiserver.authz.actions import Action
from volcano.apiserver.authz.rbac import Authorizer
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.endpoints.health import HealthCheck
from volcano.apiserver.endpoints.logs import no_process
from volcano.apiserver.endpoints.responses import malformed_response
from volcano.apiserver.interfaces import LogSource, User
from volcano.apiserver.proxy.kubelets import KubeletClientOptions, KubeletConnections, no_node
from volcano.apiserver.registry.event_expiry import EventExpiry
from volcano.apiserver.registry.kind_table import KindTable
from volcano.apiserver.registry.object_meta import uids
from volcano.apiserver.registry.registry import Registry
from volcano.apiserver.registry.strategies import built_in_kinds
from volcano.apiserver.server import (
    ApiServer,
    ControlledRegistry,
    ServerOptions,
    controlled_registry,
    streams_body,
)
from volcano.apiserver.storage.compaction import Compactor
from volcano.apiserver.storage.journal import DurableStore
from volcano.apiserver.storage.metrics import StoreMetrics
from volcano.apiserver.storage.store import OnWrite, Store
from volcano.base.clock import Clock
from volcano.base.http.dialer import AllowedTargets, Dialer
from volcano.base.http.messages import Answer, Request
from volcano.base.http.server import Server
from volcano.base.http.tls_context import open_private, server_context
from volcano.base.metrics import CollectorRegistry
from volcano.controllers.kubernetes.certificates import Requestor
from volcano.embedded import state
from volcano.embedded.admission import admission_options, mutating_plugin, validating_plugin
from volcano.embedded.credentials import Credentials, load_or_create
from volcano.embedded.local_nodes import LocalNodes
from volcano.embedded.logs import ComponentLogs, LocalLogSource, no_pod
from volcano.embedded.options import CLUSTER_AUTHORITY, ClusterOptions
from volcano.embedded.resource_metrics import ResourceMetrics
from volcano.embedded.system import API_ADDRESS, COMPONENTS
from volcano.kube.api.kinds import CERTIFICATE_SIGNING_REQUEST, POD
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Client
from volcano.kube.informers.shared_informers import SharedDecodeCache, SharedInformerFactory
from volcano.nodes.kubelet.logs.logs import PodLogs

NO_DATABASE = "none"  # instead of a URL: accounting is disabled
CONCURRENT_WRITES = 32  # of the scheduler and the kubelet together
LOOPBACK = ("localhost", "127.0.0.1", "::1")
IN_CLUSTER = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True, slots=True)
class ComponentHealth:
    """Health checks of the other components, for /readyz: an error or a warning, or empty."""

    checks: Mapping[str, HealthCheck]
    warnings: Mapping[str, HealthCheck]


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The components that exist once per cluster; none of them runs yet."""

    credentials: Credentials
    registry: Registry
    authorizer: Authorizer
    client: Client  # for users of the cluster object; returns copies
    internal_client: Client  # for the cluster's own components; returns shared, read-only objects
    informers: SharedInformerFactory
    local_nodes: LocalNodes | None
    log_source: LogSource
    api_server: ApiServer
    listener: Server
    event_expiry: EventExpiry
    compactor: Compactor
    resource_metrics: ResourceMetrics
    dialer: Dialer  # of connections that API requests cause
    accounting: AccountingService | None


def compose(
    options: ClusterOptions,
    clock: Clock,
    random: Random,
    logs: ComponentLogs,
    metrics: CollectorRegistry,
    opened: AsyncExitStack,
    health: ComponentHealth,
    reset_accounting_metrics: Callable[[], CollectorRegistry],
) -> ControlPlane:
    """Constructs the control plane. Files that it opens are closed with `opened`."""
    decoded = SharedDecodeCache()
    store = _open_store(options, decoded.remember, opened)
    StoreMetrics(store, metrics)
    credentials = _credentials(options, clock)
    dialer = Dialer(AllowedTargets.parse(options.allow_egress))
    controlled = _registry(options, store, credentials, clock, random, dialer)
    registry = controlled.registry
    client = DirectClient(registry)
    informers = SharedInformerFactory(client, clock, decoded)
    internal_client = DirectClient(registry, decode=decoded, concurrent_writes=CONCURRENT_WRITES)
    local_nodes = _local_nodes(options, internal_client, informers, clock, metrics)
    if local_nodes is not None:
        dialer.routes.append(local_nodes.dial_pod)
    kubelets = _kubelets(options, credentials, registry, dialer, local_nodes)
    log_source = _log_source(registry, local_nodes, kubelets, logs, clock)
    accounting = _accounting(options, clock, reset_accounting_metrics)
    resource_metrics = ResourceMetrics(clock, registry.lookup.pods_on_node, local_nodes)
    api_server = ApiServer(
        controlled,
        ServerOptions(
            new_id=_new_id,
            random=random,
            logs=log_source,
            streams=ClusterStreams(local_nodes, kubelets),
            dialer=dialer,
            kubelets=kubelets,
            ready={
                "store": lambda: store.error,
                "store-listeners": store.listeners.problem,
                **health.checks,
            },
            warnings=health.warnings,
            audit=_open_audit_log(options.audit_log, opened),
            metrics=metrics,
            resource_metrics=resource_metrics,
            extensions=(ApiGroup(accounting),) if accounting is not None else (),
        ),
    )
    tls = server_context(credentials.server, client_authority=credentials.authority.cert_pem)
    return ControlPlane(
        credentials=credentials,
        registry=registry,
        authorizer=controlled.access.authorizer,
        client=client,
        internal_client=internal_client,
        informers=informers,
        local_nodes=local_nodes,
        log_source=log_source,
        api_server=api_server,
        listener=Server(api_server, tls=tls, on_malformed=malformed_response, streams_body=streams_body),
        event_expiry=EventExpiry(store, clock),
        compactor=Compactor(store, clock),
        resource_metrics=resource_metrics,
        dialer=dialer,
        accounting=accounting,
    )


def may_request_certificate(authorizer: Authorizer, user: Requestor, subresource: str) -> bool:
    """Whether a user may have a node's certificate (`nodeclient`) or renew its own (`selfnodeclient`)."""
    kind = CERTIFICATE_SIGNING_REQUEST
    action = Action("create", kind.group, kind.plural, subresource)
    return authorizer.allowed(User(user.name, user.groups, user.uid, user.extra), action)


def _open_store(options: ClusterOptions, on_write: OnWrite, opened: AsyncExitStack) -> Store:
    if not options.durable:
        return Store(on_write=on_write)
    durable = DurableStore(options.directory / state.STORE, on_write=on_write)
    opened.callback(durable.close)
    return durable.store


def _credentials(options: ClusterOptions, clock: Clock) -> Credentials:
    hosts = tuple(dict.fromkeys((*LOOPBACK, *IN_CLUSTER, API_ADDRESS, options.host)))
    return load_or_create(options.directory, hosts, clock.now().wall)


def _registry(
    options: ClusterOptions,
    store: Store,
    credentials: Credentials,
    clock: Clock,
    random: Random,
    dialer: Dialer,
) -> ControlledRegistry:
    batch = admission_options(options.admission_conf, clock)
    return controlled_registry(
        store,
        KindTable(built_in_kinds()),
        clock=clock,
        random=random,
        new_uid=uids(random),
        access=AccessOptions(
            admin_token=credentials.admin_token,
            signing_key=credentials.signing_key,
            new_id=_new_id,
            authority=credentials.authority.cert_pem,
        ),
        mutating=mutating_plugin(batch),
        validating=validating_plugin(batch),
        pod_security=options.pod_security,
        dialer=dialer,
    )


def _local_nodes(
    options: ClusterOptions,
    client: Client,
    informers: SharedInformerFactory,
    clock: Clock,
    metrics: CollectorRegistry,
) -> LocalNodes | None:
    if not options.local.nodes:
        return None
    return LocalNodes(
        options.local,
        options.directory,
        client,
        clock,
        informers,
        adoptable=options.durable,
        private=(options.kubeconfig,) if options.kubeconfig else (),
        metrics=metrics,
    )


def _kubelets(
    options: ClusterOptions,
    credentials: Credentials,
    registry: Registry,
    dialer: Dialer,
    local_nodes: LocalNodes | None,
) -> KubeletConnections:
    authority = options.kubelet_authority.encode() if options.kubelet_authority else None
    if options.kubelet_authority == CLUSTER_AUTHORITY:
        authority = credentials.authority.cert_pem
    return KubeletConnections(
        registry.lookup,
        dialer,
        KubeletClientOptions(credentials.kubelet_client, authority),
        is_local=local_nodes.has_node if local_nodes else no_node,
    )


def _log_source(
    registry: Registry,
    local_nodes: LocalNodes | None,
    kubelets: KubeletConnections,
    logs: ComponentLogs,
    clock: Clock,
) -> LogSource:
    find = partial(registry.lookup.find, POD)
    return LocalLogSource(
        logs,
        frozenset(COMPONENTS),
        find,
        clock,
        pods=PodLogs(local_nodes.pods, find, clock) if local_nodes else None,
        is_real=local_nodes.is_real if local_nodes else no_pod,
        kubelets=kubelets,
    )


def _accounting(
    options: ClusterOptions, clock: Clock, metrics: Callable[[], CollectorRegistry]
) -> AccountingService | None:
    """The service of a cluster; None when accounting is disabled."""
    if options.accounting_database == NO_DATABASE:
        return None
    url = options.accounting_database
    if not url:
        database = accounting_database(options.directory)
        database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        url = sqlite_url(database)
    return AccountingService(AccountingOptions(url, options.accounting_retention), clock, metrics)


def _open_audit_log(path: Path | None, opened: AsyncExitStack) -> BinaryIO | None:
    """Opens the audit log for appending; only the owner can read it, as it tells who did what."""
    return opened.enter_context(open_private(path)) if path else None


def _new_id() -> str:
    return str(uuid.uuid4())


@dataclass(frozen=True, slots=True)
class ClusterStreams:
    """Serves the streams of all pods that run somewhere; raises for those of simulated nodes."""

    local_nodes: LocalNodes | None
    kubelets: KubeletConnections

    async def connect(self, subresource: str, pod: Manifest, request: Request) -> Answer:
        if self.local_nodes is not None and self.local_nodes.is_real(pod):
            return await self.local_nodes.connect(subresource, pod, request)
        if self.kubelets.serves(pod):
            return await self.kubelets.connect(subresource, pod, request)
        raise no_process(subresource, pod)
