"""Nodes of this host in a cluster: a runtime, its kubelet, and the services in the pods' network.

In runtimes with a network of their own, pods reach the API server and a name server at the usual cluster
addresses; both are served by this process, on sockets created in the pods' network.
"""

import asyncio
import contextlib
import errno
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from volcano.apiserver.endpoints.logs import no_process
from volcano.base.clock import Clock
from volcano.base.http.messages import Answer, Request
from volcano.base.http.server import Server
from volcano.base.log import Log
from volcano.base.metrics import CollectorRegistry
from volcano.embedded.image_map import ImageMapInformer
from volcano.embedded.options import LocalNodeOptions
from volcano.embedded.state import PODS, VOLUMES
from volcano.embedded.system import API_ADDRESS, DNS_ADDRESS
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Client
from volcano.kube.informers.shared_informers import SharedInformerFactory
from volcano.nodes.cri import Runtime
from volcano.nodes.kubelet.dns.host_resolver import HostResolver
from volcano.nodes.kubelet.dns.names import ClusterDns
from volcano.nodes.kubelet.dns.server import DnsServer
from volcano.nodes.kubelet.events import EventWriter
from volcano.nodes.kubelet.gpus.metrics import GpuMetrics
from volcano.nodes.kubelet.kubelet import Kubelet, PodLocation
from volcano.nodes.kubelet.network.node_ports import NodePortListener
from volcano.nodes.kubelet.network.sync import NetworkSync
from volcano.nodes.kubelet.options import KubeletOptions
from volcano.nodes.kubelet.pods.log_retention import keep_only_logs
from volcano.nodes.kubelet.streams.streams import PodStreams
from volcano.nodes.kubelet.volumes.reclaim import VolumeReclaimer
from volcano.nodes.runtimes.probe import RuntimeChoice, choose
from volcano.nodes.runtimes.process import ProcessRuntime, cleanup
from volcano.nodes.shim.isolation.netlink import NetlinkSocket
from volcano.nodes.shim.specs import NAT, Failure, Usage

log = Log("local")

API_PORT, DNS_PORT = 443, 53


