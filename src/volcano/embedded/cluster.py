"""A whole cluster in one process: store, API server, scheduler, controllers, admission, simulated and real nodes.

`LocalCluster.start` lists the order in which the components start; `composition.compose` constructs them.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

from volcano import __version__
from volcano.accounting.service.budget_controller import BudgetController
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.registry.registry import Registry
from volcano.base.clock import Clock, SystemClock
from volcano.base.gc_policy import GcPolicy
from volcano.base.http.server import Server
from volcano.base.log import Log
from volcano.base.metrics import CollectorRegistry, CompositeRegistry
from volcano.controllers.notifications.controller import NotificationController
from volcano.controllers.notifications.service import run_notifications
from volcano.controllers.notifications.targets import Targets
from volcano.embedded import components, state
from volcano.embedded.admission import ADMISSION
from volcano.embedded.components import MakeController
from volcano.embedded.composition import ComponentHealth, ControlPlane, compose, may_request_certificate
from volcano.embedded.credentials import Credentials
from volcano.embedded.earlier_nodes import retire_nodes
from volcano.embedded.files import Document, FileError, apply
from volcano.embedded.image_map import ImageMapPublisher
from volcano.embedded.kubeconfig import write_kubeconfig
from volcano.embedded.local_nodes import LocalNodes
from volcano.embedded.logs import ComponentLogs, component
from volcano.embedded.options import ClusterOptions
from volcano.embedded.supervisor import Supervisor
from volcano.embedded.system import CONTROL_PLANE_POOL, ONLY_SIMULATED, system_manifests
from volcano.kube.api.kinds import CRD, NAMESPACE, NODE_METRICS, Kind
from volcano.kube.api.manifest import Manifest, key_of
from volcano.kube.api.names import DEFAULT_QUEUE
from volcano.kube.client.protocol import EVERYTHING, Client
from volcano.kube.controllers.runner import ControllerRunner
from volcano.kube.controllers.write_loops import WriteLoopMetrics
from volcano.nodes.pools import SimulatedNode, nodes_of
from volcano.scheduler.engine.config import shipped
from volcano.scheduler.health import ERRORS, WARNINGS
from volcano.scheduler.history.cycle_history import CycleHistory
from volcano.scheduler.history.endpoint import API_SERVER_PATH, respond
from volcano.scheduler.history.segments import Segments
from volcano.scheduler.loop import Scheduler

log = Log("local")

READY_TIMEOUT = 10.0  # seconds
READY_POLL = 0.005
CYCLES, HISTORY_BYTES = "cycles", 8 * 1024 * 1024  # directory and size of the record of the last cycles
_DEVICE_SHARING = """  - name: deviceshare
    arguments:
      deviceshare.SchedulePolicy: binpack
      deviceshare.ScheduleWeight: 10
