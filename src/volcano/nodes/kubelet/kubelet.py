"""The node agent: a kubelet for the nodes of this host. It watches their pods and sets a worker to each.

Read `NodeAgent.run` first. Deciding is in `life`, saying in `status`, doing in `worker`.
"""

import asyncio
import os
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from volcano import __version__
from volcano.clock import Clock
from volcano.kube.client import Client, Event, EventType
from volcano.kube.controller import Watch
from volcano.kube.informers import SharedInformerFactory
from volcano.kube.kinds import POD
from volcano.kube.manifest import Manifest, key_of, uid_of
from volcano.log import Log
from volcano.nodes.agenda import Agenda
from volcano.nodes.cri import Found, Runtime
from volcano.nodes.kubelet.container_state import containers_of
from volcano.nodes.kubelet.devices import Devices
from volcano.nodes.kubelet.events import Events, about_pod
from volcano.nodes.kubelet.hostports import HostPorts
from volcano.nodes.kubelet.machine import Machine, measure, pressures
from volcano.nodes.kubelet.node import LocalNode, local_nodes
from volcano.nodes.kubelet.node_status import Heart
from volcano.nodes.kubelet.pods.adoption import adopted
from volcano.nodes.kubelet.pods.checkpoint import load
from volcano.nodes.kubelet.pods.context import Surroundings
from volcano.nodes.kubelet.pods.lifecycle import TERMINAL, Record, Verdict
from volcano.nodes.kubelet.pods.pod_resources import misfit, totals
from volcano.nodes.kubelet.pods.sandboxes import HostNames
from volcano.nodes.kubelet.pods.worker import PodWorker
from volcano.nodes.kubelet.settings import PODS, AgentSettings
from volcano.nodes.kubelet.volumes.store import REFRESH_SECONDS, Volumes, remove_tree
from volcano.nodes.shim.specs import ContainerState, Failure

log = Log("agent")

MOST_UNHEARD = 1000
WATCH = Watch(POD, fields="spec.nodeName!=")
# What is done for a pod from time to time, beside looking after it.
CHORES = {"refresh": PodWorker.refresh, "measure": PodWorker.measure}


@dataclass(frozen=True, slots=True)
class Located:
    """Where a pod's containers are, for logs and streams. `attempts` are their latest starts, `running` those alive."""

    uid: str
    directory: Path
    runtime: Runtime
    settings: AgentSettings
    attempts: Mapping[str, int]
    running: frozenset[str]

    def log_path(self, container: str, *, previous: bool = False) -> Path | None:
        """The log of a container's latest start, or of the one before; None when there is none."""
        attempt = self.attempts.get(container, -1) - previous
        return self.settings.log_path(self.uid, container, attempt) if attempt >= 0 else None


