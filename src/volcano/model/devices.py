"""Devices of Dynamic Resource Allocation as facts: pools of devices, device classes and claims."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, NamedTuple

from volcano.kube.api.selectors import NodeSelector

EXACT_COUNT: Final = "ExactCount"
ALL: Final = "All"
# Effects of device taints that prevent allocation.
PREVENTING: Final = ("NoSchedule", "NoExecute")


class DeviceId(NamedTuple):
    """The name of a device."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


class PoolId(NamedTuple):
    """The name of a pool of devices."""

    driver: str
    pool: str


class DeviceTaint(NamedTuple):
    """A taint of a device."""

    key: str
    value: str
    effect: str


class DeviceToleration(NamedTuple):
    """A toleration of a request; an empty key tolerates every taint, an empty effect every effect."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: DeviceTaint) -> bool:
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return self.operator == "Exists" or (self.key != "" and self.value == taint.value)


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """The amounts of a capacity that requests may consume; other amounts are rounded up."""

    default: Decimal | None = None
    values: tuple[Decimal, ...] = ()
    least: Decimal | None = None
    most: Decimal | None = None
    step: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Capacity:
    """An amount that a device has of something."""

    value: Decimal
    policy: RequestPolicy | None = None

    def consumed(self, requested: Decimal | None) -> Decimal | None:
        """Consumption of a request; None if it is not allowed."""
        policy = self.policy
        if requested is None:
            return self.value if policy is None or policy.default is None else policy.default
        if policy is None:
            return requested
        amount = requested
        if policy.least is not None:
            amount = max(requested, policy.least)
            if policy.step:
                steps, rest = divmod(amount - policy.least, policy.step)
                amount = policy.least + (steps + bool(rest)) * policy.step
        elif policy.values:
            amount = next((value for value in policy.values if requested <= value), requested)
        if amount == policy.default:
            return amount
        if policy.most is not None and amount > policy.most:
            return None
        if policy.values and amount not in policy.values:
            return None
        return amount


@dataclass(frozen=True, slots=True)
class NodeReach:
    """The nodes from which a device can be used: one, those that a selector matches, or all."""

    node: str = ""
    selector: NodeSelector | None = None
    everywhere: bool = False
    # As written, for the node selector of allocations.
    expressions: tuple[Mapping[str, Any], ...] = ()
    fields: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class DeviceFacts:
    """View of a device for selectors. Devices with the same attributes and capacities share one object."""

    driver: str
    value: Mapping[str, Any]  # as `kube.dra.selectors.device_value` returns it; empty when it is malformed
    attributes: Mapping[str, Any]  # values by full name, for constraints


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """A device of a pool."""

    id: DeviceId
    facts: DeviceFacts
    reach: NodeReach
    shared: bool = False  # several claims may use it, each a part of its capacities
    capacity: Mapping[str, Capacity] = field(default_factory=dict)
    taints: tuple[DeviceTaint, ...] = ()  # those that prevent allocation
    # Counters it consumes: set, counter and amount.
    consumes: tuple[tuple[str, str, Decimal], ...] = ()
    binds_to_node: bool = False
    usable: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class ResourceSlice:
    """A part of a pool."""

    name: str
    pool: PoolId
    generation: int
    slices: int  # number of slices of the whole pool
    devices: tuple[Device, ...] = ()
    counters: Mapping[tuple[str, str], Decimal] = field(default_factory=dict)  # by set and counter


@dataclass(frozen=True, slots=True, eq=False)
class DeviceTable:
    """All devices of complete pools, in the order in which they are allocated."""

    devices: tuple[Device, ...] = ()
    counters: Mapping[tuple[PoolId, str, str], Decimal] = field(default_factory=dict)
    # Pools that are being updated; requests for all devices wait for them.
    incomplete: tuple[PoolId, ...] = ()
    # Results that the scheduler derives from this table, which never changes.
    derived: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A DeviceClass."""

    name: str
    selectors: tuple[str, ...] = ()
    config: tuple[Mapping[str, Any], ...] = ()

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A request for devices of one class; `name` is "<request>" or "<request>/<alternative>"."""

    name: str
    device_class: str
    selectors: tuple[str, ...] = ()
    mode: str = EXACT_COUNT
    count: int = 1
    admin: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: tuple[tuple[str, Decimal], ...] = ()

    @property
    def base(self) -> str:
        return self.name.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Constraint:
    """An attribute that all devices of some requests share, or in which they all differ."""

    attribute: str
    distinct: bool = False
    requests: frozenset[str] = frozenset()  # all requests when empty

    def applies_to(self, request: DeviceRequest) -> bool:
        return not self.requests or request.name in self.requests or request.base in self.requests


@dataclass(frozen=True, slots=True, eq=False)
class ClaimSpec:
    """The content of a claim. Claims from one template share one object, so that results are computed once."""

    # Alternatives of each request, the best first; requests without alternatives have one.
    requests: tuple[tuple[DeviceRequest, ...], ...] = ()
    constraints: tuple[Constraint, ...] = ()
    config: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """One device of an allocation."""

    request: str
    id: DeviceId
    admin: bool = False
    share_id: str = ""
    consumed: tuple[tuple[str, Decimal], ...] = ()
    tolerations: tuple[DeviceToleration, ...] = ()


@dataclass(frozen=True, slots=True)
class Allocation:
    """Devices of a claim, and the nodes that can use them; None: all."""

    devices: tuple[AllocatedDevice, ...]
    nodes: NodeSelector | None = None


@dataclass(frozen=True, slots=True)
class DeviceClaim:
    """A ResourceClaim."""

    namespace: str
    name: str
    uid: str
    spec: ClaimSpec
    allocation: Allocation | None = None
    reserved_for: tuple[str, ...] = ()  # uids of pods
    deleting: bool = False
    protected: bool = False  # has the finalizer of allocated claims
    owner: str = ""  # uid of the pod it was generated for

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name


@dataclass(frozen=True, slots=True)
class Devices:
    """Devices, classes and claims of a snapshot."""

    table: DeviceTable = field(default_factory=DeviceTable)
    classes: Mapping[str, DeviceClass] = field(default_factory=dict)
    claims: Mapping[tuple[str, str], DeviceClaim] = field(default_factory=dict)