"""
_VGPU, _ASCEND = "deviceshare.VGPUEnable", "deviceshare.AscendHAMiVNPUEnable"


class LocalCluster:
    """Use as an async context manager, or call `start` and `stop`."""

    def __init__(self, options: ClusterOptions, clock: Clock | None = None) -> None:
        self.options = options
        self.clock = clock or SystemClock()
        self.logs = ComponentLogs()
        self.metrics = CollectorRegistry()  # of the API server and all other components
        self.control_plane: ControlPlane | None = None
        self._scheduler: Scheduler | None = None
        self.url = ""
        self.deleted_nodes: list[str] = []  # simulated nodes of earlier starts
        self.previous_context = ""  # of the kubeconfig before this cluster was added
        self._component_metrics = CompositeRegistry(self.metrics)
        self._write_loops = WriteLoopMetrics(self.metrics)
        self._random = Random(secrets.randbits(64))
        self._supervisor = Supervisor(self.clock)
        self._stack = AsyncExitStack()

    @property
    def kubeconfig(self) -> Path:
        return self.options.kubeconfig or self.options.directory / "kubeconfig"

    @property
    def registry(self) -> Registry:
        return self._started().registry

    @property
    def client(self) -> Client:
        return self._started().client

    @property
    def credentials(self) -> Credentials:
        return self._started().credentials

    @property
    def local_nodes(self) -> LocalNodes | None:
        return self._started().local_nodes

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler that runs now; a new one after a failure."""
        if self._scheduler is None:
            raise RuntimeError("the scheduler is not started")
        return self._scheduler

    def _started(self) -> ControlPlane:
        if self.control_plane is None:
            raise RuntimeError("the cluster is not started")
        return self.control_plane

    async def __aenter__(self) -> "LocalCluster":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Starts everything; returns when the API server answers and every component has synced."""
        state.make_private(self.options.directory)
        self._collect_logs()
        plane = self.control_plane = compose(
            self.options,
            self.clock,
            self._random,
            self.logs,
            self.metrics,
            self._stack,
            self._health(),
            partial(self._component_metrics.reset, components.ACCOUNTING),
        )
        await self._start_api_server(plane)
        await self._install(plane, components.priority_classes())
        await self._install(plane, components.crds())
        await self._install(
            plane, system_manifests(self.options.scheduler_conf or default_conf(self.options))
        )
        await components.apply_scheduler_conf(plane.client, self.options.scheduler_conf)
        self.deleted_nodes = await retire_nodes(plane.client, self.clock, self._started_nodes(plane))
        images = ImageMapPublisher(self.options.images, plane.client, self.clock)
        await images.publish()
        self.url = await self._listen(plane.listener)
        self.previous_context = write_kubeconfig(
            self.kubeconfig, self.url, plane.credentials, self.options.context
        )
        log.info("API server listening", url=self.url, version=__version__)
        self._supervisor.start(components.KUBERNETES, components.EVENT_EXPIRY, plane.event_expiry.run)
        self._supervisor.start(components.KUBERNETES, components.COMPACTION, plane.compactor.run)
        self._start_controllers(plane)
        self._start_accounting(plane)
        self._start_notifications(plane)
        self._start_scheduler(plane)
        self._start_local_nodes(plane, images)
        await self._wait_until_ready(plane)
        self._start_gc_policy()

    async def stop(self, *, keep_pods: bool = False) -> None:
        """Stops everything, the store last; acknowledged writes are on disk.

        Pods on local nodes are stopped too, unless they are kept for the next start of a durable cluster.
        """
        await self._supervisor.stop()
        if self.control_plane is not None and self.control_plane.local_nodes is not None:
            await self.control_plane.local_nodes.close(keep=keep_pods)
        await self._stack.aclose()

    async def apply(self, documents: Sequence[Document]) -> list[Manifest]:
        """Applies manifests in order; raises FileError naming the first that is rejected."""
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
                await self._until(components.has_account(self.registry, applied[-1]["metadata"]["name"]))
        return applied

    def nodes(self) -> list[SimulatedNode]:
        """The simulated nodes, the node of the control plane included."""
        pools = self.options.pools
        if self.options.local.nodes:
            pools = [replace(pool, taints=(*pool.taints, ONLY_SIMULATED)) for pool in pools]
        nodes = nodes_of([*pools, CONTROL_PLANE_POOL])
        return [*self.options.topology.labelled(nodes[:-1]), nodes[-1]]

    def _started_nodes(self, plane: ControlPlane) -> set[str]:
        local = plane.local_nodes.node_names if plane.local_nodes is not None else ()
        return {node.name for node in self.nodes()} | set(local)

    def _health(self) -> ComponentHealth:
        """Checks of the components, which start after the API server."""

        def of_scheduler(check: Callable[[Scheduler], str]) -> str:
            return check(self._scheduler) if self._scheduler is not None else ""

        return ComponentHealth(
            checks={
                "components": self._supervisor.problem,
                **{f"scheduler-{name}": partial(of_scheduler, check) for name, check in ERRORS.items()},
            },
            warnings={f"scheduler-{name}": partial(of_scheduler, check) for name, check in WARNINGS.items()},
        )

    def _collect_logs(self) -> None:
        logger = logging.getLogger("volcano")
        logger.addHandler(self.logs)
        logger.setLevel(min(logger.level or logging.INFO, logging.INFO))
        self._stack.callback(logger.removeHandler, self.logs)

    async def _start_api_server(self, plane: ControlPlane) -> None:
        with component(ADMISSION):
            log.info("admission plugins registered in process")
        await plane.api_server.start()
        self._stack.push_async_callback(plane.api_server.close)

    async def _install(self, plane: ControlPlane, manifests: Sequence[tuple[Kind, Manifest]]) -> None:
        """Creates missing objects; existing ones may have been changed by users and stay, except CRDs."""
        for kind, manifest in manifests:
            if plane.registry.lookup.find(kind, key_of(manifest)) is None:
                await plane.client.create(kind, manifest)
            elif kind == CRD:
                await components.refresh_crd(plane.client, manifest)

    async def _listen(self, listener: Server) -> str:
        port = self.options.port or components.last_port(self.options.directory)
        try:
            await listener.start(self.options.host, port)
        except OSError:
            if self.options.port:
                raise
            await listener.start(self.options.host, 0)
        self._stack.push_async_callback(listener.stop, 1.0)
        return listener.url

    def _start_controllers(self, plane: ControlPlane) -> None:
        made = components.controllers(
            self.options,
            self.nodes(),
            self._random,
            plane.credentials.authority,
            partial(may_request_certificate, plane.authorizer),
            self._component_metrics,
            plane.dialer.dial,
        )
        for part, makers in made.items():
            for make in makers:
                self._start_controller(plane, part, make)

    def _start_controller(self, plane: ControlPlane, part: str, make: MakeController) -> None:
        """Starts a controller; one that fails is replaced by a new one, which lists everything again."""
        first = [make()]

        async def run(on_ready: Callable[[], None]) -> None:
            controller = first.pop() if first else make()
            client = DirectClient(plane.registry, decode=plane.informers.decode)  # without a limit on writes
            await ControllerRunner(
                controller,
                client,
                self.clock,
                on_ready=on_ready,
                informers=plane.informers,
                write_loops=self._write_loops,
            ).run()

        self._supervisor.start_until_ready(part, first[0].name, run)

    def _start_scheduler(self, plane: ControlPlane) -> None:
        """Starts the scheduler; one that fails is replaced by a new one, which lists everything again."""
        segments = Segments(self.options.directory / CYCLES, HISTORY_BYTES) if self.options.durable else None
        history = CycleHistory(HISTORY_BYTES, segments)
        plane.api_server.add_page(API_SERVER_PATH, partial(respond, history))

        async def run(on_ready: Callable[[], None]) -> None:
            self._scheduler = components.scheduler(
                plane.internal_client,
                self.clock,
                self.options.scheduler_conf,
                self._component_metrics,
                on_ready,
                partial(plane.api_server.computed.select, NODE_METRICS, EVERYTHING),
                history,
                None if plane.accounting is None else plane.accounting.decayed_usage,
            )
            await self._scheduler.run()

        self._supervisor.start_until_ready(components.SCHEDULER, components.SCHEDULER, run)

    def _start_accounting(self, plane: ControlPlane) -> None:
        """Starts the recorder; one that fails is replaced by a new one, which lists everything again."""
        service = plane.accounting
        if service is None:
            return
        self._stack.push_async_callback(service.close)

        async def run(on_ready: Callable[[], None]) -> None:
            client = DirectClient(plane.registry, decode=plane.informers.decode)
            await service.run(client, plane.informers, on_ready)

        self._supervisor.start_until_ready(components.CONTROLLERS, components.ACCOUNTING, run)
        budgets = partial(BudgetController, service.budget_usage.of)
        self._start_controller(plane, components.CONTROLLERS, budgets)

    def _start_notifications(self, plane: ControlPlane) -> None:
        """Starts the notification controller and its outbox; both are replaced if one fails."""

        async def run(on_ready: Callable[[], None]) -> None:
            client = DirectClient(plane.registry, decode=plane.informers.decode)
            await run_notifications(
                client,
                self.clock,
                plane.informers,
                Targets(self.options.notify_allow),
                self._component_metrics.reset(NotificationController.name),
                write_loops=self._write_loops,
                on_ready=on_ready,
            )

        self._supervisor.start_until_ready(components.CONTROLLERS, NotificationController.name, run)

    def _start_local_nodes(self, plane: ControlPlane, images: ImageMapPublisher) -> None:
        nodes = plane.local_nodes
        if nodes is None:
            return
        self._start_controller(plane, components.KUBERNETES, lambda: nodes.names)

        async def run(on_ready: Callable[[], None]) -> None:
            await nodes.run(plane.listener, on_ready)

        self._supervisor.start_until_ready(components.KUBERNETES, components.KUBELET, run)
        self._supervisor.start(components.KUBERNETES, components.METRICS, plane.resource_metrics.run)
        self._supervisor.start(components.KUBERNETES, components.IMAGES, images.run)

    def _start_gc_policy(self) -> None:
        policy = GcPolicy()
        policy.apply()
        self._stack.callback(policy.restore)
        task = asyncio.create_task(policy.run(), name="gc policy")
        self._stack.push_async_callback(_cancel, task)

    async def _wait_until_ready(self, plane: ControlPlane) -> None:
        """Waits until every component has synced, pods may be created, and the default queue exists."""
        await self._until(self._supervisor.all_ready)
        await self._until(components.has_account(plane.registry, "default"))
        await self._until(components.has_queue(plane.registry, DEFAULT_QUEUE))

    async def _until(self, condition: Callable[[], bool], *, timeout: float = READY_TIMEOUT) -> None:
        """Waits for a condition that the cluster's own components are about to fulfil; gives up after the timeout."""
        deadline = self.clock.now().monotonic + timeout
        while not condition():
            if self.clock.now().monotonic > deadline:
                log.warning("cluster not ready within timeout, continuing", timeout=timeout)
                return
            await asyncio.sleep(READY_POLL)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def default_conf(options: ClusterOptions) -> str:
    """The shipped configuration; with the plugin `deviceshare` if devices of this cluster are shared."""
    switches = {
        _VGPU: bool(options.local.share_gpus)
        or any(pool.shared_devices.shares_gpus for pool in options.pools),
        _ASCEND: any(pool.shared_devices.npus for pool in options.pools),
    }
    enabled = [f"      {name}: true\n" for name, used in switches.items() if used]
    return shipped() + (_DEVICE_SHARING + "".join(enabled) if enabled else "")
