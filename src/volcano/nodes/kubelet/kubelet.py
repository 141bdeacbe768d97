"""Kubelet for the nodes of this host: watches their pods and runs one worker per pod.

Start reading at `Kubelet.run`. Sync decisions are in `pods.lifecycle`, statuses in `pods.status`, their
execution in `pods.worker`.
"""

import asyncio
import enum
import os
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from volcano import __version__
from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.base.workqueue import Waker, WorkQueue
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import TERMINAL_PHASES, Manifest, key_of, uid_of
from volcano.kube.client.protocol import Client, Event, EventType, Watch
from volcano.kube.devices.numa.layout import Cpu
from volcano.kube.informers.shared_informers import SharedInformerFactory
from volcano.nodes.cri import ExistingPods, Runtime
from volcano.nodes.kubelet.container_state import containers_of
from volcano.nodes.kubelet.cpu_layout import host_cpus
from volcano.nodes.kubelet.cpus import LocalCpus
from volcano.nodes.kubelet.device_claims import SlicePublisher
from volcano.nodes.kubelet.device_reports import DeviceReporter
from volcano.nodes.kubelet.devices import DeviceManager
from volcano.nodes.kubelet.events import EventWriter, pod_reference
from volcano.nodes.kubelet.gpus import driver, sharing
from volcano.nodes.kubelet.gpus.monitor import GpuMonitor
from volcano.nodes.kubelet.gpus.nvml import GpuReader, open_nvml
from volcano.nodes.kubelet.hostports import HostPorts
from volcano.nodes.kubelet.images import FindImage, no_image
from volcano.nodes.kubelet.machine import MachineInfo, node_pressures, read_machine_info
from volcano.nodes.kubelet.node import LocalNode, local_nodes
from volcano.nodes.kubelet.node_status import NodeStatusUpdater
from volcano.nodes.kubelet.options import PODS, KubeletOptions
from volcano.nodes.kubelet.pods.adoption import is_lost, restore_pod_state, was_accepted
from volcano.nodes.kubelet.pods.checkpoint import PodCheckpoint, load
from volcano.nodes.kubelet.pods.context import PodWorkerContext
from volcano.nodes.kubelet.pods.lifecycle import PodFailure, PodState
from volcano.nodes.kubelet.pods.log_retention import keep_only_logs
from volcano.nodes.kubelet.pods.lost import delete_lost, report_lost
from volcano.nodes.kubelet.pods.pod_resources import assignment_failure, check_fit, totals
from volcano.nodes.kubelet.pods.sandboxes import HostFiles
from volcano.nodes.kubelet.pods.worker import PodWorker
from volcano.nodes.kubelet.volumes.store import VOLUMES, VolumeManager, remove_tree
from volcano.nodes.shim.specs import ContainerState, Failure

log = Log("kubelet")

MAX_PENDING_EXITS = 1000
WATCH = Watch(POD, fields="spec.nodeName!=")


class PodTask(enum.Enum):
    """Work of a pod that the queue schedules."""

    SYNC = "sync"
    REFRESH = "refresh volumes"
    MEASURE = "measure disk usage"


QueueKey = tuple[PodTask, str]  # a task and the pod's uid


@dataclass(frozen=True, slots=True)
class PodLocation:
    """Where a pod's containers are, for logs and streams: the latest attempts, and the names of running containers."""

    uid: str
    options: KubeletOptions
    attempts: Mapping[str, int]
    running: frozenset[str]

    def log_path(self, container: str, *, previous: bool = False) -> Path | None:
        """The log of a container's latest attempt, or of the one before; None if there is none."""
        attempt = self.attempts.get(container, -1) - previous
        return self.options.log_path(self.uid, container, attempt) if attempt >= 0 else None


