"""deviceshare: shares GPUs and NPUs between pods, by memory, cores or number, and assigns cards to pods."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from volcano.kube.devices import vgpu
from volcano.kube.devices.vgpu import card_uuid
from volcano.model.queue import Queue
from volcano.model.resources import PODS, Mask, Vector
from volcano.model.snapshot import Snapshot
from volcano.model.status import Status
from volcano.model.task import Shape, Task
from volcano.scheduler.engine.answers import NodeCapacity, RejectedNodes
from volcano.scheduler.engine.arguments import Arguments
from volcano.scheduler.engine.diagnosis import Rejection
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.inputs import ConfigMapInput
from volcano.scheduler.engine.node_table import NodeTable, Rows
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.engine.plugin_metrics import MetricSample
from volcano.scheduler.engine.policy import Policy
from volcano.scheduler.plugins.deviceshare.card_table import CardTable
from volcano.scheduler.plugins.deviceshare.exclusions import Exclusions
from volcano.scheduler.plugins.deviceshare.facts import Demand
from volcano.scheduler.plugins.deviceshare.kinds import tables_of
from volcano.scheduler.plugins.deviceshare.locks import NodeLocks
from volcano.scheduler.plugins.deviceshare.placements import Fitting, Placements
from volcano.scheduler.plugins.deviceshare.queue_memory import QueueMemory
from volcano.scheduler.plugins.deviceshare.reasons import reason
from volcano.scheduler.plugins.deviceshare.settings import ARGUMENTS, Settings, device_config_map
from volcano.scheduler.plugins.deviceshare.vgpu_cards import VgpuKind

DECIDING = {
    "reject_nodes", "reject_nodes_now", "node_capacity", "score_nodes", "on_deallocate", "pre_predicate",
}  # fmt: skip
LIMITING = {"allocatable", "why_not_allocatable", "on_allocate"}


class Asked(NamedTuple):
    """Demand of a shape for one kind of device."""

    cards: Placements
    demand: Demand


class DeviceShare(Plugin):
    """Finds nodes with suitable cards, chooses the cards, and tells device plugins through annotations."""

    arguments: ClassVar = ARGUMENTS
    inputs: ClassVar = (ConfigMapInput(device_config_map),)

    def open(self, arguments: Arguments) -> None:
        self.settings = settings = Settings.of(arguments)
        self._asked: dict[Shape, tuple[Asked, ...]] = {}
        # The last table and shape that were filtered: the same is scored next.
        self._last: tuple[NodeTable | None, Shape | None, list[Fitting | None]] = (None, None, [])
        unused = set()
        if device_config_map(arguments) is None:
            unused |= DECIDING
        if not settings.weight or not settings.policy:
            unused.add("score_nodes")
        if not settings.vgpu or not any(
            vgpu.MEMORY in queue.capability for queue in self.snapshot.queues.values()
        ):
            unused |= LIMITING
        if not settings.lock:
            unused.add("node_annotations")
        self.unused_hooks = frozenset(unused)

    @cached_property
    def _cards(self) -> tuple[Placements, ...]:
        """The cards of every enabled kind; read on first use, as few rows as changed."""
        return tuple(Placements(table) for table in tables_of(self.settings, self.snapshot))

    @cached_property
    def _exclusions(self) -> Exclusions:
        return Exclusions(self.settings.rules, self.ledger, self.snapshot)

    @cached_property
    def _locks(self) -> NodeLocks:
        return NodeLocks(self.snapshot, self.ledger)

    def _demands(self, task: Task) -> tuple[Asked, ...]:
        shape = task.shape
        found = self._asked.get(shape)
        if found is None:
            found = ()
            if shape.devices is not None or shape.limits:
                asked = ((cards, cards.kind.demand(shape)) for cards in self._cards)
                found = tuple(Asked(cards, demand) for cards, demand in asked if demand is not None)
            self._asked[shape] = found
        return found

    # -- queues ------------------------------------------------------------------------------------

    @cached_property
    def _queue_memory(self) -> QueueMemory:
        return QueueMemory(self.snapshot, self.ledger, vgpu.MEMORY, self._least_memory, self._memory)

    def _least_memory(self, task: Task) -> float:
        """Memory of vGPUs that a task needs at least, in thousandths."""
        return 1000.0 * sum(
            cards.least_memory(demand, task.shape)
            for cards, demand in self._demands(task)
            if isinstance(cards.kind, VgpuKind)
        )

    def _memory(self, task: Task) -> float:
        """Memory of vGPUs that a task holds; what it needs at least, before cards are chosen."""
        held = 0
        for cards, _ in self._demands(task):
            if isinstance(cards.kind, VgpuKind):
                taken = cards.taken.get(task.uid)
                shares = taken.all if taken is not None else cards.kind.shares(task) if task.node else ()
                held += sum(share.memory for share in shares)
        return 1000.0 * held or self._least_memory(task)

    def allocatable(self, queue: Queue, task: Task, count: int) -> int:
        return self._queue_memory.count(queue.name, task, count) if self._demands(task) else count

    def why_not_allocatable(self, queue: Queue, task: Task) -> Rejection | None:
        return self._queue_memory.rejection(queue.name, task)

    def on_allocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        if self._demands(tasks[0]):
            self._queue_memory.add(tasks, 1)

    # -- nodes -------------------------------------------------------------------------------------

    def pre_predicate(self, task: Task) -> Rejection | None:
        for _, demand in self._demands(task):
            if demand.impossible:
                return Rejection(demand.impossible, Code.DEVICES_TOO_SMALL)
        return None

    def reject_nodes(self, task: Task, nodes: NodeTable) -> Iterator[RejectedNodes]:
        """Nodes whose cards would not suffice if they were unused."""
        for cards, demand in self._demands(task):
            mask = (cards.table.has_cards & ~cards.fits_empty(demand, task.shape))[nodes.index]
            if mask.any():
                rows = nodes.index[mask]
                text = reason(cards, demand, task.shape, rows, cards.table.unused())
                yield RejectedNodes(mask, text, resolvable=False, code=Code.DEVICES_TOO_SMALL)

    def node_capacity(self, task: Task, nodes: NodeTable, most: int, future: bool) -> NodeCapacity | None:
        demands = self._demands(task)
        if not demands:
            return None
        rows, shape = nodes.index, task.shape
        repeats = len(demands) == 1 and demands[0].cards.repeats(demands[0].demand)
        if repeats and most > 1:
            (cards, demand), *_ = demands
            counts = np.minimum(cards.room(demand, shape, rows, future=future).sum(axis=1), most)
            return NodeCapacity(counts, lambda: ())
        found: list[Fitting] = [cards.fits(demand, shape, rows, future=future) for cards, demand in demands]
        if not future:
            self._last = (nodes, shape, [*found])
        fits = found[0].enough
        for each in found[1:]:
            fits = fits & each.enough

        def explain() -> Iterator[RejectedNodes]:
            for cards, demand in demands:
                # Nodes that do not even report the resource are left to the count of resources.
                name = cards.kind.resource
                offering = np.fromiter(
                    (name in node.allocatable for node in nodes.facts), np.bool_, len(rows)
                )
                mask = offering & ~cards.fits(demand, shape, rows, future=future).enough
                if mask.any():
                    usage = cards.usages(future=future)[0]
                    text = reason(cards, demand, shape, rows[mask], usage)
                    yield RejectedNodes(mask, text, code=Code.INSUFFICIENT_DEVICES)

        return NodeCapacity(fits, explain, repeats)

    def reject_nodes_now(self, task: Task, nodes: NodeTable) -> Iterable[RejectedNodes] | None:
        """Nodes that are locked, or whose cards the rules close to this very task."""
        demands = self._demands(task)
        limited = [asked for asked in demands if self._exclusions.concern(task, asked.cards, asked.demand)]
        locking = [asked for asked in demands if self.settings.lock and asked.cards.kind.lock]
        if not limited and not locking:
            return None
        return self._rejected_now(task, nodes.index, limited, locking)

    def _rejected_now(
        self, task: Task, rows: Rows, limited: Sequence[Asked], locking: Sequence[Asked]
    ) -> Iterator[RejectedNodes]:
        for cards, demand in limited:
            closed, why = self._exclusions.closed(task, cards, demand, rows, future=True)
            mask = ~cards.fits(demand, task.shape, rows, future=True, without=closed).enough
            if cards.later is not None:
                # Cards that are open now go before those of pods that are being deleted.
                shut, _ = self._exclusions.closed(task, cards, demand, rows, future=False)
                open_now = cards.fits(demand, task.shape, rows, future=False, without=shut).enough
                if open_now.any():
                    mask, closed = ~open_now, shut
            if mask.any():
                usage, without = cards.usages(future=True)[0], None if closed is None else closed[mask]
                text = reason(cards, demand, task.shape, rows[mask], usage, without, why)
                yield RejectedNodes(mask, text, code=Code.INSUFFICIENT_DEVICES)
        for cards, _ in locking:
            mask = self._locks.locked(cards.kind)[rows]
            if mask.any():
                text = "node(s) were locked while a device plugin hands out the devices of another pod"
                yield RejectedNodes(mask, text, code=Code.INSUFFICIENT_DEVICES)

    def score_nodes(self, task: Task, nodes: NodeTable) -> Vector:
        demands = self._demands(task)
        if not demands:
            return np.zeros(len(nodes))
        if self._last[0] is nodes and self._last[1] is task.shape:
            copies, known = None, self._last[2]
        else:
            # A hypothetical row has more tasks than the node; each counts one in the column of pods.
            copies = np.rint(nodes.used[:, PODS] - self.ledger.used[nodes.index, PODS]).astype(np.int64)
            copies, known = copies if copies.any() else None, [None] * len(demands)
        score = sum(
            cards.score(demand, task.shape, nodes.index, copies, fitting)
            for (cards, demand), fitting in zip(demands, known, strict=True)
        )
        found: Vector = np.rint(score) * self.settings.weight
        return found

    # -- reservations ------------------------------------------------------------------------------

    def reserves(self, task: Task) -> bool:
        return bool(self._demands(task))

    def reserve(self, task: Task, row: int) -> Mapping[str, str] | Rejection:
        pipelined = self.ledger.placing is Status.PIPELINED
        annotations: dict[str, str] = {}
        node = self.nodes.fact(row)
        done: list[Placements] = []
        for cards, demand in self._demands(task):
            without: Mask | None = None
            if self._exclusions.concern(task, cards, demand):
                without, _ = self._exclusions.closed(task, cards, demand, np.array((row,)), future=pipelined)
            taken = cards.take(task, row, demand, pipelined=pipelined, without=without)
            if taken is None:
                for earlier in reversed(done):
                    earlier.release(task)
                return Rejection(
                    f"node {node.name} does not have the {cards.kind.noun}s that pod {task.name} needs",
                    Code.INSUFFICIENT_DEVICES,
                )
            done.append(cards)
            annotations |= cards.kind.annotations(task, node, taken.shares, self.snapshot.now)
            if self.settings.lock and cards.kind.lock and not pipelined:
                self._locks.lock(cards.kind, task, row)
        return annotations

    def release(self, task: Task, row: int) -> None:
        for cards, _ in reversed(self._demands(task)):
            cards.release(task)
            if self.settings.lock:
                self._locks.unlock(cards.kind, task)

    def node_annotations(self, task: Task) -> Mapping[str, str]:
        return self._locks.annotations(task)

    def on_deallocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """Cards of evicted pods are free for pipelined ones."""
        demands = self._demands(tasks[0])
        if demands and "allocatable" not in self.unused_hooks:
            self._queue_memory.add(tasks, -1)
        for task, row in zip(tasks, rows, strict=True):
            for cards, _ in demands:
                self.ledger.record_undo(cards.give_back(task, row))

    # -- metrics -----------------------------------------------------------------------------------

    def measure(self) -> Iterator[MetricSample]:
        if self.settings.vgpu:
            for cards in self._cards:
                yield from card_metrics(cards.table, self.snapshot)


def shared_cards(policy: Policy) -> Placements | None:
    """Cards that the plugin shares as vGPUs in this cycle; None when it does not."""
    for plugin in policy.plugins:
        if isinstance(plugin, DeviceShare) and plugin.settings.vgpu:
            return next((cards for cards in plugin._cards if isinstance(cards.kind, VgpuKind)), None)
    return None


def card_metrics(table: CardTable, snapshot: Snapshot) -> Iterator[MetricSample]:
    """Amounts that pods hold of each card, and each pod's part; series of pods and nodes that are gone are removed."""
    if not isinstance(table.kind, VgpuKind):
        return
    measured = table.measured
    for name in [name for name in measured if name not in snapshot.row_of]:
        yield from (MetricSample(*series, None) for series in measured.pop(name))
    rows, table.unmeasured = sorted(table.unmeasured), set()
    for row in rows:
        name = snapshot.nodes[row].name
        found = {sample[:2]: sample for sample in _samples(table, snapshot, row, name)}
        yield from (MetricSample(*series, None) for series in measured.pop(name, ()) if series not in found)
        yield from found.values()
        if found:
            measured[name] = tuple(found)


def _samples(table: CardTable, snapshot: Snapshot, row: int, node: str) -> Iterator[MetricSample]:
    used = table.used
    for column, card in enumerate(table.cards[row]):
        for what, amount in (
            ("shared_number", used.users.item(row, column)),
            ("allocated_memory", used.memory.item(row, column)),
            ("allocated_cores", used.cores.item(row, column)),
            ("memory_limit", card.memory),
        ):
            yield MetricSample(f"vgpu_device_{what}", (card.uuid, node), float(amount))
    for task in snapshot.tasks_on[row].values():
        held: dict[str, tuple[int, int]] = {}
        for share, memory, cores in table.kind.shares(task):
            uuid = card_uuid(share)
            known = held.get(uuid, (0, 0))
            held[uuid] = (known[0] + memory, known[1] + cores)
        for uuid, amounts in held.items():
            for what, amount in zip(("memory", "core"), amounts, strict=True):
                metric = f"vgpu_device_{what}_allocation_for_a_certain_pod"
                yield MetricSample(metric, (uuid, node, task.key), float(amount))
