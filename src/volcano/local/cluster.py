"""A whole cluster in one process: store, API server, scheduler, controllers, admission, simulated and real nodes.

Read `LocalCluster.start` first: it is the order in which the parts come up.
"""

import asyncio
import logging
import random
import secrets
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

from volcano import __version__
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.endpoints.logs import LogSource
from volcano.apiserver.registry.builtin_kinds import built_in_kinds
from volcano.apiserver.registry.kind_table import KindTable
from volcano.apiserver.registry.object_meta import uids
from volcano.apiserver.registry.registry import Registry
from volcano.apiserver.schema.crds import served as served_by_crd
from volcano.apiserver.server import ApiServer, Setup
from volcano.apiserver.storage.journal import Durable
from volcano.apiserver.storage.store import Store
from volcano.clock import Clock, SystemClock
from volcano.kube.client import Client
from volcano.kube.controller_runner import ControllerRunner
from volcano.kube.informers import SharedInformerFactory
from volcano.kube.kinds import CRD, NAMESPACE, POD, Kind
from volcano.kube.manifest import Manifest, key_of
from volcano.kube.names import DEFAULT_QUEUE
from volcano.local import parts, state
from volcano.local.admission import ADMISSION
from volcano.local.credentials import Credentials, load_or_create
from volcano.local.files import Document, FileError, apply
from volcano.local.host import Host, HostSettings
from volcano.local.kubeconfig import write_kubeconfig
from volcano.local.logs import ComponentLogs, LocalLogSource, component, nobody
from volcano.local.parts import MakeController
from volcano.local.system import (
    API_ADDRESS,
    COMPONENTS,
    CONTROL_PLANE_POOL,
    ONLY_SIMULATED,
    system_manifests,
)
from volcano.local.tidying import Tidying
from volcano.log import Log
from volcano.metrics import CollectorRegistry, CompositeRegistry
from volcano.net.server import Server
from volcano.net.tls import server_context
from volcano.nodes.kubelet.logs.logs import PodLogs
from volcano.nodes.pools import Pool, SimulatedNode, nodes_of
from volcano.scheduler.engine.config import shipped
from volcano.scheduler.loop import Scheduler

log = Log("local")