class Kubelet:
    """Kubelet of the nodes of this host, on one runtime. Call `run`, then `close`."""

    def __init__(
        self,
        options: KubeletOptions,
        runtime: Runtime,
        client: Client,
        clock: Clock,
        *,
        informers: SharedInformerFactory | None = None,
        on_ready: Callable[[], None] | None = None,
        on_open: Callable[[], Awaitable[None]] | None = None,
        on_address: Callable[[str, str], None] | None = None,
        on_sandbox: Callable[[Manifest, str], Awaitable[None]] | None = None,
        volumes: VolumeManager | None = None,
        machine: MachineInfo | None = None,
        gpu_reader: GpuReader | None = None,
        cpus: Mapping[int, Cpu] | None = None,
        find_image: FindImage = no_image,
    ) -> None:
        """`on_open` is called between opening the runtime and the first pod; `machine`, with `gpu_reader`, and the
        location of `cpus` are discovered when None.

        `on_address` is called with a pod's uid and address as soon as it has one, before the API server
        has it; `on_sandbox` is awaited before the first container of a pod starts, with its address.
        """
        self._options = options
        self._runtime = runtime
        self._client = client
        self._clock = clock
        self._informers = informers or SharedInformerFactory(client, clock)
        self._on_ready = on_ready
        self._on_open = on_open
        self._on_address = on_address or (lambda uid, address: None)
        self._on_sandbox = on_sandbox or _nothing
        self._volumes = volumes or VolumeManager(client, clock, private=(options.directory, *options.private))
        self._machine = machine
        self._gpu_reader = gpu_reader
        self.gpus: GpuMonitor | None = None
        self._located_cpus = cpus
        self._find_image = find_image
        self._events = EventWriter(client, clock)
        self._ports = HostPorts(runtime, clock, self._warn_host_port)
        self._driver_libraries = ""
        self._nodes: dict[str, LocalNode] = {}
        self._context: PodWorkerContext
        self._cpus: LocalCpus
        self._workers: dict[str, PodWorker] = {}
        self._existing = ExistingPods()
        self._listed: dict[str, Manifest] | None = {}  # pods by uid; None once the first list is complete
        self._pending_exits: deque[ContainerState] = deque(maxlen=MAX_PENDING_EXITS)  # of pods not seen yet
        self._queue: WorkQueue[QueueKey] = WorkQueue()
        self._waker = Waker(clock)
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Runs until cancelled. Pods that the runtime already runs are adopted."""
        options = self._options
        (options.directory / PODS).mkdir(parents=True, exist_ok=True)
        machine = self._machine
        if machine is None:
            machine = await asyncio.to_thread(self._discover)
        self._nodes = local_nodes(machine, options)
        located = self._located_cpus
        self._cpus = LocalCpus(options, await asyncio.to_thread(host_cpus) if located is None else located)
        self._runtime.on_change(self._on_container_event)
        self._existing = await self._runtime.open()
        if self._on_open is not None:
            await self._on_open()
        self._context = self._worker_context(machine)
        node_status = self._node_status_updater(machine)
        self._device_reports = DeviceReporter(
            self._client,
            self._clock,
            self._events,
            self._nodes,
            self._context.devices,
            node_status,
            self._active_pods,
        )
        self.gpus = GpuMonitor(
            self._gpu_reader, machine.cards, self._clock, self._device_reports.set_problems
        )
        await node_status.register()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._stop)
            handler = stack.enter_context(self._informers.add_event_handler(WATCH, self._on_pod_event))
            async with asyncio.TaskGroup() as group:
                group.create_task(handler.wait_stopped())
                group.create_task(node_status.run(), name="heartbeats")
                group.create_task(self.gpus.run(), name="gpus")
                group.create_task(self._cpus.run(self._client, self._clock, node_status.registered))
                await handler.synced.wait()
                self._add_listed_pods()
                self._remove_orphans()
                if self._on_ready is not None:
                    self._on_ready()
                await self._process_queue()

    async def close(self, *, keep: bool) -> None:
        """To be called after `run`: disconnects from the runtime, or removes every pod but its logs."""
        await self._runtime.close(keep=keep)
        if not keep:
            await asyncio.to_thread(keep_only_logs, self._options.directory / PODS)

    def locate_pod(self, pod: Manifest) -> PodLocation | None:
        """The location of a pod's containers; None for a pod of another node."""
        worker = self._workers.get(uid_of(pod))
        if worker is None:
            return None
        runs = worker.pod_state.runs
        return PodLocation(
            worker.uid,
            self._options,
            {name: run.attempt for name, run in runs.items() if run.attempt >= 0},
            frozenset(name for name, run in runs.items() if run.running),
        )

    def pod_at(self, address: str) -> str | None:
        """The uid of a running pod with an address; None if there is none on this host."""
        for uid, worker in self._workers.items():
            if worker.pod_state.address == address and worker.pod_state.phase not in TERMINAL_PHASES:
                return uid
        return None

    @property
    def pods(self) -> list[Manifest]:
        """The pods of this host."""
        return [worker.pod for worker in self._workers.values()]

    def gpu_nodes(self) -> dict[str, str]:
        """The node of each card, by UUID."""
        return {card.uuid: name for name, node in self._nodes.items() for card in node.cards}

    def _active_pods(self) -> list[Manifest]:
        """The pods of this host that have not ended."""
        return [
            worker.pod for worker in self._workers.values() if worker.pod_state.phase not in TERMINAL_PHASES
        ]

    def _discover(self) -> MachineInfo:
        """Reads the properties of this host; called in a thread, since drivers may be slow."""
        if not self._options.fake_gpus:
            self._gpu_reader = open_nvml()
            if driver.is_present():
                driver.create_device_files()
                self._driver_libraries = driver.library_directory()
        return read_machine_info(self._options.directory, self._options.fake_gpus, self._gpu_reader)

    def _worker_context(self, machine: MachineInfo) -> PodWorkerContext:
        features = self._runtime.features
        own_user = 0 if features.own_network else os.getuid()
        return PodWorkerContext(
            options=self._options,
            runtime=self._runtime,
            client=self._client,
            clock=self._clock,
            volumes=self._volumes,
            events=self._events,
            devices=DeviceManager(self._nodes),
            cpus=self._cpus,
            nodes=self._nodes,
            host_address=self._options.host_address or machine.address,
            sync_at=self._sync_at,
            refresh_in=self._refresh_in,
            measure_at=self._measure_at,
            on_sandbox=self._on_sandbox,
            on_address=self._on_pod_address,
            host=HostFiles(_text("/etc/hosts"), _text("/etc/resolv.conf")),
            program_path=os.environ.get("PATH", ""),
            default_user=None if features.pulls_images else own_user,
            hides_gpus=driver.is_present(),
            driver_libraries="" if features.pulls_images else self._driver_libraries,
            find_image=self._find_image,
        )

    def _node_status_updater(self, machine: MachineInfo) -> NodeStatusUpdater:
        runtime = {"name": self._runtime.name, "version": __version__}
        address = self._options.host_address or machine.address
        directory = self._options.directory
        return NodeStatusUpdater(
            self._client,
            self._clock,
            self._nodes,
            machine,
            runtime,
            address,
            lambda: node_pressures(directory),
            SlicePublisher(self._client, self._nodes),
        )

    # Events.

    def _on_pod_event(self, event: Event) -> None:
        pod: Manifest = event.object
        uid = uid_of(pod)
        try:
            if self._listed is not None:
                _update(self._listed, event)
            elif event.type is EventType.DELETED:
                self._remove_pod(uid)
            elif uid in self._workers:
                self._workers[uid].update_pod(pod)
            elif event.type is not EventType.BOOKMARK:
                self._add_pod(pod)
        except Exception as error:  # a bug in one pod must not stop the others
            log.error("pod event not handled", pod=str(key_of(pod)), error=error)

    def _add_listed_pods(self) -> None:
        """Adds the pods of the first list: those that this node accepted before it was restarted come first, so that
        what they hold is not given to the others."""
        listed, self._listed = self._listed or {}, None
        for pod in sorted(listed.values(), key=lambda pod: not was_accepted(pod)):
            self._on_pod_event(Event(EventType.ADDED, POD, pod))

    def _on_container_event(self, state: ContainerState) -> None:
        worker = self._workers.get(state.pod)
        if state.running:
            return
        if worker is not None:
            worker.on_container_exit(state)
        else:
            self._pending_exits.append(state)

    def _add_pod(self, pod: Manifest) -> None:
        """Adds a worker for a pod; one that already runs on this host is adopted."""
        uid, now = uid_of(pod), self._clock.now().wall
        node = pod["spec"].get("nodeName")
        if node not in self._nodes:
            return
        sandbox = next((sandbox for sandbox in self._existing.sandboxes if sandbox.uid == uid), None)
        states = [state for state in (*self._existing.containers, *self._pending_exits) if state.pod == uid]
        checkpoint = load(self._options.pod_directory(uid))
        containers = containers_of(pod)
        pod_state = restore_pod_state(pod, containers, sandbox, states, checkpoint, now)
        if is_lost(pod, containers, pod_state, states):
            report_lost(pod, self._events)
            self._spawn(delete_lost(pod, self._client, self._clock), f"deletion of {key_of(pod)}")
            return
        if pod_state.prepared and pod["spec"].get("hostNetwork"):
            pod_state.address = self._context.host_address
        pod_state.host_address = self._context.host_address
        self._restore_resources(node, uid, pod_state, checkpoint)
        if not was_accepted(pod) and sandbox is None:
            self._admit(pod, pod_state)
        if sharing.is_waiting(pod):
            failed = pod_state.failure is not None
            self._spawn(
                self._device_reports.answer_assignment(pod, failed=failed), f"shares of {key_of(pod)}"
            )
        worker = self._workers[uid] = PodWorker(self._context, pod, pod_state)
        for state in states:
            if not state.running:
                worker.on_container_exit(state)
        if pod_state.prepared and pod_state.phase not in TERMINAL_PHASES:
            self._on_pod_address(uid, pod_state.address)
            self._refresh_in(uid, 1.0)  # their sources may have changed while no kubelet ran
            worker.schedule_measure()
        worker.sync()

    def _restore_resources(self, node: str, uid: str, pod_state: PodState, checkpoint: PodCheckpoint) -> None:
        """Restores what a pod holds: nothing once it has ended, even if the last kubelet did not get to release it."""
        if pod_state.released and (self._options.pod_directory(uid) / VOLUMES).exists():
            pod_state.released = False
        if not pod_state.released:
            self._context.devices.restore(node, uid, checkpoint.devices)
        else:
            self._cpus.release(node, uid)

    def _on_pod_address(self, uid: str, address: str) -> None:
        self._on_address(uid, address)
        if address and uid in self._workers:
            self._ports.open(self._workers[uid].pod, address)
        else:
            self._ports.close_pod(uid)

    def _warn_host_port(self, pod: Manifest, text: str) -> None:
        self._events.warn(pod["spec"]["nodeName"], pod_reference(pod), "FailedHostPort", text)

    def _admit(self, pod: Manifest, pod_state: PodState) -> None:
        """Rejects a pod that does not fit, for example one that was bound without the scheduler."""
        node = pod["spec"]["nodeName"]
        others = [
            totals(worker.pod["spec"], "requests")
            for worker in self._workers.values()
            if worker.node == node and worker.pod_state.phase not in TERMINAL_PHASES
        ]
        failure = check_fit(pod, others, self._nodes[node].allocatable())
        if failure is None:
            failure = assignment_failure(pod, self._nodes[node])
        if failure is None and (rejection := self._cpus.admit(pod)) is not None:
            failure = PodFailure(*rejection)
        if failure is not None:
            pod_state.failure = PodFailure(failure.reason, f"Pod was rejected: {failure.message}")
            pod_state.released = True
            self._events.warn(node, pod_reference(pod), failure.reason, failure.message)

    def _remove_pod(self, uid: str) -> None:
        worker = self._workers.pop(uid, None)
        self._ports.close_pod(uid)
        for task in PodTask:
            self._queue.discard((task, uid))
        if worker is not None:
            self._spawn(worker.remove(), f"end of {key_of(worker.pod)}")

    def _remove_orphans(self) -> None:
        """Removes sandboxes and directories of pods that no longer exist."""
        for sandbox in self._existing.sandboxes:
            if sandbox.uid not in self._workers:
                self._spawn(self._remove_orphan(sandbox.uid), f"end of {sandbox.namespace}/{sandbox.name}")
        known = self._workers.keys() | {sandbox.uid for sandbox in self._existing.sandboxes}
        for directory in (self._options.directory / PODS).iterdir():
            if directory.name not in known:
                self._spawn(asyncio.to_thread(remove_tree, directory), f"removal of {directory.name}")
        self._cpus.release_others(known)
        self._existing = ExistingPods()
        self._pending_exits.clear()

    async def _remove_orphan(self, uid: str) -> None:
        await self._runtime.remove_sandbox(uid)
        await asyncio.to_thread(remove_tree, self._options.pod_directory(uid))

    # Due work.

    def _sync_at(self, uid: str, wall: float) -> None:
        now = self._clock.now()
        self._schedule((PodTask.SYNC, uid), wall - now.wall + now.monotonic)

    def _refresh_in(self, uid: str, seconds: float) -> None:
        """Schedules a refresh in 1 to 1.25 times the seconds, so that those of pods created together are spread."""
        spread = zlib.crc32(uid.encode()) % 1024 / 4096
        self._schedule((PodTask.REFRESH, uid), self._clock.now().monotonic + seconds * (1 + spread))

    def _measure_at(self, uid: str, delay: float) -> None:
        self._schedule((PodTask.MEASURE, uid), self._clock.now().monotonic + delay)

    def _schedule(self, key: QueueKey, due: float) -> None:
        self._queue.add_at(key, due)
        if not self._waker.wakes_by(self._queue.next_due()):
            self._waker.wake()

    async def _process_queue(self) -> None:
        try:
            while True:
                self._waker.clear()
                for key in self._queue.get(self._clock.now().monotonic):
                    self._process(*key)
                    self._queue.done(key)
                await self._waker.wait(self._queue.next_due())
        finally:
            self._waker.close()

    def _process(self, task: PodTask, uid: str) -> None:
        worker = self._workers.get(uid)
        if worker is None:
            return
        match task:
            case PodTask.SYNC:
                try:
                    worker.sync()
                except Exception as error:  # a bug in one pod must not stop the others
                    log.error("pod sync failed", pod=str(key_of(worker.pod)), error=error)
            case PodTask.REFRESH:
                self._spawn(worker.refresh(), f"refresh volumes of {key_of(worker.pod)}")
            case PodTask.MEASURE:
                self._spawn(worker.measure(), f"measure disk usage of {key_of(worker.pod)}")

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(self._guard(work, name), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guard(self, work: Coroutine[Any, Any, None], name: str) -> None:
        try:
            await work
        except (Failure, OSError) as error:
            log.warning("pod task failed", task=name, reason=str(error))
        except Exception as error:  # a bug in one task must not stop the kubelet
            log.error("pod task failed", task=name, error=error)

    async def _stop(self) -> None:
        """Cancels all tasks; the pods keep running."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(
            *tasks, *(worker.close() for worker in self._workers.values()), return_exceptions=True
        )
        self._workers.clear()
        await self._ports.close()
        await self._events.close()


def _update(pods: dict[str, Manifest], event: Event) -> None:
    """Applies an event to pods by uid."""
    if event.type is EventType.DELETED:
        pods.pop(uid_of(event.object), None)
    elif event.type is not EventType.BOOKMARK:
        pods[uid_of(event.object)] = event.object


async def _nothing(pod: Manifest, address: str) -> None:
    return


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
