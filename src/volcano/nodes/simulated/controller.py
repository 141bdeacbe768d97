"""Controller of simulated nodes: registers them, renews their leases and updates the status of their pods."""

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass

from volcano.base.clock import Instant
from volcano.base.workqueue import Backoff, WorkQueue
from volcano.kube.api.duration import parse as parse_duration
from volcano.kube.api.errors import NotFound
from volcano.kube.api.kinds import NODE, NUMATOPOLOGY, POD, RESOURCE_CLAIM
from volcano.kube.api.manifest import (
    Key,
    Manifest,
    annotations_of,
    condition_of,
    has_ended,
    is_deleting,
    key_of,
    uid_of,
    version_of,
)
from volcano.kube.client.operations import Call, Create, Delete, Get, Operation, Patch, Update
from volcano.kube.client.protocol import Event, EventType, Options, Watch
from volcano.kube.controllers.controller import WorkItem, WorkResult
from volcano.kube.devices.dra.claims import claim_problem, pod_claim_references
from volcano.nodes.heartbeats import HEARTBEAT, STATUS_HEARTBEAT, renewal
from volcano.nodes.kubelet.gpus import sharing
from volcano.nodes.kubelet.pods.lifecycle import PodFailure
from volcano.nodes.pools import SimulatedNode, node_conditions, node_manifest
from volcano.nodes.simulated import pod_lifecycle
from volcano.nodes.simulated.admission import NodeAdmission, rejected_status
from volcano.nodes.simulated.cpus import SimulatedCpus

STOP_DURATION = "volcano.sh/sim-stop-duration"
# Seconds until the containers of a deleted pod have ended, in a cluster that clients use. `kubectl delete` gets the
# pod and then starts to watch it: if it found another pod of that name in between, it would wait for that one to end.
STOP_DELAY = 1.0
BACKOFF = Backoff(first=1.0, longest=30.0)
# Keys processed in one step; the event loop runs other tasks before the rest.
MAX_KEYS_PER_STEP = 32


class NodeTask(enum.Enum):
    """Work of a node that the queue schedules."""

    REGISTER = "register"
    LEASE = "lease"
    STATUS = "status"
    UNLOCK = "unlock"  # after shares of devices were handed out
    TOPOLOGY = "topology"


@dataclass(frozen=True, slots=True)
class NodeKey:
    """Queue key of a node's task; pods have their `Key`."""

    task: NodeTask
    name: str


@dataclass(slots=True)
class _TrackedPod:
    """A pod bound to one of the simulated nodes."""

    manifest: Manifest
    node: SimulatedNode
    simulated: pod_lifecycle.SimulatedPod
    stop_at: float = math.inf  # wall
    reported: Manifest | None = None  # status being written
    rejected: Manifest | None = None  # status of a pod that was not admitted


