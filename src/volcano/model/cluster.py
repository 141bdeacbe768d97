"""Cluster cache: applies watch events, assumes the scheduler's decisions, and takes snapshots."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from volcano.base.copying import copy_of
from volcano.kube.api import kinds, names
from volcano.kube.api.kinds import Kind
from volcano.kube.client.protocol import Decode, Event, EventType
from volcano.model.auxiliary_cache import AuxiliaryCache
from volcano.model.decisions import Bind, Decision, Evict, SetPodCondition, SetPodGroup, SetQueue
from volcano.model.device_cache import DeviceCache
from volcano.model.hypernodes.cache import HyperNodeCache
from volcano.model.job import Orphans, PodGroup
from volcano.model.job_cache import ChangeLog, JobCache
from volcano.model.node import Node
from volcano.model.node_cache import NodeCache
from volcano.model.parse import Parser
from volcano.model.parse_auxiliary import AUXILIARY_DECODERS, AuxiliaryObject
from volcano.model.parse_devices import DEVICE_KINDS
from volcano.model.pod_cache import DEFAULT_SCHEDULER, PodCache
from volcano.model.queue import Queue
from volcano.model.resources import Vector, positive
from volcano.model.snapshot import Snapshot
from volcano.model.task import Task

# ConfigMaps are not among them: one of them at most is read, see `device_config_map`.
WATCHED: tuple[Kind, ...] = (
    kinds.POD,
    kinds.NODE,
    kinds.POD_GROUP,
    kinds.QUEUE,
    *(kind for kind in AUXILIARY_DECODERS if kind is not kinds.CONFIG_MAP),
    *DEVICE_KINDS,
)


class Cluster:
    """State of the cluster as of the events so far and the decisions assumed since.

    Events may arrive in any order. Applying one costs the same however large the cluster is, and a snapshot costs what
    changed since the last one.
    """

    def __init__(
        self,
        *,
        scheduler_names: Iterable[str] = (names.SCHEDULER_NAME,),
        serve_default: bool = False,
        default_queue: str = names.DEFAULT_QUEUE,
        node_selector: Collection[tuple[str, str]] = (),
        ignored_provisioners: Collection[str] = (),
    ) -> None:
        """With a `node_selector`, nodes that have none of these labels are ignored."""
        self.parser = Parser(default_queue)
        self._index = self.parser.shapes.index
        self._node_selector = frozenset(node_selector)
        self._changes = ChangeLog()
        self._derived: dict[str, Any] = {}
        self._auxiliary = AuxiliaryCache(ignored_provisioners)
        self._devices = DeviceCache()
        self._nodes = NodeCache(self._index)
        self._hypernodes = HyperNodeCache()
        self._jobs = JobCache(default_queue, self._index, self._changes)
        served = frozenset(scheduler_names) | ({DEFAULT_SCHEDULER} if serve_default else frozenset())
        self._pods = PodCache(
            served, self._nodes, self._jobs, self.parser.shapes, self._changes, serve_default=serve_default
        )

    def copy(self) -> "Cluster":
        """A cluster with the same objects: events and decisions that are applied to one do not change the other. Both
        share the parser, so that equal pods have the same shape in both."""
        made = Cluster.__new__(Cluster)
        made.parser, made._index, made._node_selector = self.parser, self._index, self._node_selector
        made._derived = {}
        copies: dict[int, Any] = {}
        made._changes = copy_of(self._changes, copies)
        made._auxiliary = copy_of(self._auxiliary, copies)
        made._devices = copy_of(self._devices, copies)
        made._nodes = copy_of(self._nodes, copies)
        made._hypernodes = copy_of(self._hypernodes, copies)
        made._jobs = copy_of(self._jobs, copies)
        made._pods = self._pods.copy(copies)
        return made

    @property
    def revision(self) -> int:
        """Number of changes so far that could change a decision."""
        return self._changes.revision

    @property
    def jobless_revision(self) -> int:
        """Number of those changes that concern pods without a job."""
        return self._changes.jobless_revision

    @property
    def busy(self) -> bool:
        """Whether a job has something to decide."""
        return bool(self._jobs.active) or bool(self._changes.jobs)

    @property
    def waiting(self) -> bool:
        """Whether a job waits: one with something to decide that was not settled since the last snapshot."""
        return self._jobs.waiting(self._pods)

    @property
    def unconfirmed(self) -> int:
        """Number of bindings and evictions that the server has not confirmed yet."""
        return self._pods.unconfirmed

    def priority(self, priority_class: str) -> int:
        """Value of a priority class, or of the default one when it does not exist."""
        return self._auxiliary.priority(priority_class)

    @property
    def orphans(self) -> Mapping[str, Orphans]:
        """Pods without a PodGroup or queue as of the last snapshot, by job; a snapshot has those that changed."""
        return self._jobs.orphans

    def has_node(self, name: str) -> bool:
        return name in self._nodes

    def has_numa_topology(self, node: str) -> bool:
        return self._auxiliary.has(kinds.NUMATOPOLOGY, node)

    def nodes(self) -> Mapping[str, Node]:
        """All nodes by name; read-only."""
        return self._nodes.by_name

    def free_on(self, node: str) -> Vector | None:
        """Free resources of a node, assumed decisions included; None when it does not exist."""
        return self._nodes.free(node)

    # -- events ------------------------------------------------------------------------------------

    def decoder(self, kind: Kind) -> Decode:
        """Decoder for objects of a watched kind."""
        return self.parser.decoder(kind)

    def apply(self, event: Event) -> None:
        """Applies one event; repeated events and older versions change nothing."""
        if event.type is EventType.BOOKMARK:
            return
        deleted = event.type is EventType.DELETED
        if self.parser.shapes.index is not self._index:
            self._widen()  # decoding found a resource that was not known before
        match event.object:
            case Task() as task:
                self._pods.apply(task, deleted=deleted)
            case Node() as node:
                self._apply_node(node, deleted=deleted)
            case PodGroup() as group:
                self._jobs.apply_group(group, deleted=deleted)
            case Queue() as queue:
                self._jobs.apply_queue(queue, deleted=deleted)
            case AuxiliaryObject() as changed if event.kind in DEVICE_KINDS:
                self._changes.revision += self._devices.apply(event.kind, changed, deleted=deleted)
            case AuxiliaryObject() as changed:
                if self._auxiliary.apply(event.kind, changed, deleted=deleted):
                    self._changes.revision += 1
                    if event.kind is kinds.PRIORITY_CLASS:
                        self._jobs.mark_all_changed()
                    elif event.kind is kinds.HYPER_NODE:
                        self._apply_hypernode(changed, deleted=deleted)

    def _apply_hypernode(self, changed: AuxiliaryObject, *, deleted: bool) -> None:
        if deleted or changed.value is None:
            self._hypernodes.remove(changed.name)
        else:
            self._hypernodes.put(changed.value)

    def _apply_node(self, node: Node, *, deleted: bool) -> None:
        known = self._nodes.node(node.name)
        if deleted or (self._node_selector and self._node_selector.isdisjoint(node.labels.items())):
            if known is None:
                return
            self._nodes.remove(node.name)
            self._hypernodes.remove_node(node.name)
        elif known is not None and replace(known, resource_version=node.resource_version) == node:
            return  # a heartbeat of the kubelet
        else:
            self._nodes.put(node)
            self._hypernodes.put_node(node.name, node.labels)
        self._changes.revision += 1

    # -- decisions ---------------------------------------------------------------------------------

    def assume(self, decisions: Iterable[Decision]) -> None:
        """Applies decisions as if done, until the server confirms them or `forget` is called."""
        for decision in decisions:
            match decision:
                case Bind() | Evict():
                    self._pods.assume(decision)
                case SetPodGroup():
                    self._jobs.assume_group(decision)
                case SetPodCondition(_, namespace, name, reason, message):
                    self._pods.set_condition(namespace, name, reason, message)
                case SetQueue():
                    self._jobs.assume_queue(decision)

    def forget(self, decision: Decision) -> None:
        """Reverts a rejected decision to the state that the server last reported."""
        match decision:
            case Bind() | Evict():
                self._pods.forget(decision)
            case SetPodGroup(uid):
                self._jobs.forget_group(uid)
            case SetQueue(name):
                self._jobs.forget_queue(name)
            case SetPodCondition(uid, namespace, name):
                self._pods.set_condition(namespace, name, "", "", uid)
            case _:
                pass

    # -- snapshots ---------------------------------------------------------------------------------

    def snapshot(
        self,
        now: float = 0.0,
        seed: int = 0,
        memory: Mapping[str, Any] | None = None,
        usage: Mapping[str, Mapping[str, float]] | None = None,
    ) -> Snapshot:
        """A frozen view of everything."""
        if self.parser.shapes.index is not self._index:
            self._widen()
        jobs = self._jobs
        changed = jobs.rebuild(self._pods, self._auxiliary)
        view = self._nodes.view()
        orphaned = jobs.orphaned()
        return Snapshot(
            now=now,
            seed=seed,
            resources=self._index,
            nodes=view.nodes,
            row_of=view.row_of,
            allocatable=view.allocatable,
            used=view.used,
            releasing=view.releasing,
            nonzero_used=view.nonzero_used,
            tasks_on=view.tasks_on,
            jobs=jobs.jobs.copy(),
            active=tuple(jobs.active),
            queues=jobs.queues.copy(),
            totals=jobs.totals(),
            total=positive(view.total - orphaned),
            held=positive(view.used.sum(axis=0) - view.foreign - orphaned),
            changed=changed,
            orphans={uid: jobs.orphans[uid] for uid in sorted(changed) if uid in jobs.orphans},
            memory=memory or {},
            usage=usage or {},
            topology=self._hypernodes.view(view.row_of),
            pod_terms=view.pod_terms,
            node_values=view.node_values,
            derived=self._derived,
            devices=self._devices.view(),
            **self._auxiliary.snapshot_fields(),
        )

    def _widen(self) -> None:
        """Rebuilds everything that has a column per resource, after a new resource name appeared."""
        self._index = self.parser.shapes.index
        self._nodes.widen(self._index, self._pods.widen())
        self._jobs.widen(self._index)