class LocalNodes:
    """The kubelet of this host's nodes. `run` it as a component of the cluster; `close` it when the cluster
    stops."""

    def __init__(
        self,
        options: LocalNodeOptions,
        directory: Path,
        client: Client,
        clock: Clock,
        informers: SharedInformerFactory,
        *,
        adoptable: bool,
        private: Sequence[Path] = (),
        metrics: CollectorRegistry | None = None,
    ) -> None:
        """`adoptable` pods keep running when this process ends, for the next one to adopt. Files in `private`, such as
        the kubeconfig, are not mounted by hostPath."""
        self.options = options
        self.choice: RuntimeChoice = choose(options.runtime)
        self.names = ClusterDns(api=(API_ADDRESS, API_PORT))
        self._client = client
        self._clock = clock
        self._informers = informers
        self._adoptable = adoptable
        self._directory = directory
        self._agent_settings = KubeletOptions(
            directory,
            nodes=options.nodes,
            fake_gpus=options.fake_gpus,
            share_gpus=options.share_gpus,
            publish_devices=options.dra,
            dns=DNS_ADDRESS,
            keep_logs=options.keep_logs,
            private=tuple(private),
            cpu_manager_policy=options.cpu_manager_policy,
            topology_manager_policy=options.topology_manager_policy,
        )
        self._agent: Kubelet | None = None
        if metrics is not None:
            GpuMetrics(
                lambda: self._agent.gpus if self._agent else None,
                lambda: self._agent.gpu_nodes() if self._agent else {},
                metrics,
            )
        self._streams: PodStreams | None = None
        self.runtime: Runtime | None = None
        self._network: NetworkSync | None = None
        self._events = EventWriter(client, clock)
        self.images = ImageMapInformer(partial(self._events.warn, self._agent_settings.node_names[0]))
        self._opened = asyncio.Event()
        self._services = AsyncExitStack()
        self._reopening: deque[asyncio.Task[None]] = deque(maxlen=1)

    @property
    def pods(self) -> Path:
        """The directory of the pods' directories."""
        return self._directory / PODS

    def has_node(self, name: str) -> bool:
        """Whether a node is one of this host."""
        return name in self._agent_settings.node_names

    @property
    def node_names(self) -> tuple[str, ...]:
        return self._agent_settings.node_names

    @property
    def node_count(self) -> int:
        """The number of nodes of this host."""
        return len(self._agent_settings.node_names)

    async def usage(self) -> Sequence[Usage]:
        """Cumulative usage of the containers that run now."""
        return await self.runtime.usage() if self.runtime is not None and self._opened.is_set() else ()

    def is_real(self, pod: Manifest) -> bool:
        """Whether a pod is on a node of this host."""
        return self.has_node(pod["spec"].get("nodeName") or "")

    def locate(self, pod: Manifest) -> PodLocation | None:
        """The containers of a pod, for logs and streams."""
        return self._agent.locate_pod(pod) if self._agent is not None else None

    def _running(self, pod: Manifest) -> frozenset[str]:
        located = self.locate(pod)
        return located.running if located is not None else frozenset()

    async def connect(self, subresource: str, pod: Manifest, request: Request) -> Answer:
        """Serves exec, attach and port-forward; raises for simulated pods."""
        if self._streams is None or not self.is_real(pod):
            raise no_process(subresource, pod)
        return await self._streams.connect(subresource, pod, request)

    async def dial_pod(self, address: str, port: int) -> socket.socket | None:
        """Connects to a pod of this host through its network; None for other addresses. A route of the dialer."""
        uid = self._agent.pod_at(address) if self._agent is not None else None
        if uid is None or self.runtime is None:
            return None
        # On a shared network, a program may listen on another address than the one of its pod.
        host = address if self.runtime.features.own_network else ""
        try:
            return await self.runtime.connect(uid, port, host=host)
        except Failure as failure:
            raise ConnectionRefusedError(errno.ECONNREFUSED, failure.message) from failure

    async def run(self, api_server: Server, on_ready: Callable[[], None]) -> None:
        """Runs the kubelet until cancelled or until it fails; it may be run again. Pods reach `api_server`."""
        await self._detach(keep=True)
        self.runtime = runtime = self._runtime(api_server)
        self._network = network = self._network_sync(runtime)
        self._streams = PodStreams(runtime, self._clock, self._running)
        self._agent = agent = Kubelet(
            replace(self._agent_settings, api=_api_address(runtime, api_server)),
            runtime,
            self._client,
            self._clock,
            informers=self._informers,
            on_ready=on_ready,
            on_open=lambda: self._open_services(runtime, api_server),
            on_address=self._set_pod_address,
            on_sandbox=network.isolate,
            find_image=self.images.find,
        )
        volumes = self._directory / VOLUMES
        reclaimer = VolumeReclaimer(self._client, self._informers, self._clock, volumes, lambda: agent.pods)
        async with self.images.watching(self._informers) as handler, asyncio.TaskGroup() as group:
            group.create_task(handler.wait_stopped())
            group.create_task(agent.run())
            group.create_task(reclaimer.run())
            group.create_task(self._run_network(network))

    def _set_pod_address(self, uid: str, address: str) -> None:
        self.names.set_pod_address(uid, address)
        if self._network is not None:
            self._network.set_pod_address(uid, address)

    def _network_sync(self, runtime: Runtime) -> NetworkSync:
        return NetworkSync(
            runtime,
            self._informers,
            self._clock,
            self._events,
            nodes=self._agent_settings.node_names,
            ports=NodePortListener(self._dial_endpoint, self._clock),
            cluster_addresses=(API_ADDRESS, DNS_ADDRESS),
            name_server=DNS_ADDRESS,
            host_addresses=_host_addresses,
        )

    async def _run_network(self, network: NetworkSync) -> None:
        try:
            await self._opened.wait()
            await network.run()
        finally:
            await network.close()

    async def _dial_endpoint(self, address: str, port: int) -> socket.socket:
        """Connects to an endpoint of a node port, which must be a pod of this host."""
        connected = await self.dial_pod(address, port)
        if connected is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"{address} is not a pod of this host")
        return connected

    async def close(self, *, keep: bool) -> None:
        """Detaches from the pods, or stops them and removes everything; pods that are not adoptable always
        stop."""
        await self._detach(keep=keep and self._adoptable)

    def _runtime(self, api_server: Server) -> Runtime:
        mode = self.choice.mode
        if mode is None:
            from volcano.nodes.runtimes.engine.engine import EngineRuntime

            return EngineRuntime(self.choice.name, self._directory, lifeline=not self._adoptable)
        runtime = ProcessRuntime(
            self._directory,
            mode,
            lifeline=not self._adoptable,
            clock=self._clock,
            pod_network=self.options.pod_network,
        )
        loop = asyncio.get_running_loop()
        runtime.on_restart(
            lambda: self._reopening.append(loop.create_task(self._reopen_services(runtime, api_server)))
        )
        return runtime

    async def _reopen_services(self, runtime: Runtime, api_server: Server) -> None:
        await self._open_services(runtime, api_server)
        if self._network is not None:
            self._network.invalidate()

    async def _open_services(self, runtime: Runtime, api_server: Server) -> None:
        """Serves DNS and the API server in the pods' network; a shared host network needs neither."""
        await self._services.aclose()
        self.names.service_addresses = runtime.features.network_rules
        self._opened.set()
        udp = await runtime.listen(DNS_ADDRESS, DNS_PORT, datagram=True)
        tcp = await runtime.listen(DNS_ADDRESS, DNS_PORT)
        if udp is not None:
            resolver = HostResolver() if self.options.pod_network == NAT else None
            dns = DnsServer(self.names, udp, tcp, resolver)
            await dns.start()
            self._services.push_async_callback(dns.stop)
        api = await runtime.listen(API_ADDRESS, API_PORT)
        if api is not None:
            self._services.push_async_callback(await api_server.listen_on(api))

    async def _detach(self, *, keep: bool) -> None:
        await self._services.aclose()
        await self._events.close()
        self._opened.clear()
        agent, self._agent = self._agent, None
        if agent is not None:
            await agent.close(keep=keep)


def _api_address(runtime: Runtime, api_server: Server) -> tuple[str, int]:
    """Where pods find the API server: at the cluster's address, or at the address on this host."""
    if runtime.features.own_network:
        return API_ADDRESS, API_PORT
    host, _, port = api_server.url.removeprefix("https://").rpartition(":")
    return host, int(port)


def _host_addresses() -> list[str]:
    """The addresses of this host, which pods must not reach."""
    with contextlib.closing(NetlinkSocket()) as routing:
        return routing.addresses()


async def remove_leftovers(directory: Path) -> list[str]:
    """Stops and removes all pods that a stopped cluster has left in a directory, but for their logs; returns what was
    removed."""
    from volcano.nodes.runtimes.engine.engine import cleanup as cleanup_engine

    removed = [*await cleanup(directory), *await cleanup_engine(directory)]
    pods = directory / PODS
    if await asyncio.to_thread(keep_only_logs, pods):
        removed.append(str(pods))
    return removed