class SimulatedNodes:
    """All simulated nodes of a cluster in one controller; idle nodes cost only their lease renewals."""

    name = "simulated-nodes"
    watches: Sequence[Watch] = (Watch(NODE), Watch(POD, fields="spec.nodeName!="), Watch(RESOURCE_CLAIM))

    def __init__(
        self,
        nodes: Sequence[SimulatedNode],
        *,
        default_duration: float = math.inf,
        start_delay: float = 0.05,
        stop_delay: float = 0.0,
        heartbeat: float = HEARTBEAT,
    ) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._default_duration = default_duration
        self._start_delay = start_delay
        self._stop_delay = stop_delay
        self._heartbeat = heartbeat
        self._registered: dict[str, Manifest] = {}
        self._pods: dict[Key, _TrackedPod] = {}
        self._addresses: dict[str, set[int]] = {name: set() for name in self._nodes}
        self._cpus = SimulatedCpus(nodes)
        if self._cpus:
            self.watches = (*self.watches, Watch(NUMATOPOLOGY))
        self._admission = {name: NodeAdmission(node.pool.resources) for name, node in self._nodes.items()}
        self._claims: dict[Key, Manifest] = {}
        self._waiting: dict[Key, set[Key]] = {}  # pods that wait, by claim
        self._leases: dict[str, bool] = {}
        self._queue: WorkQueue[Key | NodeKey] = WorkQueue(BACKOFF)
        for name in self._nodes:
            self._queue.add(NodeKey(NodeTask.REGISTER, name))

    def on_event(self, event: Event) -> None:
        manifest: Manifest = event.object
        if event.kind == NODE:
            self._on_node_event(event.type, manifest)
        elif event.kind == POD:
            self._on_pod_event(event.type, manifest)
        elif event.kind == NUMATOPOLOGY:
            outdated = self._cpus.on_topology_event(event.type, manifest)
            if outdated in self._registered:
                self._queue.add(NodeKey(NodeTask.TOPOLOGY, outdated))
        elif event.kind == RESOURCE_CLAIM:
            self._on_claim_event(event.type, manifest)

    def _on_claim_event(self, event_type: EventType, manifest: Manifest) -> None:
        key = key_of(manifest)
        if event_type is EventType.DELETED:
            self._claims.pop(key, None)
        else:
            self._claims[key] = manifest
        for pod in self._waiting.pop(key, ()):
            self._queue.add(pod)

    def _on_node_event(self, event_type: EventType, manifest: Manifest) -> None:
        name = manifest["metadata"]["name"]
        if name not in self._nodes:
            return
        if event_type is EventType.DELETED:
            self._registered.pop(name, None)  # as a kubelet, it registers again only when restarted
            return
        self._queue.discard(NodeKey(NodeTask.REGISTER, name))
        if name not in self._registered:
            self._queue.add(NodeKey(NodeTask.LEASE, name))
            if name in self._cpus:
                self._queue.add(NodeKey(NodeTask.TOPOLOGY, name))
            if (condition_of(manifest, "Ready") or {}).get("status") != "True":
                # The node lifecycle controller marked it not ready while this controller did not run.
                self._queue.add(NodeKey(NodeTask.STATUS, name))
        self._registered[name] = manifest
        self._admission[name].set_allocatable((manifest.get("status") or {}).get("allocatable") or {})

    def _on_pod_event(self, event_type: EventType, manifest: Manifest) -> None:
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
            # At the same version it is the informer's copy, which is shared with other controllers.
            if version_of(known.manifest) <= version_of(manifest):
                known.manifest = manifest
                if has_ended(manifest):
                    # The watch may report the end before the response to our write: a scheduler that has seen it
                    # binds other pods to the freed capacity.
                    self._free(name, key, uid_of(manifest))
                if is_deleting(manifest) or not known.simulated.accepted:
                    self._queue.add(key)
            return
        node = self._nodes[name]
        self._pods[key] = _TrackedPod(manifest, node, self._simulated_pod(manifest, node))
        self._queue.add(key)
        if (manifest.get("status") or {}).get("startTime") and not has_ended(manifest):
            self._admission[name].add(key, manifest)  # admitted before this process was started

    def _simulated_pod(self, pod: Manifest, node: SimulatedNode) -> pod_lifecycle.SimulatedPod:
        taken = self._addresses[node.name]
        status_address = (pod.get("status") or {}).get("podIP")
        host = next((n for n in range(2, 255) if n not in taken), 1)
        if status_address and status_address.rpartition(".")[0] == node.pod_address(0).rpartition(".")[0]:
            host = int(status_address.rpartition(".")[2])
        taken.add(host)
        address = node.address if pod["spec"].get("hostNetwork") else node.pod_address(host)
        return pod_lifecycle.SimulatedPod(
            address=address,
            host_address=node.address,
            start_delay=self._start_delay,
            default_duration=self._default_duration,
        )

    def _release(self, key: Key) -> None:
        state = self._pods.pop(key)
        self._queue.discard(key)
        self._free(state.node.name, key, uid_of(state.manifest))
        self._addresses[state.node.name].discard(int(state.simulated.address.rpartition(".")[2]))

    def _free(self, node: str, key: Key, uid: str) -> None:
        """Frees the capacity of a pod that has ended or was deleted."""
        self._admission[node].remove(key)
        if self._cpus.release(node, uid):
            self._queue.add(NodeKey(NodeTask.TOPOLOGY, node))

    def step(self, now: Instant) -> list[WorkItem]:
        items: list[WorkItem] = []
        for key in self._queue.get(now.monotonic, limit=MAX_KEYS_PER_STEP):
            operation = self._sync_pod(key, now) if isinstance(key, Key) else self._sync_node(key, now)
            if operation is None:
                self._queue.done(key)
            else:
                items.append(WorkItem(key, (operation,)))  # done when its result is known
        return items

    def _sync_pod(self, key: Key, now: Instant) -> Operation | None:
        state = self._pods.get(key)
        if state is None:
            return None
        if not state.simulated.accepted:
            if self._waits_for_claims(key, state.manifest) and not is_deleting(state.manifest):
                return None
            self._accept(key, state, now)
        if sharing.is_waiting(state.manifest) and not is_deleting(state.manifest):
            return self._hand_out(key, state)
        if is_deleting(state.manifest):
            return self._terminate(key, state, now)
        if has_ended(state.manifest):
            return None
        due = pod_lifecycle.advance(state.manifest, state.simulated, now)
        self._queue.add_at(key, due - now.wall + now.monotonic)
        status = state.rejected or pod_lifecycle.status_of(state.manifest, state.simulated, now)
        if _comparable(status) == _comparable(state.reported or state.manifest.get("status") or {}):
            return None
        state.reported = status
        return Patch(POD, key, {"status": status, "metadata": _precondition(state)}, "status")

    def _waits_for_claims(self, key: Key, pod: Manifest) -> bool:
        """Whether a claim of a pod is not allocated and reserved for it; the pod is looked at again when it changes."""
        if not pod["spec"].get("resourceClaims") or (pod.get("status") or {}).get("startTime"):
            return False
        if not claim_problem(pod, lambda name: self._claims.get(Key(key.namespace, name))):
            return False
        for _, name in pod_claim_references(pod):
            if name is not None:
                self._waiting.setdefault(Key(key.namespace, name), set()).add(key)
        return True

    def _accept(self, key: Key, state: _TrackedPod, now: Instant) -> None:
        """Admits a pod if the node has enough free capacity, as a kubelet does; otherwise the pod fails."""
        pod_lifecycle.accept(state.manifest, state.simulated, now)
        node = state.node.name
        if state.simulated.finished:
            return
        if (state.manifest.get("status") or {}).get("startTime"):
            self._cpus.admit(
                node, state.manifest
            )  # it has its CPUs already, unless they were not published in time
            return
        failure = self._assignment_failure(state) or self._admission[node].admit(key, state.manifest)
        if failure is None and node in self._cpus:
            failure = self._cpus.admit(node, state.manifest)
            if failure is None:
                self._queue.add(NodeKey(NodeTask.TOPOLOGY, node))
            else:
                self._admission[node].remove(key)
        if failure is not None:
            state.simulated.finished = True
            state.rejected = rejected_status(failure)

    def _assignment_failure(self, state: _TrackedPod) -> PodFailure | None:
        cards = [card.uuid for card in state.node.pool.shared_devices.registered_cards(state.node.name)]
        problem = sharing.assignment_problem(state.manifest, state.node.name, cards) if cards else ""
        return PodFailure("UnexpectedAdmissionError", f"Allocate failed: {problem}") if problem else None

    def _hand_out(self, key: Key, state: _TrackedPod) -> Operation:
        """Answers the scheduler as a device plugin does, then unlocks the node."""
        if sharing.held_locks(self._registered.get(state.node.name) or {}):
            self._queue.add(NodeKey(NodeTask.UNLOCK, state.node.name))
        annotations = sharing.answer(state.manifest, failed=state.rejected is not None)
        return Patch(POD, key, {"metadata": {**_precondition(state), "annotations": annotations}})

    def _terminate(self, key: Key, state: _TrackedPod, now: Instant) -> Operation | None:
        """Deletes a terminating pod once its stop duration, at most its grace period, has passed."""
        metadata = state.manifest["metadata"]
        if state.stop_at == math.inf:
            grace = metadata.get("deletionGracePeriodSeconds") or 0
            needed = _seconds(annotations_of(state.manifest).get(STOP_DURATION), default=self._stop_delay)
            state.stop_at = now.wall + min(needed, grace)
        if now.wall < state.stop_at:
            self._queue.add_at(key, state.stop_at - now.wall + now.monotonic)
            return None
        return Delete(POD, key, Options(grace_seconds=0, uid=uid_of(state.manifest)))

    def _sync_node(self, key: NodeKey, now: Instant) -> Operation | None:
        """Registers a node, renews its lease or repeats its conditions."""
        if key.task is NodeTask.REGISTER:
            return Create(NODE, node_manifest(self._nodes[key.name], now.timestamp()))
        node = self._registered.get(key.name)
        if node is None:
            return None
        if key.task is NodeTask.LEASE:
            return renewal(node, now, exists=bool(self._leases.get(key.name)))
        if key.task is NodeTask.UNLOCK:
            locks = dict.fromkeys(sharing.held_locks(node))
            return Patch(NODE, Key("", key.name), {"metadata": {"annotations": locks}}) if locks else None
        if key.task is NodeTask.TOPOLOGY:
            return self._cpus.write(node, lambda: self._pods_on(key.name), now)
        ready = condition_of(node, "Ready") or {}
        since = ready.get("lastTransitionTime") if ready.get("status") == "True" else None
        since = since or now.timestamp()
        patch = {"status": {"conditions": node_conditions(now.timestamp(), since)}}
        return Patch(NODE, Key("", key.name), patch, "status")

    def _pods_on(self, node: str) -> set[str]:
        """Uids of the pods of a node that have not ended."""
        return {
            uid_of(state.manifest)
            for state in self._pods.values()
            if state.node.name == node and not has_ended(state.manifest)
        }

    def on_result(self, done: WorkResult, now: Instant) -> None:
        key = done.work.key
        if isinstance(key, Key):
            self._queue.done(key)
            self._on_pod_result(key, done, now)
        elif isinstance(key, NodeKey):
            self._queue.done(key)
            self._on_node_result(key, done, now)

    def _on_pod_result(self, key: Key, done: WorkResult, now: Instant) -> None:
        state = self._pods.get(key)
        if state is None:
            return
        operation = done.work.operations[0]
        if isinstance(done.error, NotFound):
            if uid_of(state.manifest) == _uid_written(operation):
                self._release(key)  # deleted meanwhile; the watch reports it as well
        elif done.error is not None:
            state.reported = None
            self._queue.retry(key, now.monotonic)
        elif isinstance(operation, Patch):
            self._queue.forget(key)
            result = done.results[0]
            if uid_of(result) == uid_of(state.manifest) and version_of(result) > version_of(state.manifest):
                state.manifest = result
                if has_ended(result):
                    self._free(state.node.name, key, uid_of(result))
                if is_deleting(result) or not operation.subresource:  # after an answer comes the status
                    self._queue.add(key)
            state.reported = None  # the manifest has it now

    def _on_node_result(self, key: NodeKey, done: WorkResult, now: Instant) -> None:
        name = key.name
        if key.task is NodeTask.REGISTER:
            if done.error is None or done.error.code == 409:
                self._queue.forget(key)
                self._queue.add_at(NodeKey(NodeTask.STATUS, name), now.monotonic + STATUS_HEARTBEAT)
            elif name not in self._registered:
                self._queue.retry(key, now.monotonic)
            return
        if key.task is NodeTask.UNLOCK:
            if done.error is not None and not isinstance(done.error, NotFound):
                self._queue.retry(key, now.monotonic)
            return
        if key.task is NodeTask.TOPOLOGY:
            self._on_topology_result(key, done, now)
            return
        period = self._heartbeat if key.task is NodeTask.LEASE else STATUS_HEARTBEAT
        if key.task is NodeTask.LEASE:
            if name not in self._leases:
                # Nodes that registered together renew their leases spread over the period, not in one burst.
                period *= (self._nodes[name].number + 1) / len(self._nodes)
            # A renewal that found no lease is followed by a creation.
            self._leases[name] = not isinstance(done.error, NotFound)
        self._queue.add_at(key, now.monotonic + period)

    def _on_topology_result(self, key: NodeKey, done: WorkResult, now: Instant) -> None:
        if done.error is None:
            self._queue.forget(key)
            self._cpus.on_topology_event(EventType.MODIFIED, done.results[0])
            self._queue.add(key)  # pods may have come or gone meanwhile
            return
        if isinstance(done.error, NotFound):
            self._cpus.forget_published(key.name)
        self._queue.retry(key, now.monotonic)

    def next_due(self) -> float | None:
        return self._queue.next_due()


def _comparable(status: Manifest) -> object:
    """The part of a pod status whose change is worth a write: all but the times of conditions."""
    conditions = {c.get("type"): c.get("status") for c in status.get("conditions") or ()}
    parts = ("phase", "reason", "podIP", "hostIP", "containerStatuses", "initContainerStatuses")
    return conditions, [status.get(part) or None for part in parts]


def _precondition(state: _TrackedPod) -> Manifest:
    """Metadata that makes a patch fail if the pod was replaced by another of the same name."""
    return {"uid": uid_of(state.manifest)}


def _uid_written(operation: Operation) -> str:
    match operation:
        case Patch(patch=patch):
            uid: str = patch.get("metadata", {}).get("uid", "")
            return uid
        case Delete(options=options):
            return options.uid
        case Create() | Update() | Get() | Call():
            return ""


def _seconds(text: str | None, *, default: float) -> float:
    if text is None:
        return default
    try:
        return parse_duration(text)
    except ValueError:
        return default
