"""Context of pod workers: the runtime, the client, the clock and other objects they share."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Client
from volcano.nodes.cri import Runtime
from volcano.nodes.kubelet.container_state import Container
from volcano.nodes.kubelet.cpus import LocalCpus
from volcano.nodes.kubelet.devices import DeviceManager
from volcano.nodes.kubelet.environment.downward import PodInfo
from volcano.nodes.kubelet.events import EventWriter, container_reference, pod_reference
from volcano.nodes.kubelet.images import FindImage, no_image
from volcano.nodes.kubelet.node import LocalNode
from volcano.nodes.kubelet.options import KubeletOptions
from volcano.nodes.kubelet.pods.checkpoint import PodCheckpoint, save
from volcano.nodes.kubelet.pods.lifecycle import PodState
from volcano.nodes.kubelet.pods.sandboxes import HostFiles
from volcano.nodes.kubelet.volumes.store import VolumeManager, remove_tree

log = Log("kubelet")


@dataclass(frozen=True, slots=True)
class PodWorkerContext:
    """Shared by all workers. `sync_at`, `refresh_in` and `measure_at` add a pod to the kubelet's work queue."""

    options: KubeletOptions
    runtime: Runtime
    client: Client
    clock: Clock
    volumes: VolumeManager
    events: EventWriter
    devices: DeviceManager
    cpus: LocalCpus
    nodes: Mapping[str, LocalNode]
    host_address: str
    sync_at: Callable[[str, float], None]  # a pod's uid, wall time
    refresh_in: Callable[[str, float], None]  # a pod's uid, seconds from now
    measure_at: Callable[[str, float], None]  # a pod's uid, seconds from now
    # Called with a pod and its address before its first container starts.
    on_sandbox: Callable[[Manifest, str], Awaitable[None]]
    on_address: Callable[[str, str], None]  # a pod's uid, its address; empty when it no longer has one
    host: HostFiles = field(default_factory=HostFiles)
    program_path: str = ""  # PATH of this host, for runtimes that run its programs
    default_user: int | None = 0  # user of a container whose pod names none; None: that of its image
    hides_gpus: bool = False  # this host has GPUs, which containers without one do not see
    driver_libraries: str = ""  # directory of NVIDIA's libraries that pods do not find by themselves
    find_image: FindImage = no_image  # the mapping of an image, for runtimes that run this host's programs
    saved: dict[str, PodCheckpoint] = field(default_factory=dict)  # saved checkpoints, by pod

    @property
    def runtime_name(self) -> str:
        return f"volcano-{self.runtime.name}"

    def reference(self, pod: Manifest, container: Container | None = None) -> Manifest:
        """The involved object of an event: a pod, or one of its containers."""
        return pod_reference(pod) if container is None else container_reference(pod, container)

    def pod_info(self, pod: Manifest, pod_state: PodState) -> PodInfo:
        node = self.nodes[pod["spec"]["nodeName"]]
        addresses = (pod_state.address,) if pod_state.address else ()
        return PodInfo(pod_state.address, addresses, self.host_address, node.name, node.allocatable())

    def save_checkpoint(self, uid: str, node: str, pod_state: PodState) -> None:
        """Saves the state that must survive a restart; if the disk is full, only that is lost."""
        checkpoint = PodCheckpoint(
            {name: (run.delay, run.back_off) for name, run in pod_state.runs.items() if run.back_off},
            self.devices.allocated_to(node, uid),
        )
        if checkpoint == self.saved.get(uid, PodCheckpoint()):
            return
        try:
            save(self.options.pod_directory(uid), checkpoint)
            self.saved[uid] = checkpoint
        except OSError as error:
            log.warning("pod checkpoint not saved", pod=uid, reason=str(error))

    async def remove_pod(self, uid: str, node: str) -> None:
        """Removes the volumes, devices and directory of a pod."""
        await self.volumes.remove(uid, self.options.pod_directory(uid))
        self.devices.release(node, uid)
        self.cpus.release(node, uid)
        self.saved.pop(uid, None)
        if not self.options.keep_logs:
            await asyncio.to_thread(remove_tree, self.options.pod_directory(uid))
