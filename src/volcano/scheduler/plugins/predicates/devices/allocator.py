"""Allocator: finds devices on one node for several claims, by a search with backtracking."""

import hashlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

from volcano.model.devices import ALL, AllocatedDevice, ClaimSpec, Constraint, DeviceRequest
from volcano.scheduler.plugins.predicates.devices.index import DeviceIndex
from volcano.scheduler.plugins.predicates.devices.usage import ZERO, Counter, DeviceUsage

MOST_DEVICES = 32  # of one claim
MOST_STEPS = 5_000  # devices tried for one node
_STEPS_PER_CHECK = 256
NEW_SHARE = "new"  # until the share gets its id


class SearchLimitExceeded(Exception):
    """The search took too many steps, or too long."""


class Allocator:
    """A search for the claims of one pod on one node. A device is free if it is in all `usages`."""

    def __init__(
        self,
        index: DeviceIndex,
        usages: Sequence[DeviceUsage],
        row: int,
        *,
        expired: Callable[[], bool] = lambda: False,
    ) -> None:
        self._index = index
        self._usages = usages
        self._candidates = index.candidates(row)
        self._expired = expired
        self._steps = 0
        self._taken: dict[int, int] = {}  # position → claims of this search that hold it
        self._consumed: dict[tuple[int, str], Decimal] = {}
        self._counters: dict[Counter, Decimal] = {}

    def allocate(self, specs: Sequence[ClaimSpec]) -> list["Picks"] | None:
        """Devices for each claim, or None. Raises `SearchLimitExceeded`."""
        picks = [Picks(spec) for spec in specs]
        wanted = [(each, number) for each in picks for number in range(len(each.spec.requests))]
        return picks if self._requests(wanted, 0) else None

    def _requests(self, wanted: "Sequence[tuple[Picks, int]]", at: int) -> bool:
        """Allocates all requests from `at` on."""
        if at == len(wanted):
            return True
        picks, number = wanted[at]
        for rank, request in enumerate(picks.spec.requests[number]):
            picks.ranks.append(rank)
            if self._request(picks, request, lambda: self._requests(wanted, at + 1)):
                return True
            picks.ranks.pop()
        return False

    def _request(self, picks: "Picks", request: DeviceRequest, rest: Callable[[], bool]) -> bool:
        matching = self._index.matching(request)
        devices = [at for at in self._candidates if matching[at]]
        if request.mode == ALL:
            if not devices or self._index.table.incomplete:
                return False
            return self._all(picks, request, devices, rest)
        if len(picks.devices) + request.count > MOST_DEVICES:
            return False
        return self._some(picks, request, devices, 0, request.count, rest)

    def _all(
        self, picks: "Picks", request: DeviceRequest, devices: list[int], rest: Callable[[], bool]
    ) -> bool:
        done: list[int] = []
        if len(picks.devices) + len(devices) <= MOST_DEVICES:
            for at in devices:
                if not self._take(picks, request, at):
                    break
                done.append(at)
            if len(done) == len(devices) and rest():
                return True
        for at in reversed(done):
            self._give(picks, at)
        return False

    def _some(
        self,
        picks: "Picks",
        request: DeviceRequest,
        devices: list[int],
        start: int,
        count: int,
        rest: Callable[[], bool],
    ) -> bool:
        """Takes `count` of the devices from `start` on; each combination is tried once."""
        if not count:
            return rest()
        for place in range(start, len(devices)):
            at = devices[place]
            shared = self._index.devices[at].shared
            if not shared and len(devices) - place < count:
                return False
            if not self._take(picks, request, at):
                continue
            if self._some(picks, request, devices, place if shared else place + 1, count - 1, rest):
                return True
            self._give(picks, at)
        return False

    # -- one device ------------------------------------------------------------------------------------------

    def _take(self, picks: "Picks", request: DeviceRequest, at: int) -> bool:
        """Takes a device if it is free and the constraints allow it."""
        self._steps += 1
        if self._steps > MOST_STEPS or (not self._steps % _STEPS_PER_CHECK and self._expired()):
            raise SearchLimitExceeded
        device = self._index.devices[at]
        consumed: tuple[tuple[str, Decimal], ...] = ()
        if request.admin:
            if not device.shared and any(position == at for position in picks.positions):
                return False
        elif device.shared:
            found = self._share(request, at)
            if found is None:
                return False
            consumed = found
        elif at in self._taken or any(usage.taken[at] for usage in self._usages):
            return False
        if not request.admin and not self._counters_suffice(at):
            return False
        if not picks.satisfied_by(request, device.facts.attributes):
            return False
        share = NEW_SHARE if device.shared else ""
        allocated = AllocatedDevice(
            request.name, device.id, request.admin, share, consumed, request.tolerations
        )
        picks.add(request, at, allocated, device.facts.attributes)
        if not request.admin:
            self._count(at, consumed, 1)
        return True

    def _give(self, picks: "Picks", at: int) -> None:
        allocated = picks.remove(at)
        if not allocated.admin:
            self._count(at, allocated.consumed, -1)

    def _count(self, at: int, consumed: tuple[tuple[str, Decimal], ...], sign: int) -> None:
        before = self._taken.get(at, 0)
        self._taken[at] = before + sign
        if not self._taken[at]:
            del self._taken[at]
        for name, amount in consumed:
            self._consumed[at, name] = self._consumed.get((at, name), ZERO) + amount * sign
        if bool(before) is not bool(before + sign):
            for counter, amount in self._usages[0].consumes(at):
                self._counters[counter] = self._counters.get(counter, ZERO) + amount * sign

    def _share(self, request: DeviceRequest, at: int) -> tuple[tuple[str, Decimal], ...] | None:
        """Consumption of a shared device by a request; None if that is not left."""
        requested, device = dict(request.capacity), self._index.devices[at]
        consumed = []
        for name, capacity in sorted(device.capacity.items()):
            amount = capacity.consumed(requested.get(name))
            if amount is None:
                return None
            used = max(usage.consumed.get((at, name), ZERO) for usage in self._usages)
            if used + self._consumed.get((at, name), ZERO) + amount > capacity.value:
                return None
            consumed.append((name, amount))
        return tuple(consumed)

    def _counters_suffice(self, at: int) -> bool:
        if not self._index.devices[at].consumes or at in self._taken:
            return True
        return all(
            at in usage.claims_of  # a shared device in use has its counters already
            or all(
                amount <= usage.left(counter) - self._counters.get(counter, ZERO)
                for counter, amount in usage.consumes(at)
            )
            for usage in self._usages
        )