RESTART_AFTER = 1.0  # seconds
PATIENCE = 10.0
WRITES_ABREAST = 32  # of our own parts together
LOOPBACK = ("localhost", "127.0.0.1", "::1")
IN_CLUSTER = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user may choose about a cluster."""

    directory: Path
    durable: bool = True
    host: str = "127.0.0.1"
    port: int = 0
    kubeconfig: Path | None = None
    pools: Sequence[Pool] = ()
    sim_duration: float = float("inf")
    scheduler_conf: str | None = None  # the text of a configuration file
    audit_log: Path | None = None
    local: HostSettings = field(default_factory=HostSettings)  # the nodes of this host


class LocalCluster:
    """Use as an async context manager, or call `start` and `stop`."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.clock = clock or SystemClock()
        self.url = ""
        self.registry: Registry
        self.client: Client
        self.scheduler: Scheduler
        self.log_source: LogSource
        self._informers: SharedInformerFactory
        self._inner: Client  # of our own parts, which share what they are told and change none of it
        self.host: Host | None = None
        self.logs = ComponentLogs()
        self._random = random.Random(secrets.randbits(64))
        self._stack = AsyncExitStack()
        self._ready: dict[str, bool] = {}
        self.metrics = CollectorRegistry()  # of the API server and all other parts
        self._parts_metrics = CompositeRegistry(self.metrics)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def kubeconfig(self) -> Path:
        return self.settings.kubeconfig or self.settings.directory / "kubeconfig"

    async def __aenter__(self) -> "LocalCluster":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Brings everything up; returns when the API server answers and every part has seen the cluster."""
        state.make_private(self.settings.directory)
        self._keep_logs()
        self.registry = Registry(
            self._open_store(), table := KindTable(built_in_kinds()),
            clock=self.clock, random=self._random, new_uid=uids(self._random),
        )  # fmt: skip
        table.follow(self.registry.store, served_by_crd)
        self.client = DirectClient(self.registry)
        self._informers = SharedInformerFactory(self.client, self.clock)
        self.registry.store.share = self._informers.decode.remember
        self._inner = DirectClient(self.registry, decode=self._informers.decode, abreast=WRITES_ABREAST)
        self.host = self._this_host()
        credentials = self._credentials()
        server = self._api_server(credentials)
        await server.start()
        self._stack.push_async_callback(server.close)
        await self._install(parts.priority_classes())
        await self._install(parts.crds())
        await self._install(system_manifests(self.settings.scheduler_conf or shipped()))
        await parts.put_in_force(self.client, self.settings.scheduler_conf)
        await self._listen(server, credentials)
        self._start_parts(credentials.authority.cert_pem.decode())
        await self._until_ready()
        self._keep_tidy()

    async def stop(self, *, keep_pods: bool = False) -> None:
        """Stops everything, the store last; what was acknowledged is on disk.

        Pods that really run end too, unless they are kept for the next start of a durable cluster.
        """
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.host is not None:
            await self.host.close(keep=keep_pods)
        await self._stack.aclose()

    async def apply(self, documents: Sequence[Document]) -> list[Manifest]:
        """Applies manifests in order; raises FileError naming the first that is refused."""
        applied = []
        for document in documents:
            api_version, kind_name = document.manifest["apiVersion"], document.manifest["kind"]
            served = self.registry.kinds.by_manifest(api_version, kind_name)
            if served is None:
                raise FileError(
                    f"{document.source}: no matches for kind {kind_name!r} in version {api_version!r}"
                )
            applied.append(await apply(self.client, document, served.kind))
            if served.kind == NAMESPACE:
                await self._until(parts.has_account(self.registry, applied[-1]["metadata"]["name"]))
        return applied

    def nodes(self) -> list[SimulatedNode]:
        """The nodes that this cluster simulates, our own control plane's included."""
        pools = self.settings.pools
        if self.settings.local.nodes:
            pools = [replace(pool, taints=(*pool.taints, ONLY_SIMULATED)) for pool in pools]
        return nodes_of([*pools, CONTROL_PLANE_POOL])

    def _this_host(self) -> Host | None:
        settings = self.settings
        if not settings.local.nodes:
            return None
        return Host(
            settings.local,
            settings.directory,
            self._inner,
            self.clock,
            self._informers,
            adoptable=settings.durable,
        )

    def _keep_logs(self) -> None:
        logger = logging.getLogger("volcano")
        logger.addHandler(self.logs)
        logger.setLevel(min(logger.level or logging.INFO, logging.INFO))
        self._stack.callback(logger.removeHandler, self.logs)

    def _keep_tidy(self) -> None:
        tidying = Tidying()
        tidying.begin()
        self._stack.callback(tidying.end)
        self._tasks.append(asyncio.create_task(tidying.run(), name="tidying"))

    def _open_store(self) -> Store:
        if not self.settings.durable:
            return Store()
        durable = Durable(self.settings.directory / state.STORE)
        self._stack.callback(durable.close)
        return durable.store

    def _credentials(self) -> Credentials:
        hosts = tuple(dict.fromkeys((*LOOPBACK, *IN_CLUSTER, API_ADDRESS, self.settings.host)))
        return load_or_create(self.settings.directory, hosts, self.clock.now().wall)

    def _api_server(self, credentials: Credentials) -> ApiServer:
        find = partial(self.registry.lookup.find, POD)
        host = self.host
        self.log_source = LocalLogSource(
            self.logs,
            frozenset(COMPONENTS),
            find,
            self.clock,
            pods=PodLogs(host.pods, find, self.clock) if host else None,
            is_real=host.is_real if host else nobody,
        )
        setup = Setup(
            admin_token=credentials.admin_token,
            signing_key=credentials.signing_key,
            new_id=lambda: str(uuid.uuid4()),
            random=self._random,
            authority=credentials.authority.cert_pem,
            logs=self.log_source,
            streams=host,
            ready={"store": lambda: self.registry.store.trouble},
            audit=self._audit(),
            metrics=self.metrics,
        )
        server = ApiServer(self.registry, setup)
        before, after = parts.admission()
        self.registry.admit_with(server.admission(before, after))
        with component(ADMISSION):
            log.info("started", part="rules, in process")
        return server

    def _audit(self) -> BinaryIO | None:
        path = self.settings.audit_log
        return self._stack.enter_context(path.open("ab", buffering=0)) if path else None

    async def _install(self, manifests: Sequence[tuple[Kind, Manifest]]) -> None:
        """Creates what is missing; what is there, a user may have changed."""
        for kind, manifest in manifests:
            if self.registry.lookup.find(kind, key_of(manifest)) is None:
                await self.client.create(kind, manifest)
            elif kind == CRD:
                await parts.refresh_crd(self.client, manifest)

    async def _listen(self, server: ApiServer, credentials: Credentials) -> None:
        context = server_context(credentials.server, client_authority=credentials.authority.cert_pem)
        listener = Server(server, tls=context)
        port = self.settings.port or parts.last_port(self.settings.directory)
        try:
            await listener.start(self.settings.host, port)
        except OSError:
            if self.settings.port:
                raise
            await listener.start(self.settings.host, 0)
        self._stack.push_async_callback(listener.stop, 1.0)
        if self.host is not None:
            self.host.serve(listener)
        self.url = listener.url
        write_kubeconfig(self.kubeconfig, self.url, credentials)
        log.info("listening", url=self.url, version=__version__)

    def _start_parts(self, authority: str) -> None:
        made = parts.controllers(self.settings, self.nodes(), self._random, authority, self._parts_metrics)
        for part, makers in made.items():
            for make in makers:
                self._start_controller(part, make)
        self._ready[parts.SCHEDULER] = False
        self._supervise(parts.SCHEDULER, parts.SCHEDULER, self._run_scheduler)
        if (host := self.host) is not None:
            self._start_controller(parts.KUBERNETES, lambda: host.names)
            self._ready[parts.AGENT] = False
            self._supervise(parts.KUBERNETES, parts.AGENT, lambda: host.run(lambda: self._mark(parts.AGENT)))

    def _start_controller(self, part: str, make: MakeController) -> None:
        """Starts a controller; a runner that fails is replaced by a new one, which lists everything again."""
        first = [make()]
        name = first[0].name
        self._ready[name] = False

        async def run() -> None:
            controller = first.pop() if first else make()
            client = DirectClient(self.registry, decode=self._informers.decode)  # as many writes as it wants
            runner = ControllerRunner(
                controller, client, self.clock, on_ready=lambda: self._mark(name), informers=self._informers
            )
            await runner.run()

        self._supervise(part, name, run)

    async def _run_scheduler(self) -> None:
        """A scheduler afresh: should it fall over, its successor knows nothing but what the cluster says."""
        conf = self.settings.scheduler_conf
        self.scheduler = parts.scheduler(
            self._inner, self.clock, conf, self._parts_metrics, lambda: self._mark(parts.SCHEDULER)
        )
        await self.scheduler.run()

    def _supervise(self, part: str, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Keeps one part of the cluster at work: a bug that ends it is logged, and it starts again."""

        async def forever() -> None:
            while True:
                log.info("started", part=name)
                try:
                    await run()
                except Exception as error:
                    log.error("part failed, starting it again", part=name, error=error)
                await self.clock.sleep(RESTART_AFTER)

        with component(part):
            self._tasks.append(asyncio.create_task(forever(), name=name))

    def _mark(self, name: str) -> None:
        self._ready[name] = True

    async def _until_ready(self) -> None:
        """Every part has seen the cluster, pods may be created, and there is a queue to submit to."""
        await self._until(lambda: all(self._ready.values()))
        await self._until(parts.has_account(self.registry, "default"))
        await self._until(parts.has_queue(self.registry, DEFAULT_QUEUE))

    async def _until(self, true: Callable[[], bool], *, within: float = PATIENCE) -> None:
        """Waits for something that the cluster's own parts are about to do; goes on when it takes too long."""
        deadline = self.clock.now().monotonic + within
        while not true():
            if self.clock.now().monotonic > deadline:
                log.warning("still waiting, going on", within=within)
                return
            await asyncio.sleep(0.005)
