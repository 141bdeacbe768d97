"""Simulated nodes: a controller that registers Nodes, keeps their leases fresh and lives the life of their pods."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from volcano.clock import Instant
from volcano.kube.client import Event, EventType, Options
from volcano.kube.controller import Watch, WorkItem, WorkResult
from volcano.kube.duration import parse as parse_duration
from volcano.kube.errors import NotFound
from volcano.kube.kinds import NODE, POD
from volcano.kube.manifest import (
    Key,
    Manifest,
    annotations_of,
    condition_of,
    is_deleting,
    key_of,
    uid_of,
    version_of,
)
from volcano.kube.operations import Create, Delete, Get, Operation, Patch, Update
from volcano.nodes.agenda import Agenda
from volcano.nodes.heartbeats import HEARTBEAT, STATUS_HEARTBEAT, renewal
from volcano.nodes.pools import SimulatedNode, node_conditions, node_manifest
from volcano.nodes.simulated import pod_lifecycle
from volcano.nodes.simulated.room import Room, rejection

STOP_DURATION = "volcano.sh/sim-stop-duration"
RETRY = 1.0
# Pods and nodes looked after in one step; others in the process get their turn before the rest.
MOST_AT_ONCE = 32


@dataclass(slots=True)
class _PodState:
    """One pod on one of our nodes."""

    manifest: Manifest
    node: SimulatedNode
    memory: pod_lifecycle.Memory
    stop_at: float = math.inf  # wall
    reported: Manifest | None = None
    rejected: Manifest | None = None  # the status of a pod that there was no room for


class SimulatedNodes:
    """All simulated nodes of a cluster in one controller: a thousand nodes cost what their changes cost."""

    name = "simulated-nodes"
    watches: Sequence[Watch] = (Watch(NODE), Watch(POD, fields="spec.nodeName!="))

    def __init__(
        self,
        nodes: Sequence[SimulatedNode],
        *,
        default_duration: float = math.inf,
        start_delay: float = 0.05,
        heartbeat: float = HEARTBEAT,
    ) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._default_duration = default_duration
        self._start_delay = start_delay
        self._heartbeat = heartbeat
        self._registered: dict[str, Manifest] = {}
        self._unregistered = dict.fromkeys(self._nodes)
        self._pods: dict[Key, _PodState] = {}
        self._addresses: dict[str, set[int]] = {name: set() for name in self._nodes}
        self._rooms = {name: Room(node.pool.resources) for name, node in self._nodes.items()}
        self._agenda = Agenda()
        self._ready: dict[object, None] = {}
        self._busy: dict[object, bool] = {}
        self._leases: dict[str, bool] = {}

    def on_event(self, event: Event) -> None:
        manifest: Manifest = event.object
        if event.kind == NODE:
            self._see_node(event.type, manifest)
        elif event.kind == POD:
            self._see_pod(event.type, manifest)

    def _see_node(self, event_type: EventType, manifest: Manifest) -> None:
        name = manifest["metadata"]["name"]
        if name not in self._nodes:
            return
        if event_type is EventType.DELETED:
            self._registered.pop(name, None)  # as a kubelet, it registers again only when restarted
            return
        self._unregistered.pop(name, None)
        if name not in self._registered:
            self._ready[("lease", name)] = None
            if (condition_of(manifest, "Ready") or {}).get("status") != "True":
                self._ready[("status", name)] = None  # it was given up for dead while nobody looked after it
        self._registered[name] = manifest
        self._rooms[name].resize((manifest.get("status") or {}).get("allocatable") or {})

    def _see_pod(self, event_type: EventType, manifest: Manifest) -> None:
        key, name = key_of(manifest), manifest["spec"].get("nodeName", "")
        known = self._pods.get(key)
        if known is not None and (
            uid_of(known.manifest) != uid_of(manifest) or event_type is EventType.DELETED
        ):
            if event_type is EventType.DELETED and uid_of(known.manifest) != uid_of(manifest):
                return
            self._release(key)
            known = None
        if event_type is EventType.DELETED or name not in self._nodes:
            return
        if known is not None:
            # At the same version it is the copy that others in the process have, too.
            if version_of(known.manifest) <= version_of(manifest):
                known.manifest = manifest
                if _is_over(manifest):
                    # The watch may say so before the answer to our own write does; whoever reads it binds others here.
                    self._rooms[name].release(key)
                if is_deleting(manifest):
                    self._ready[key] = None
            return
        node = self._nodes[name]
        self._pods[key] = _PodState(manifest, node, self._remember(manifest, node))
        self._ready[key] = None
        if (manifest.get("status") or {}).get("startTime") and not _is_over(manifest):
            self._rooms[name].keep(key, manifest)  # taken in before this process was started

    def _remember(self, pod: Manifest, node: SimulatedNode) -> pod_lifecycle.Memory:
        taken = self._addresses[node.name]
        status_address = (pod.get("status") or {}).get("podIP")
        host = next((n for n in range(2, 255) if n not in taken), 1)
        if status_address and status_address.rpartition(".")[0] == node.pod_address(0).rpartition(".")[0]:
            host = int(status_address.rpartition(".")[2])
        taken.add(host)
        address = node.address if pod["spec"].get("hostNetwork") else node.pod_address(host)
        return pod_lifecycle.Memory(
            address=address,
            host_address=node.address,
            start_delay=self._start_delay,
            default_duration=self._default_duration,
        )

    def _release(self, key: Key) -> None:
        state = self._pods.pop(key)
        self._rooms[state.node.name].release(key)
        self._addresses[state.node.name].discard(int(state.memory.address.rpartition(".")[2]))

    def step(self, now: Instant) -> list[WorkItem]:
        works: list[WorkItem] = []
        for name in list(self._unregistered):
            if ("node", name) not in self._busy:
                self._submit(
                    works, ("node", name), [Create(NODE, node_manifest(self._nodes[name], now.timestamp()))]
                )
        self._ready |= dict.fromkeys(self._agenda.due(now.monotonic))
        for item in list(islice(self._ready, MOST_AT_ONCE)):
            del self._ready[item]
            if item in self._busy:
                self._busy[item] = True
            elif isinstance(item, Key):
                self._advance(works, item, now)
            elif isinstance(item, tuple):
                self._beat(works, item, now)
        return works

    def _submit(self, works: list[WorkItem], key: object, operations: list[Operation]) -> None:
        self._busy[key] = False
        works.append(WorkItem(key, tuple(operations)))

    def _advance(self, works: list[WorkItem], key: Key, now: Instant) -> None:
        state = self._pods.get(key)
        if state is None:
            return
        if not state.memory.accepted:
            self._accept(key, state, now)
        if is_deleting(state.manifest):
            self._finish(works, key, state, now)
            return
        if _is_over(state.manifest):
            return
        due = pod_lifecycle.advance(state.manifest, state.memory, now)
        status = state.rejected or pod_lifecycle.status_of(state.manifest, state.memory, now)
        if _essence(status) != _essence(state.reported or state.manifest.get("status") or {}):
            state.reported = status
            self._submit(
                works, key, [Patch(POD, key, {"status": status, "metadata": _only(state)}, "status")]
            )
        self._agenda.add(due - now.wall + now.monotonic, key)

    def _accept(self, key: Key, state: _PodState, now: Instant) -> None:
        """Takes a pod in, unless there is no room for it."""
        pod_lifecycle.accept(state.manifest, state.memory, now)
        if (state.manifest.get("status") or {}).get("startTime") or state.memory.finished:
            return
        verdict = self._rooms[state.node.name].admit(key, state.manifest)
        if verdict is not None:
            state.memory.finished = True
            state.rejected = rejection(verdict)

    def _finish(self, works: list[WorkItem], key: Key, state: _PodState, now: Instant) -> None:
        """Stops a pod whose deletion was asked for: it ends by itself within its grace, or is killed."""
        metadata = state.manifest["metadata"]
        if state.stop_at == math.inf:
            grace = metadata.get("deletionGracePeriodSeconds") or 0
            needed = _seconds(annotations_of(state.manifest).get(STOP_DURATION), default=0.0)
            state.stop_at = now.wall + min(needed, grace)
        if now.wall < state.stop_at:
            self._agenda.add(state.stop_at - now.wall + now.monotonic, key)
            return
        self._submit(works, key, [Delete(POD, key, Options(grace_seconds=0, uid=uid_of(state.manifest)))])

    def _beat(self, works: list[WorkItem], item: tuple[object, ...], now: Instant) -> None:
        """Renews a node's lease and, more rarely, its conditions."""
        what, name = str(item[0]), str(item[1])
        if name not in self._registered:
            return
        if what == "lease":
            self._submit(
                works, item, [renewal(self._registered[name], now, exists=bool(self._leases.get(name)))]
            )
        elif what == "status":
            ready = condition_of(self._registered[name], "Ready") or {}
            since = ready.get("lastTransitionTime") if ready.get("status") == "True" else None
            since = since or now.timestamp()
            patch = {"status": {"conditions": node_conditions(now.timestamp(), since)}}
            self._submit(works, item, [Patch(NODE, Key("", name), patch, "status")])

    def on_result(self, done: WorkResult, now: Instant) -> None:
        key = done.work.key
        touched = self._busy.pop(key, False)
        if isinstance(key, Key):
            self._settle_pod(key, done, now)
            if touched:
                self._ready[key] = None
        elif isinstance(key, tuple):
            self._settle_node(key, done, now)

    def _settle_pod(self, key: Key, done: WorkResult, now: Instant) -> None:
        state = self._pods.get(key)
        if state is None:
            return
        operation = done.work.operations[0]
        if isinstance(done.error, NotFound):
            if uid_of(state.manifest) == _uid_written(operation):
                self._release(key)  # gone while we were writing; the watch will say the same
        elif done.error is not None:
            state.reported = None
            self._agenda.add(now.monotonic + RETRY, key)
        elif isinstance(operation, Patch):
            result = done.results[0]
            if uid_of(result) == uid_of(state.manifest) and version_of(result) > version_of(state.manifest):
                state.manifest = result
                if _is_over(result):
                    self._rooms[state.node.name].release(key)
                if is_deleting(result):
                    self._ready[key] = None
            state.reported = None  # the manifest says it now

    def _settle_node(self, key: tuple[object, ...], done: WorkResult, now: Instant) -> None:
        what, name = str(key[0]), str(key[1])
        if what == "node":
            if done.error is None or done.error.code == 409:
                self._unregistered.pop(name, None)
                self._agenda.add(now.monotonic + STATUS_HEARTBEAT, ("status", name))
            return
        period = self._heartbeat if what == "lease" else STATUS_HEARTBEAT
        if what == "lease":
            if name not in self._leases:
                # Nodes that registered together renew their leases in turn, not in one burst.
                period *= (self._nodes[name].number + 1) / len(self._nodes)
            # Present after a refused creation, absent after a refused renewal: the other one next time.
            self._leases[name] = not isinstance(done.error, NotFound)
        self._agenda.add(now.monotonic + period, key)

    def next_due(self) -> float | None:
        if self._ready:
            return -math.inf
        if any(("node", name) not in self._busy for name in self._unregistered):
            return -math.inf
        return self._agenda.next()


def _essence(status: Manifest) -> object:
    """What of a pod's status is worth a write: everything but the times of conditions."""
    conditions = {c["type"]: c["status"] for c in status.get("conditions") or ()}
    parts = ("phase", "reason", "podIP", "hostIP", "containerStatuses", "initContainerStatuses")
    return conditions, [status.get(part) or None for part in parts]


def _is_over(pod: Manifest) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _only(state: _PodState) -> Manifest:
    """A precondition: the patch is for this very pod, not for a namesake created since."""
    return {"uid": uid_of(state.manifest)}


def _uid_written(operation: Operation) -> str:
    match operation:
        case Patch(patch=patch):
            uid: str = patch.get("metadata", {}).get("uid", "")
            return uid
        case Delete(options=options):
            return options.uid
        case Create() | Update() | Get():
            return ""


def _seconds(text: str | None, *, default: float) -> float:
    if text is None:
        return default
    try:
        return parse_duration(text)
    except ValueError:
        return default