class Picks:
    """Devices taken for one claim, and the values that its constraints hold them to."""

    def __init__(self, spec: ClaimSpec) -> None:
        self.spec = spec
        self.devices: list[AllocatedDevice] = []
        self.positions: list[int] = []
        self.ranks: list[int] = []  # of the alternatives chosen, one per request
        self._values: dict[Constraint, list[Any]] = {constraint: [] for constraint in spec.constraints}
        self._applied: list[list[Constraint]] = []

    def satisfied_by(self, request: DeviceRequest, attributes: Any) -> bool:
        for constraint, values in self._values.items():
            if not constraint.applies_to(request):
                continue
            value = attributes.get(constraint.attribute)
            if value is None or (value in values if constraint.distinct else values and value != values[0]):
                return False
        return True

    def add(self, request: DeviceRequest, at: int, device: AllocatedDevice, attributes: Any) -> None:
        self.devices.append(device)
        self.positions.append(at)
        applied = [constraint for constraint in self._values if constraint.applies_to(request)]
        for constraint in applied:
            self._values[constraint].append(attributes.get(constraint.attribute))
        self._applied.append(applied)

    def remove(self, at: int) -> AllocatedDevice:
        for constraint in self._applied.pop():
            self._values[constraint].pop()
        assert self.positions.pop() == at
        return self.devices.pop()

    def with_share_ids(self, claim_uid: str) -> Iterator[AllocatedDevice]:
        """The devices; those that several claims share have an id for this share."""
        for number, device in enumerate(self.devices):
            if device.share_id == NEW_SHARE:
                text = f"{claim_uid} {number} {device.id}".encode()
                share = uuid.UUID(bytes=hashlib.sha256(text).digest()[:16], version=4)
                yield AllocatedDevice(
                    device.request, device.id, device.admin, str(share), device.consumed, device.tolerations
                )
            else:
                yield device
