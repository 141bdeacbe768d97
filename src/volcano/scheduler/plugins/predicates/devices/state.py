"""State of all claims and devices in one cycle. Every change can be undone exactly."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from volcano.kube.api.manifest import Manifest
from volcano.model.devices import Allocation, DeviceClaim, DeviceRequest
from volcano.model.parse_devices import parse_allocation
from volcano.model.resources import Mask
from volcano.model.status import COMPLETED, Status
from volcano.model.task import Task
from volcano.scheduler.engine.node_table import Rows
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.predicates.devices.index import device_index
from volcano.scheduler.plugins.predicates.devices.usage import DeviceUsage, FreeDevices
from volcano.scheduler.plugins.predicates.labels import LabelColumns

ClaimKey = tuple[str, str]


@dataclass(slots=True)
class Holding:
    """Devices of an allocated claim."""

    claim: DeviceClaim
    allocation: Allocation
    row: int = -1  # of the node that the devices are on; -1: `allocation.nodes` says which nodes can use them
    # Uids of pods, each with its node if that is known.
    consumers: dict[str, str] = field(default_factory=dict)
    releasing: set[str] = field(default_factory=set)  # those that are being deleted
    manifest: Manifest | None = None  # until the API server has it
    pipelined: bool = False  # on devices that are not free yet

    @property
    def is_ending(self) -> bool:
        """Whether all its consumers are being deleted, so that its devices become free."""
        return bool(self.consumers) and self.consumers.keys() <= self.releasing


class DeviceState:
    """Allocated claims, and the devices in use: now, and later, when the pods that are being deleted have gone."""

    def __init__(self, session: Session, labels: LabelColumns, memory: Mapping[str, Any] | None) -> None:
        self.snapshot = session.snapshot
        self.facts = session.snapshot.devices
        self._ledger = session.ledger
        self._labels = labels
        self.index = device_index(self.snapshot, labels)
        self.now, self.later = DeviceUsage(self.index), DeviceUsage(self.index)
        self.held: dict[ClaimKey, Holding] = {}
        self._tasks: dict[str, Task] = {}  # reserved in this cycle
        self._free: dict[tuple[DeviceRequest, bool], FreeDevices] = {}
        # Whether a device may be in use now and free later, or the other way round; stays true for the cycle.
        self.is_waiting = False
        # Results for a node are valid until one of these counts: of its own devices, and of those of several nodes.
        self.changes = np.zeros(len(self.snapshot.nodes), dtype=np.intp)
        self.shared_changes = 0
        for claim in self.facts.claims.values():
            if claim.allocation is not None:
                known = dict.fromkeys(claim.reserved_for, "")
                self.hold(Holding(claim, claim.allocation, consumers=known))
        self._recall(memory or {})
        self._release_deleted()

    def rejected(self, holding: Holding, rows: Rows) -> Mask:
        """Which of some nodes cannot use the devices of a claim."""
        if holding.row >= 0:
            others: Mask = rows != holding.row
            return others
        nodes = holding.allocation.nodes
        if nodes is None:
            return np.zeros(len(rows), dtype=np.bool_)
        unmatched: Mask = ~self._labels.matching(nodes)[rows]
        return unmatched

    def _recall(self, memory: Mapping[str, Any]) -> None:
        """Applies reservations of earlier cycles that the API server has not confirmed yet."""
        for entry in memory.values():
            claim = self.facts.claims.get((entry["claim"][0], entry["claim"][1]))
            placed = {uid: node for uid, node in entry["pods"].items() if self._is_on(uid, node)}
            if claim is None or claim.uid != entry["uid"] or not placed:
                continue
            holding = self.held.get(claim.key)
            if holding is None and entry["allocation"] is not None:
                allocation = parse_allocation(entry["allocation"])
                holding = Holding(claim, allocation, manifest=entry["allocation"])
                self.hold(holding)
            if holding is not None:
                holding.consumers.update(placed)

    def _is_on(self, uid: str, node: str) -> bool:
        """Whether a pod still holds what was reserved for it there: its binding did not fail, and it has not ended."""
        row = self.snapshot.row_of.get(node)
        task = None if row is None else self.snapshot.tasks_on[row].get(uid)
        return task is not None and task.status not in COMPLETED

    def _release_deleted(self) -> None:
        """Devices of pods that are being deleted become free later."""
        if not self.held:
            return
        for row in np.flatnonzero(self.snapshot.releasing.any(axis=1)).tolist():
            for task in self.snapshot.tasks_on[row].values():
                if task.device_claims and task.status is Status.RELEASING:
                    self.evict(task)

    def remembered(self) -> dict[str, Any]:
        """Reservations of committed placements that the API server may not have yet, for the next cycle."""
        found = {}
        for (namespace, name), holding in self.held.items():
            confirmed = holding.claim.reserved_for
            pods = {
                uid: node
                for uid, node in holding.consumers.items()
                if node and uid not in confirmed and self._is_committed(uid)
            }
            if pods:
                found[f"{namespace}/{name}"] = {
                    "claim": [namespace, name],
                    "uid": holding.claim.uid,
                    "allocation": holding.manifest,
                    "pods": pods,
                }
        return found

    def _is_committed(self, uid: str) -> bool:
        task = self._tasks.get(uid)
        return task is None or self._ledger.is_committed(task)  # others are remembered from earlier cycles

    # -- changes ---------------------------------------------------------------------------------------------

    def hold(self, holding: Holding) -> None:
        """Adds an allocated claim; a pipelined one takes its devices later."""
        self.held[holding.claim.key] = holding
        self.is_waiting = self.is_waiting or holding.pipelined
        if not holding.pipelined:
            self.now.take(holding.allocation.devices)
        if not holding.is_ending:
            self.later.take(holding.allocation.devices)
        self._changed(holding)

    def drop(self, holding: Holding) -> None:
        """Undoes `hold`."""
        del self.held[holding.claim.key]
        if not holding.pipelined:
            self.now.give(holding.allocation.devices)
        if not holding.is_ending:
            self.later.give(holding.allocation.devices)
        self._changed(holding)

    def join(self, holding: Holding, task: Task, node: str) -> None:
        """Adds a consumer to an allocated claim."""
        was_ending = holding.is_ending
        holding.consumers[task.uid] = node
        self._tasks[task.uid] = task
        if was_ending:
            self.later.take(holding.allocation.devices)
            self._changed(holding)

    def leave(self, holding: Holding, task: Task) -> None:
        """Undoes `join`."""
        del holding.consumers[task.uid]
        if holding.is_ending:
            self.later.give(holding.allocation.devices)
            self._changed(holding)

    def evict(self, task: Task) -> list[Holding]:
        """Marks a pod as being deleted; returns the claims this concerns, for `restore`."""
        found = []
        for name in task.device_claims:
            holding = self.held.get((task.namespace, name))
            if holding is None or task.uid not in holding.consumers or task.uid in holding.releasing:
                continue
            found.append(holding)
            holding.releasing.add(task.uid)
            if holding.is_ending:
                self.is_waiting = True
                self.later.give(holding.allocation.devices)
                self._changed(holding)
        return found

    def restore(self, task: Task, holdings: Iterable[Holding]) -> None:
        """Undoes `evict`."""
        for holding in holdings:
            if holding.is_ending:
                self.later.take(holding.allocation.devices)
                self._changed(holding)
            holding.releasing.discard(task.uid)

    def _changed(self, holding: Holding) -> None:
        """Updates what is derived from the devices of a claim."""
        rows = set()
        for device in holding.allocation.devices:
            at = self.index.position.get(device.id)
            if at is not None:
                rows.add(int(self.index.rows[at]) if at < self.index.first_remote else -1)
        for row in rows:
            if row < 0:
                self.shared_changes += 1
            else:
                self.changes[row] += 1
            for free in self._free.values():
                free.update(row)

    # -- questions -------------------------------------------------------------------------------------------

    def usages(self, pipelined: bool) -> tuple[DeviceUsage, ...]:
        """Where a device must be free: a pipelined placement waits for what is being released."""
        return (self.later,) if pipelined else (self.now, self.later)

    def free(self, request: DeviceRequest, *, pipelined: bool) -> FreeDevices:
        """The number of free devices for a request, per node."""
        known = self._free.get((request, pipelined))
        if known is None:
            matching = self.index.matching(request)
            known = FreeDevices(self.index, matching, self.usages(pipelined))
            self._free[request, pipelined] = known
        return known
