"""Device index: all devices as columns, ordered by node, and the devices that match a request."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from volcano.kube.cel.program import InvalidExpression
from volcano.kube.devices.dra.selectors import SelectorError, compile_selector, matches
from volcano.model.devices import Device, DeviceClass, DeviceFacts, DeviceId, DeviceRequest, DeviceTable
from volcano.model.node import Node
from volcano.model.resources import Mask
from volcano.model.snapshot import Snapshot
from volcano.scheduler.plugins.predicates.labels import LabelColumns

Indices = NDArray[np.intp]


class DeviceIndex:
    """Facts about devices that do not change during a cycle. Devices of one node are neighbours; those that several
    nodes can use come last."""

    def __init__(
        self,
        table: DeviceTable,
        classes: Mapping[str, DeviceClass],
        nodes: Sequence[Node],
        labels: LabelColumns,
    ) -> None:
        self.table = table
        self.classes = classes
        self.nodes = nodes
        self._labels = labels
        row_of = {node.name: row for row, node in enumerate(nodes)}
        local = [(row_of[each.reach.node], each) for each in table.devices if each.reach.node in row_of]
        local.sort(key=lambda entry: entry[0])
        remote = [each for each in table.devices if not each.reach.node]
        self.devices: list[Device] = [*(each for _, each in local), *remote]
        self.rows: Indices = np.array([row for row, _ in local], dtype=np.intp)  # of the local ones
        self.first_remote = len(local)
        self._starts: list[int] = np.searchsorted(self.rows, np.arange(len(nodes) + 1)).tolist()
        self._selected: dict[str, dict[DeviceFacts, bool]] = {}
        self._matching: dict[DeviceRequest, Mask] = {}
        self.errors: dict[str, str] = {}  # of selectors, by expression

    @cached_property
    def position(self) -> dict[DeviceId, int]:
        return {device.id: at for at, device in enumerate(self.devices)}

    @cached_property
    def is_plain(self) -> Mask:
        """Devices that one claim uses as a whole, without counters: free ones can be counted."""
        return np.array([not (each.shared or each.consumes) for each in self.devices], dtype=np.bool_)

    def span(self, row: int) -> tuple[int, int]:
        """Positions of the devices of one node."""
        return self._starts[row], self._starts[row + 1]

    def candidates(self, row: int) -> list[int]:
        """Positions of the devices that one node can use: its own first."""
        first, end = self.span(row)
        return [*range(first, end), *(at for at, reach in self.remote if reach[row])]

    @cached_property
    def remote(self) -> list[tuple[int, Mask]]:
        """Devices that are not of one node, each with the nodes that can use it."""
        everywhere = np.ones(len(self.nodes), dtype=np.bool_)
        found = []
        for at in range(self.first_remote, len(self.devices)):
            reach = self.devices[at].reach
            nodes = everywhere if reach.selector is None else self._labels.matching(reach.selector)
            found.append((at, nodes))
        return found

    def matching(self, request: DeviceRequest) -> Mask:
        """The devices that the class and the selectors of a request select, and whose taints it tolerates."""
        known = self._matching.get(request)
        if known is None:
            known = self._matching[request] = self._matched(request)
        return known

    def _matched(self, request: DeviceRequest) -> Mask:
        device_class = self.classes.get(request.device_class)
        if device_class is None:
            return np.zeros(len(self.devices), dtype=np.bool_)
        expressions = (*device_class.selectors, *request.selectors)
        return np.fromiter(
            (
                all(self._selects(expression, each.facts) for expression in expressions)
                and all(any(toleration.tolerates(taint) for toleration in request.tolerations) for taint in each.taints)
                and self._has_capacity(each, request)
                for each in self.devices
            ),
            dtype=np.bool_,
            count=len(self.devices),
        )  # fmt: skip

    def _selects(self, expression: str, facts: DeviceFacts) -> bool:
        """Evaluates a selector, once for devices with the same attributes and capacities."""
        results = self._selected.setdefault(expression, {})
        known = results.get(facts)
        if known is None:
            try:
                known = bool(facts.value) and matches(compile_selector(expression), facts.value)
            except (SelectorError, InvalidExpression) as error:
                self.errors.setdefault(expression, str(error))
                known = False
            results[facts] = known
        return known

    @staticmethod
    def _has_capacity(device: Device, request: DeviceRequest) -> bool:
        for name, amount in request.capacity:
            capacity = device.capacity.get(name)
            consumed = None if capacity is None else capacity.consumed(amount)
            if capacity is None or consumed is None or consumed > capacity.value:
                return False
        return True


def device_index(snapshot: Snapshot, labels: LabelColumns | None = None) -> DeviceIndex:
    """The index of a snapshot's device table, kept with the table while nodes and classes do not change."""
    facts, nodes = snapshot.devices, snapshot.nodes
    known = facts.table.derived.get("index")
    if not isinstance(known, DeviceIndex) or known.nodes is not nodes or known.classes is not facts.classes:
        known = DeviceIndex(facts.table, facts.classes, nodes, labels or LabelColumns(nodes))
        facts.table.derived["index"] = known
    return known
