"""predicates: filters nodes by kube-scheduler's rules, with its messages."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from volcano.model.decisions import ClaimVolume, ReserveClaim
from volcano.model.resources import Vector
from volcano.model.task import HostPort, Task
from volcano.scheduler.engine.answers import Memory, RejectedNodes
from volcano.scheduler.engine.arguments import Argument, Arguments, Type
from volcano.scheduler.engine.diagnosis import Rejection
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.node_table import NodeTable
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.predicates import affinity, spread
from volcano.scheduler.plugins.predicates.attachments import Attachments
from volcano.scheduler.plugins.predicates.devices.claims import DeviceClaims
from volcano.scheduler.plugins.predicates.node_properties import NodeProperties
from volcano.scheduler.plugins.predicates.placed_pods import PlacedPods
from volcano.scheduler.plugins.predicates.volumes import ASSUME_TIMEOUT, Volumes

CORDONED = "node(s) were unschedulable"
NODE_AFFINITY_MISMATCH = "node(s) didn't match Pod's node affinity/selector"
TAINTED = "node(s) had untolerated taint(s)"
PORT_TAKEN = "node(s) didn't have free ports for the requested pod ports"

DEVICES = "DynamicResourceAllocation"
FILTER_TIMEOUT = "dynamicresources.filterTimeoutSeconds"
EVERY_ADDRESS = ("", "0.0.0.0")
SWITCHES = (
    "NodeAffinity", "NodePorts", "TaintToleration", "PodAffinity", "NodeVolumeLimits", "VolumeZone",
    "PodTopologySpread", "VolumeBinding", DEVICES,
)  # fmt: skip


class Predicates(Plugin):
    """Labels, taints, ports, pod affinity, spread and volumes. Whether the request fits is checked by the engine."""

    session: Session
    arguments: ClassVar = (
        *(Argument(f"predicate.{name}Enable", Type.BOOLEAN) for name in SWITCHES),
        # Accepted without effect: results are always cached, and the scheduler does not wait for volume
        # binding.
        Argument("predicate.CacheEnable", Type.BOOLEAN),
        Argument("volumebinding.*", Type.ANY),
        Argument(FILTER_TIMEOUT),
        Argument("dynamicresources.*", Type.ANY),
    )

    def open(self, arguments: Arguments) -> None:
        self.enabled = {name for name in SWITCHES if arguments.boolean(f"predicate.{name}Enable", True)}
        self.filter_timeout = float(arguments.integer(FILTER_TIMEOUT, 10))

    @cached_property
    def properties(self) -> NodeProperties:
        return NodeProperties.of(self.snapshot)

    @cached_property
    def placed_pods(self) -> PlacedPods:
        return PlacedPods(self.session, self.properties.labels)

    @cached_property
    def volumes(self) -> Volumes:
        return Volumes(self.session, self.properties.labels, self._memory.get("volumes"))

    @cached_property
    def devices(self) -> DeviceClaims:
        return DeviceClaims(
            self.session, self.properties.labels, self._memory.get("devices"), self.filter_timeout
        )

    @cached_property
    def _memory(self) -> Mapping[str, Any]:
        return self.snapshot.memory.get(self.name) or {}

    def _has_devices(self, task: Task) -> bool:
        return bool(task.shape.constraints.device_claims) and DEVICES in self.enabled

    @cached_property
    def attachments(self) -> Attachments:
        return Attachments(self.session, self.placed_pods.all_pods)

    # -- filters on facts ------------------------------------------------------------------------------------

    def pre_predicate(self, task: Task) -> Rejection | None:
        if "VolumeBinding" in self.enabled and task.shape.constraints.claims:
            rejection = self.volumes.rejection(task)
            if rejection is not None:
                return rejection
        return self.devices.rejection(task) if self._has_devices(task) else None

    def reject_nodes(self, task: Task, nodes: NodeTable) -> Iterator[RejectedNodes]:
        constraints, properties = task.shape.constraints, self.properties
        yield RejectedNodes(
            properties.taints.unschedulable_for(constraints.tolerations)[nodes.index],
            CORDONED,
            resolvable=False,
            code=Code.NODES_UNSCHEDULABLE,
        )
        if "NodeAffinity" in self.enabled and (constraints.node_selector or constraints.required_nodes):
            yield RejectedNodes(
                ~properties.matching(constraints)[nodes.index],
                NODE_AFFINITY_MISMATCH,
                resolvable=False,
                code=Code.NODE_LABELS_MISMATCH,
            )
        if "TaintToleration" in self.enabled:
            tolerations, taints = constraints.tolerations, properties.taints
            tainted = taints.rejecting(tolerations)[nodes.index]
            yield RejectedNodes(tainted, TAINTED, resolvable=False, code=Code.TAINT_NOT_TOLERATED)
            if (unusable := taints.unusable_for(tolerations)) is not None:
                mask = unusable[nodes.index]
                yield RejectedNodes(mask, TAINTED, resolvable=False, code=Code.NODES_UNSCHEDULABLE)
        if constraints.claims:
            if "VolumeZone" in self.enabled:
                yield from self.volumes.zone_conflicts(task, nodes)
            if "VolumeBinding" in self.enabled:
                yield from self.volumes.node_affinity_conflicts(task, nodes)
        if "PodTopologySpread" in self.enabled and constraints.spread:
            yield from spread.unlabelled(task, nodes, properties)

    # -- filters on placements -------------------------------------------------------------------------------

    def reject_nodes_now(self, task: Task, nodes: NodeTable) -> Iterable[RejectedNodes] | None:
        constraints = task.shape.constraints
        if not (
            constraints.host_ports
            or constraints.claims
            or constraints.spread
            or constraints.required_near
            or constraints.required_apart
            or self._has_devices(task)
            or ("PodAffinity" in self.enabled and affinity.is_relevant(task, self.placed_pods))
        ):
            return None
        return list(self._rejections_now(task, nodes))

    def _rejections_now(self, task: Task, nodes: NodeTable) -> Iterator[RejectedNodes]:
        constraints = task.shape.constraints
        if "NodePorts" in self.enabled and constraints.host_ports:
            yield self._port_taken(constraints.host_ports, nodes)
        if "PodAffinity" in self.enabled:
            yield from affinity.rejections(task, nodes, self.placed_pods)
        if "PodTopologySpread" in self.enabled and constraints.spread:
            binding = spread.spreads(task, spread.HARD, self.placed_pods, self.properties)
            yield from spread.rejections(task, nodes, binding, self.placed_pods)
        if constraints.claims:
            if "NodeVolumeLimits" in self.enabled:
                yield from self.attachments.rejections(task, nodes)
            if "VolumeBinding" in self.enabled:
                yield from self.volumes.unbindable(task, nodes)
        if self._has_devices(task):
            yield from self.devices.rejections(task, nodes)

    def score_nodes_together(self, task: Task, nodes: NodeTable) -> Vector | None:
        return self.devices.scores(task, nodes) if self._has_devices(task) else None

    def _port_taken(self, wanted: Sequence[HostPort], nodes: NodeTable) -> RejectedNodes:
        taken = np.zeros(len(nodes), dtype=np.bool_)
        for port in wanted:
            counts = self.placed_pods.counts_where(port, partial(uses, port))
            taken |= counts.per_node[nodes.index] > 0
        return RejectedNodes(taken, PORT_TAKEN)

    # -- reservations and notifications ----------------------------------------------------------------------

    def reserves(self, task: Task) -> bool:
        return bool(task.shape.constraints.claims) or self._has_devices(task)

    def reserve(self, task: Task, row: int) -> Mapping[str, str] | Rejection:
        if task.shape.constraints.claims and (rejection := self.volumes.reserve(task, row)) is not None:
            return rejection
        if self._has_devices(task) and (rejection := self.devices.reserve(task, row)) is not None:
            self.volumes.release(task)
            return rejection
        return {}

    def release(self, task: Task, row: int) -> None:
        if self._has_devices(task):
            self.devices.release(task)
        self.volumes.release(task)

    def claims(self, task: Task) -> Sequence[ClaimVolume | ReserveClaim]:
        devices = self.devices.bindings(task) if self._has_devices(task) else ()
        return [*self.volumes.bindings(task), *devices]

    def remember(self) -> Memory | None:
        """Keeps the volumes and devices assumed for claims until the API server confirms them."""
        used = self.__dict__
        found: dict[str, Any] = {
            "volumes": self.volumes.assumed() if "volumes" in used else self._memory.get("volumes"),
            "devices": self.devices.state.remembered() if "devices" in used else self._memory.get("devices"),
        }
        kept = {name: value for name, value in found.items() if value}
        now, expiries = (
            self.snapshot.now,
            [made + ASSUME_TIMEOUT for _, made in kept.get("volumes", {}).values()],
        )
        due = min((expiry for expiry in expiries if expiry > now), default=None)
        return Memory(kept, due) if kept else None

    def on_allocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self.placed_pods.add(tasks, rows)
        if tasks[0].shape.constraints.claims:
            self._attach(tasks, rows, 1)
            self.ledger.record_undo(lambda: self._attach(tasks, rows, -1))

    def on_deallocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self.placed_pods.remove(tasks, rows)
        if tasks[0].shape.constraints.claims:
            self._attach(tasks, rows, -1)
            self.ledger.record_undo(lambda: self._attach(tasks, rows, 1))
        if self._has_devices(tasks[0]):
            for task in tasks:
                self.devices.evict(task)

    def _attach(self, tasks: Sequence[Task], rows: Sequence[int], by: int) -> None:
        if "attachments" in self.__dict__:  # otherwise these tasks are counted on first use
            for task, row in zip(tasks, rows, strict=True):
                self.attachments.move(task, row, by)


def uses(wanted: HostPort, task: Task) -> bool:
    """Reports whether a pod holds a port that conflicts with `wanted`; no address means every address."""
    return any(
        held.port == wanted.port
        and held.protocol == wanted.protocol
        and (
            held.address == wanted.address or held.address in EVERY_ADDRESS or wanted.address in EVERY_ADDRESS
        )
        for held in task.shape.constraints.host_ports
    )
