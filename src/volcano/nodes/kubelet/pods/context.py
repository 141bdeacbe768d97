"""What every pod's worker shares: the runtime, the client, the clock, and the node it is on."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from volcano.clock import Clock
from volcano.kube.client import Client
from volcano.kube.manifest import Manifest
from volcano.log import Log
from volcano.nodes.cri import Runtime
from volcano.nodes.kubelet.container_state import Container
from volcano.nodes.kubelet.devices import Devices
from volcano.nodes.kubelet.environment.pod_info import PodFacts
from volcano.nodes.kubelet.events import Events, about_container, about_pod
from volcano.nodes.kubelet.node import LocalNode
from volcano.nodes.kubelet.pods.checkpoint import Remembered, save
from volcano.nodes.kubelet.pods.lifecycle import Record
from volcano.nodes.kubelet.pods.sandboxes import HostNames
from volcano.nodes.kubelet.pods.status import full_name
from volcano.nodes.kubelet.settings import AgentSettings
from volcano.nodes.kubelet.volumes.store import Volumes, remove_tree

log = Log("agent")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Handed to each worker. `look_at`, `refresh_at` and `measure_at` put a pod on the agent's agenda."""

    settings: AgentSettings
    runtime: Runtime
    client: Client
    clock: Clock
    volumes: Volumes
    events: Events
    devices: Devices
    nodes: Mapping[str, LocalNode]
    host_address: str
    look_at: Callable[[str, float], None]  # a pod's uid, wall time
    refresh_at: Callable[[str], None]
    measure_at: Callable[[str, float], None]  # a pod's uid, seconds from now
    tell_address: Callable[[str, str], None]  # a pod's uid, its address; empty when it has none any more
    host: HostNames = field(default_factory=HostNames)
    program_path: str = ""  # of this host, for runtimes that show pods its programs
    default_user: int | None = 0  # whom a container runs as when its pod names nobody; None: its image says
    saved: dict[str, Remembered] = field(default_factory=dict)  # what is on disk, by pod

    @property
    def runtime_name(self) -> str:
        return f"volcano-{self.runtime.name}"

    def about(self, pod: Manifest, container: Container | None = None) -> Manifest:
        """What an event is about: a pod, or one of its containers."""
        return about_pod(pod) if container is None else about_container(pod, container)

    def full_name(self, pod: Manifest) -> str:
        return full_name(pod)

    def facts(self, pod: Manifest, record: Record) -> PodFacts:
        node = self.nodes[pod["spec"]["nodeName"]]
        addresses = (record.address,) if record.address else ()
        return PodFacts(record.address, addresses, self.host_address, node.name, node.allocatable())

    def remember(self, uid: str, node: str, record: Record) -> None:
        """Keeps on disk what a restart must not forget; a disk that is full costs only that."""
        remembered = Remembered(
            {name: (run.pause, run.back_off) for name, run in record.runs.items() if run.back_off},
            self.devices.given_to(node, uid),
        )
        if remembered == self.saved.get(uid, Remembered()):
            return
        try:
            save(self.settings.pod_directory(uid), remembered)
            self.saved[uid] = remembered
        except OSError as error:
            log.warning("pod's memory not saved", pod=uid, reason=str(error))

    async def forget(self, uid: str, node: str) -> None:
        """Removes everything a pod had here."""
        await self.volumes.remove(uid, self.settings.pod_directory(uid))
        self.devices.release(node, uid)
        self.saved.pop(uid, None)
        if not self.settings.keep_logs:
            await asyncio.to_thread(remove_tree, self.settings.pod_directory(uid))