class NodeAgent:
    """Nodes of this host on one runtime. `run` it; `close` it afterwards."""

    name = "node-agent"

    def __init__(
        self,
        settings: AgentSettings,
        runtime: Runtime,
        client: Client,
        clock: Clock,
        *,
        informers: SharedInformerFactory | None = None,
        on_ready: Callable[[], None] | None = None,
        on_open: Callable[[], Awaitable[None]] | None = None,
        on_address: Callable[[str, str], None] | None = None,
        volumes: Volumes | None = None,
        machine: Machine | None = None,
    ) -> None:
        """`on_open` comes between the runtime and the first pod; `machine` is measured when none is given.

        `on_address` is told a pod's uid and its address as soon as it has one, long before the API server is.
        """
        self._settings = settings
        self._runtime = runtime
        self._client = client
        self._clock = clock
        self._informers = informers or SharedInformerFactory(client, clock)
        self._on_ready = on_ready
        self._on_open = on_open
        self._on_address = on_address or (lambda uid, address: None)
        self._volumes = volumes or Volumes(client, clock)
        self._machine = machine
        self._events = Events(client, clock)
        self._ports = HostPorts(runtime, clock, self._warn_of_port)
        self._nodes: dict[str, LocalNode] = {}
        self._around: Surroundings
        self._workers: dict[str, PodWorker] = {}
        self._found = Found()
        self._unheard: deque[ContainerState] = deque(maxlen=MOST_UNHEARD)  # ends of pods not seen yet
        self._agenda = Agenda()
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Runs until cancelled. Pods that the runtime still has are taken over as they are."""
        settings = self._settings
        (settings.directory / PODS).mkdir(parents=True, exist_ok=True)
        machine = self._machine
        if machine is None:
            machine = await asyncio.to_thread(measure, settings.directory, settings.fake_gpus)
        self._nodes = local_nodes(machine, settings)
        self._runtime.on_change(self._hear)
        self._found = await self._runtime.open()
        if self._on_open is not None:
            await self._on_open()
        self._around = self._surroundings(machine)
        heart = self._heart(machine)
        await heart.register()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._let_go)
            mirror = stack.enter_context(self._informers.add_event_handler(WATCH, self._handle))
            async with asyncio.TaskGroup() as group:
                group.create_task(self._informers.wait_stopped(WATCH))
                group.create_task(heart.beat(), name="heartbeats")
                await mirror.synced.wait()
                self._sweep()
                if self._on_ready is not None:
                    self._on_ready()
                await self._drive()

    async def close(self, *, keep: bool) -> None:
        """After `run`: lets go of the runtime, or ends every pod and leaves nothing behind."""
        await self._runtime.close(keep=keep)
        if not keep:
            await asyncio.to_thread(remove_tree, self._settings.directory / PODS)

    def find(self, pod: Manifest) -> Located | None:
        """Where the containers of a pod are; None when it is not one of ours."""
        worker = self._workers.get(uid_of(pod))
        if worker is None:
            return None
        runs = worker.record.runs
        return Located(
            worker.uid,
            self._settings.pod_directory(worker.uid),
            self._runtime,
            self._settings,
            {name: run.attempt for name, run in runs.items() if run.attempt >= 0},
            frozenset(name for name, run in runs.items() if run.running),
        )

    @property
    def pods(self) -> list[Manifest]:
        """The pods that are here."""
        return [worker.pod for worker in self._workers.values()]

    def address_of(self, uid: str) -> str:
        """The address of a pod that is here and has one."""
        worker = self._workers.get(uid)
        return worker.record.address if worker else ""

    def _surroundings(self, machine: Machine) -> Surroundings:
        features = self._runtime.features
        own_user = 0 if features.own_network else os.getuid()
        return Surroundings(
            settings=self._settings,
            runtime=self._runtime,
            client=self._client,
            clock=self._clock,
            volumes=self._volumes,
            events=self._events,
            devices=Devices({name: node.gpus for name, node in self._nodes.items()}),
            nodes=self._nodes,
            host_address=self._settings.host_address or machine.address,
            look_at=self._look_at,
            refresh_at=self._refresh_at,
            measure_at=self._measure_at,
            tell_address=self._tell_address,
            host=HostNames(_text("/etc/hosts"), _text("/etc/resolv.conf")),
            program_path=os.environ.get("PATH", ""),
            default_user=None if features.pulls_images else own_user,
        )

    def _heart(self, machine: Machine) -> Heart:
        about = {"name": self._runtime.name, "version": __version__}
        address = self._settings.host_address or machine.address
        directory = self._settings.directory
        return Heart(
            self._client, self._clock, self._nodes, machine, about, address, lambda: pressures(directory)
        )

    # What happens.

    def _handle(self, event: Event) -> None:
        pod: Manifest = event.object
        uid = uid_of(pod)
        try:
            if event.type is EventType.DELETED:
                self._lose(uid)
            elif uid in self._workers:
                self._workers[uid].see(pod)
            elif pod["spec"].get("nodeName") in self._nodes and event.type is not EventType.BOOKMARK:
                self._take(pod)
        except Exception as error:  # one pod that cannot be taken must not keep us from the others
            log.error("pod not taken", pod=str(key_of(pod)), error=error)

    def _hear(self, state: ContainerState) -> None:
        worker = self._workers.get(state.pod)
        if state.running:
            return
        if worker is not None:
            worker.hear(state)
        else:
            self._unheard.append(state)

    def _take(self, pod: Manifest) -> None:
        """A pod that is new to us, though perhaps not to this host."""
        uid, now = uid_of(pod), self._clock.now().wall
        node = pod["spec"]["nodeName"]
        sandbox = next((sandbox for sandbox in self._found.sandboxes if sandbox.uid == uid), None)
        states = [state for state in (*self._found.containers, *self._unheard) if state.pod == uid]
        remembered = load(self._settings.pod_directory(uid))
        record = adopted(pod, containers_of(pod), sandbox, states, remembered, now)
        if record.prepared and pod["spec"].get("hostNetwork"):
            record.address = self._around.host_address
        record.host_address = self._around.host_address
        self._around.devices.remember(node, uid, remembered.devices)
        if not (pod.get("status") or {}).get("startTime") and sandbox is None:
            self._admit(pod, record)
        worker = self._workers[uid] = PodWorker(self._around, pod, record)
        for state in states:
            if not state.running:
                worker.hear(state)
        if record.prepared and record.phase not in TERMINAL:
            self._tell_address(uid, record.address)
            self._refresh_at(uid, at_once=True)  # who knows how long nobody has looked after its volumes
            worker.expect_measuring()
        worker.look()

    def _tell_address(self, uid: str, address: str) -> None:
        self._on_address(uid, address)
        if address and uid in self._workers:
            self._ports.open(self._workers[uid].pod, address)
        else:
            self._ports.shut(uid)

    def _warn_of_port(self, pod: Manifest, text: str) -> None:
        self._events.warn(pod["spec"]["nodeName"], about_pod(pod), "FailedHostPort", text)

    def _admit(self, pod: Manifest, record: Record) -> None:
        """Refuses a pod for which there is no room: somebody has bound it past the scheduler."""
        node = pod["spec"]["nodeName"]
        others = [
            totals(worker.pod["spec"], "requests")
            for worker in self._workers.values()
            if worker.node == node and worker.record.phase not in TERMINAL
        ]
        verdict = misfit(pod, others, self._nodes[node].allocatable())
        if verdict is not None:
            record.verdict = Verdict(verdict.reason, f"Pod was rejected: {verdict.message}")
            record.released = True
            self._events.warn(node, about_pod(pod), verdict.reason, verdict.message)

    def _lose(self, uid: str) -> None:
        worker = self._workers.pop(uid, None)
        self._ports.shut(uid)
        self._agenda.drop(uid)
        for chore in CHORES:
            self._agenda.drop((chore, uid))
        if worker is not None:
            self._spawn(worker.vanish(), f"end of {key_of(worker.pod)}")

    def _sweep(self) -> None:
        """Ends what the runtime still has of pods that are no more, and removes their directories."""
        for sandbox in self._found.sandboxes:
            if sandbox.uid not in self._workers:
                self._spawn(self._clear(sandbox.uid), f"end of {sandbox.namespace}/{sandbox.name}")
        known = self._workers.keys() | {sandbox.uid for sandbox in self._found.sandboxes}
        for directory in (self._settings.directory / PODS).iterdir():
            if directory.name not in known:
                self._spawn(asyncio.to_thread(remove_tree, directory), f"removal of {directory.name}")
        self._found = Found()
        self._unheard.clear()

    async def _clear(self, uid: str) -> None:
        await self._runtime.remove_sandbox(uid)
        await asyncio.to_thread(remove_tree, self._settings.pod_directory(uid))

    # The agenda.

    def _look_at(self, uid: str, wall: float) -> None:
        now = self._clock.now()
        self._put_down(wall - now.wall + now.monotonic, uid)

    def _refresh_at(self, uid: str, *, at_once: bool = False) -> None:
        spread = zlib.crc32(uid.encode()) % 1024 / 4096  # pods that came together are not refreshed together
        pause = spread if at_once else REFRESH_SECONDS * (1 + spread)
        self._put_down(self._clock.now().monotonic + pause, ("refresh", uid))

    def _measure_at(self, uid: str, pause: float) -> None:
        self._put_down(self._clock.now().monotonic + pause, ("measure", uid))

    def _put_down(self, moment: float, item: Hashable) -> None:
        """Puts an item on the agenda; whoever waits for the earliest one hears of it when that changes."""
        before = self._agenda.next()
        self._agenda.add(moment, item)
        if self._agenda.next() != before:
            self._wake.set()

    async def _drive(self) -> None:
        while True:
            self._wake.clear()
            for item in self._agenda.due(self._clock.now().monotonic):
                self._attend(item)
            due = self._agenda.next()
            if due is None:
                await self._wake.wait()
            elif due > self._clock.now().monotonic:
                await self._wait(due - self._clock.now().monotonic)
            else:
                await asyncio.sleep(0)

    def _attend(self, item: object) -> None:
        uid = item[1] if isinstance(item, tuple) else item
        worker = self._workers.get(str(uid))
        if worker is None:
            return
        if isinstance(item, tuple):
            chore = str(item[0])
            self._spawn(CHORES[chore](worker), f"{chore} of {key_of(worker.pod)}")
            return
        try:
            worker.look()
        except Exception as error:
            log.error("pod not looked after", pod=str(key_of(worker.pod)), error=error)

    async def _wait(self, seconds: float) -> None:
        waiter = asyncio.create_task(self._wake.wait())
        sleeper = asyncio.create_task(self._clock.sleep(seconds))
        try:
            await asyncio.wait((waiter, sleeper), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiter.cancel()
            sleeper.cancel()

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(self._isolated(work, name), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _isolated(self, work: Coroutine[Any, Any, None], name: str) -> None:
        try:
            await work
        except (Failure, OSError) as error:
            log.warning("not done", work=name, reason=str(error))
        except Exception as error:
            log.error("not done", work=name, error=error)

    async def _let_go(self) -> None:
        """Ends our own tasks; pods run on."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(
            *tasks, *(worker.close() for worker in self._workers.values()), return_exceptions=True
        )
        self._workers.clear()
        await self._ports.close()
        await self._events.close()


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
