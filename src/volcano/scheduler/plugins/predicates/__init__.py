"""predicates: which nodes will do, by Kubernetes' own rules and in its words."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import ClassVar

import numpy as np

from volcano.model.decisions import ClaimVolume
from volcano.model.task import HostPort, Task
from volcano.scheduler.engine.arguments import Argument, Arguments, Type
from volcano.scheduler.engine.nodetable import NodeTable
from volcano.scheduler.engine.plugin import Plugin, RejectedNodes, Rejection
from volcano.scheduler.plugins.predicates import affinity, spread
from volcano.scheduler.plugins.predicates.attachments import Attachments
from volcano.scheduler.plugins.predicates.neighbours import Neighbours
from volcano.scheduler.plugins.predicates.node_match import NodeFacts
from volcano.scheduler.plugins.predicates.volumes import Volumes

CORDONED = "node(s) were unschedulable"
NOT_CHOSEN = "node(s) didn't match Pod's node affinity/selector"
TAINTED = "node(s) had untolerated taint(s)"
PORT_TAKEN = "node(s) didn't have free ports for the requested pod ports"

EVERY_ADDRESS = ("", "0.0.0.0")
SWITCHES = (
    "NodeAffinity", "NodePorts", "TaintToleration", "PodAffinity", "NodeVolumeLimits", "VolumeZone",
    "PodTopologySpread", "VolumeBinding",
)  # fmt: skip


class Predicates(Plugin):
    """Labels, taints, ports, neighbours, spread and volumes. That the request fits is the scheduler's own rule."""

    arguments: ClassVar = (
        *(Argument(f"predicate.{name}Enable", Type.BOOLEAN) for name in SWITCHES),
        # Accepted and without effect: every answer is cached anyway, and binding does not wait in the scheduler.
        Argument("predicate.CacheEnable", Type.BOOLEAN),
        Argument("predicate.DynamicResourceAllocationEnable", Type.BOOLEAN),
        Argument("volumebinding.*", Type.ANY),
        Argument("dynamicresources.*", Type.ANY),
    )

    def open(self, arguments: Arguments) -> None:
        self.on = {name for name in SWITCHES if arguments.boolean(f"predicate.{name}Enable", True)}

    @cached_property
    def facts(self) -> NodeFacts:
        return NodeFacts(self.snapshot.nodes)

    @cached_property
    def neighbours(self) -> Neighbours:
        return Neighbours(self.session, self.facts.labels)

    @cached_property
    def volumes(self) -> Volumes:
        return Volumes(self.session, self.facts.labels, self.snapshot.memory.get(self.name))

    @cached_property
    def attachments(self) -> Attachments:
        return Attachments(self.session, self.neighbours.present)

    # -- by facts alone --------------------------------------------------------------------------------------

    def pre_predicate(self, task: Task) -> Rejection | None:
        if "VolumeBinding" in self.on and task.shape.constraints.claims:
            return self.volumes.refusal(task)
        return None

    def reject_nodes(self, task: Task, nodes: NodeTable) -> Iterator[RejectedNodes]:
        constraints, facts = task.shape.constraints, self.facts
        yield RejectedNodes(
            facts.taints.closed(constraints.tolerations)[nodes.index], CORDONED, resolvable=False
        )
        if "NodeAffinity" in self.on and (constraints.node_selector or constraints.required_nodes):
            yield RejectedNodes(~facts.chosen(constraints)[nodes.index], NOT_CHOSEN, resolvable=False)
        if "TaintToleration" in self.on:
            yield RejectedNodes(
                facts.taints.repelled(constraints.tolerations)[nodes.index], TAINTED, resolvable=False
            )
        if constraints.claims:
            if "VolumeZone" in self.on:
                yield from self.volumes.wrong_zone(task, nodes)
            if "VolumeBinding" in self.on:
                yield from self.volumes.misplaced(task, nodes)
        if "PodTopologySpread" in self.on and constraints.spread:
            yield from spread.unlabelled(task, nodes, facts)

    # -- by what is placed where -----------------------------------------------------------------------------

    def reject_nodes_now(self, task: Task, nodes: NodeTable) -> Iterable[RejectedNodes] | None:
        constraints = task.shape.constraints
        if not (
            constraints.host_ports
            or constraints.claims
            or constraints.spread
            or constraints.required_near
            or constraints.required_apart
            or ("PodAffinity" in self.on and affinity.concerned(task, self.neighbours))
        ):
            return None
        return list(self._rejections_now(task, nodes))

    def _rejections_now(self, task: Task, nodes: NodeTable) -> Iterator[RejectedNodes]:
        constraints = task.shape.constraints
        if "NodePorts" in self.on and constraints.host_ports:
            yield self._port_taken(constraints.host_ports, nodes)
        if "PodAffinity" in self.on:
            yield from affinity.rejections(task, nodes, self.neighbours)
        if "PodTopologySpread" in self.on and constraints.spread:
            binding = spread.spreads(task, spread.HARD, self.neighbours, self.facts)
            yield from spread.rejections(task, nodes, binding, self.neighbours)
        if constraints.claims:
            if "NodeVolumeLimits" in self.on:
                yield from self.attachments.rejections(task, nodes)
            if "VolumeBinding" in self.on:
                yield from self.volumes.unserved(task, nodes)

    def _port_taken(self, wanted: Sequence[HostPort], nodes: NodeTable) -> RejectedNodes:
        taken = np.zeros(len(nodes), dtype=np.bool_)
        for port in wanted:
            crowd = self.neighbours.having(port, partial(uses, port))
            taken |= crowd.per_node[nodes.index] > 0
        return RejectedNodes(taken, PORT_TAKEN)

    # -- what happens ----------------------------------------------------------------------------------------

    def reserves(self, task: Task) -> bool:
        return bool(task.shape.constraints.claims)

    def reserve(self, task: Task, row: int) -> Mapping[str, str] | Rejection:
        return self.volumes.reserve(task, row) or {}

    def release(self, task: Task, row: int) -> None:
        self.volumes.release(task)

    def claims(self, task: Task) -> Sequence[ClaimVolume]:
        return self.volumes.chosen(task)

    def remember(self) -> dict[str, tuple[str, float]] | None:
        """Volumes set aside for claims, until the server says so."""
        if "volumes" not in self.__dict__:
            return self.snapshot.memory.get(self.name)
        return self.volumes.promises() or None

    def on_allocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self.neighbours.come(tasks, rows)
        if tasks[0].shape.constraints.claims:
            self._attach(tasks, rows, 1)
            self.ledger.record_undo(lambda: self._attach(tasks, rows, -1))

    def on_deallocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self.neighbours.go(tasks, rows)
        if tasks[0].shape.constraints.claims:
            self._attach(tasks, rows, -1)
            self.ledger.record_undo(lambda: self._attach(tasks, rows, 1))

    def _attach(self, tasks: Sequence[Task], rows: Sequence[int], by: int) -> None:
        if (
            "attachments" in self.__dict__
        ):  # otherwise they are counted, these included, when first asked about
            for task, row in zip(tasks, rows, strict=True):
                self.attachments.move(task, row, by)


def uses(wanted: HostPort, task: Task) -> bool:
    """Whether a pod holds a port that `wanted` would collide with; no address means every address."""
    return any(
        held.port == wanted.port
        and held.protocol == wanted.protocol
        and (
            held.address == wanted.address or held.address in EVERY_ADDRESS or wanted.address in EVERY_ADDRESS
        )
        for held in task.shape.constraints.host_ports
    )
