"""Device usage: devices, shares of their capacities and counters that claims hold."""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import TypeVar

import numpy as np

from volcano.model.devices import AllocatedDevice, PoolId
from volcano.model.resources import Mask
from volcano.scheduler.plugins.predicates.devices.index import DeviceIndex, Indices

Counter = tuple[PoolId, str, str]
ZERO = Decimal(0)


class DeviceUsage:
    """Devices in use at one point in time: now, or after the pods that are being deleted have gone."""

    def __init__(self, index: DeviceIndex) -> None:
        self.index = index
        self.claims_of: dict[int, int] = {}  # number of claims that hold a device, by position
        self.taken: Mask = np.zeros(len(index.devices), dtype=np.bool_)
        self.consumed: dict[tuple[int, str], Decimal] = {}  # of shared devices
        self.counters: dict[Counter, Decimal] = {}

    def take(self, devices: Iterable[AllocatedDevice]) -> None:
        self._move(devices, 1)

    def give(self, devices: Iterable[AllocatedDevice]) -> None:
        """Undoes `take`."""
        self._move(devices, -1)

    def _move(self, devices: Iterable[AllocatedDevice], sign: int) -> None:
        for each in devices:
            at = self.index.position.get(each.id)
            if at is None or each.admin:
                continue  # a device that is not published any more, or one that is not held
            before = self.claims_of.get(at, 0)
            after = self.claims_of[at] = before + sign
            if not after:
                del self.claims_of[at]
            device = self.index.devices[at]
            if not device.shared:
                self.taken[at] = after > 0
            for name, amount in each.consumed:
                _add(self.consumed, (at, name), amount * sign)
            if bool(before) is not bool(after):  # counters belong to a device, however many claims share it
                for counter, amount in self.consumes(at):
                    _add(self.counters, counter, amount * sign)

    def consumes(self, at: int) -> Iterator[tuple[Counter, Decimal]]:
        """The counters that a device consumes."""
        device = self.index.devices[at]
        pool = PoolId(device.id.driver, device.id.pool)
        for counter_set, name, amount in device.consumes:
            yield (pool, counter_set, name), amount

    def left(self, counter: Counter) -> Decimal:
        """Rest of a counter."""
        return self.index.table.counters.get(counter, ZERO) - self.counters.get(counter, ZERO)


Key = TypeVar("Key", Counter, tuple[int, str])


def _add(totals: dict[Key, Decimal], key: Key, amount: Decimal) -> None:
    total = totals.get(key, ZERO) + amount
    if total:
        totals[key] = total
    else:
        totals.pop(key, None)


class FreeDevices:
    """Number of free devices that match a request, per node; kept up to date."""

    def __init__(self, index: DeviceIndex, matching: Mask, usages: Iterable[DeviceUsage]) -> None:
        self._index = index
        self._usages = tuple(usages)  # free in all of them
        self.matching = matching
        self.local_only = not matching[index.first_remote :].any()
        self.is_plain = bool(index.is_plain[matching].all())  # counting is exact
        self.counts: Indices = self._count_all()

    def _count_all(self) -> Indices:
        free = self.matching.copy()
        for usage in self._usages:
            free &= ~usage.taken
        first = self._index.first_remote
        rows = self._index.rows[free[:first]]
        counts = np.bincount(rows, minlength=len(self._index.nodes)).astype(np.intp)
        for at, reach in self._index.remote:
            if free[at]:
                counts += reach
        return counts

    def update(self, row: int) -> None:
        """Counts the devices of one node again, or all when it is negative."""
        if row < 0 or not self.local_only:
            self.counts = self._count_all()
            return
        first, end = self._index.span(row)
        free = self.matching[first:end]
        for usage in self._usages:
            free = free & ~usage.taken[first:end]
        self.counts[row] = np.count_nonzero(free)
