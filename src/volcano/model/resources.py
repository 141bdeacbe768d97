"""Resource vectors: columns of resource names, and comparisons."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from volcano.kube.api import quantity

Vector: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]

# A resource list in Volcano's units: milli-cores, bytes, pods, and thousandths of everything else.
ResourceList: TypeAlias = Mapping[str, float]

CPU, MEMORY, PODS = 0, 1, 2
FIXED = ("cpu", "memory", "pods")
STEP = 0.1  # amounts that differ by less are equal
NATIVE = frozenset(("cpu", "memory", "pods", "ephemeral-storage"))


@dataclass(frozen=True, slots=True)
class ResourceIndex:
    """Column of each resource: cpu, memory and pods, then the others in the order they were first found."""

    names: tuple[str, ...] = FIXED
    column: Mapping[str, int] = field(default_factory=lambda: {name: i for i, name in enumerate(FIXED)})

    @property
    def width(self) -> int:
        return len(self.names)

    def extended(self, names: Iterable[str]) -> "ResourceIndex":
        """An index that also has these names; this one if it has them already."""
        new = sorted(set(names) - self.column.keys())
        if not new:
            return self
        wider = (*self.names, *new)
        return ResourceIndex(wider, {name: i for i, name in enumerate(wider)})

    def vector(self, amounts: ResourceList | None, *, missing: float = 0.0) -> Vector:
        """A resource list as a vector; names that are not in the list get `missing`, unknown names are
        ignored."""
        vector = np.full(self.width, missing)
        for name, amount in (amounts or {}).items():
            column = self.column.get(name)
            if column is not None:
                vector[column] = amount
        return vector

    def mask(self, names: Iterable[str]) -> Mask:
        """Mask of the columns of these names."""
        mask = np.zeros(self.width, dtype=np.bool_)
        for name in names:
            column = self.column.get(name)
            if column is not None:
                mask[column] = True
        return mask

    def zeros(self) -> Vector:
        return np.zeros(self.width)

    def amounts(self, vector: Vector) -> dict[str, float]:
        """Non-zero amounts by name."""
        return {name: float(vector[i]) for i, name in enumerate(self.names) if abs(vector[i]) >= STEP}

    def widened(self, vector: Vector) -> Vector:
        """A vector of an older, narrower index, with zeros in the new columns."""
        if len(vector) == self.width:
            return vector
        wide = np.zeros(self.width)
        wide[: len(vector)] = vector
        return wide

    def shown(self, vector: Vector) -> str:
        """Text for messages: `cpu 2, memory 4Gi`."""
        return ", ".join(f"{name} {shown(name, amount)}" for name, amount in self.amounts(vector).items())


def counted(name: str) -> bool:
    """Whether a resource is scheduled by; quota names such as `requests.cpu` are not."""
    if name in NATIVE:
        return True
    return ("/" in name and not name.startswith(("count/", "requests.", "limits."))) or name.startswith(
        ("hugepages-", "attachable-volumes-")
    )


def amount(name: str, value: str | int | float) -> float:
    """A quantity in the unit of this resource."""
    if name in ("memory", "pods"):
        return quantity.units(value)
    return quantity.milli(value)


def parse(resources: Mapping[str, str | int | float] | None) -> dict[str, float]:
    """A resource list of a manifest, without the names that are not scheduled by."""
    return {name: amount(name, value) for name, value in (resources or {}).items() if counted(name)}


def shown(name: str, value: float) -> str:
    """An amount in the format of manifests."""
    if name == "memory":
        return quantity.format_binary(round(value))
    if name == "pods":
        return quantity.format_decimal(round(value))
    if name == "ephemeral-storage" or name.startswith("hugepages-"):
        return quantity.format_binary(round(value / 1000))  # bytes, as memory
    if ".deviceclass/" in name and not value % (1000 * 1024):  # a capacity of devices, such as their memory
        return quantity.format_binary(round(value / 1000))
    return quantity.format_milli(round(value))


def manifest(resources: ResourceIndex, vector: Vector) -> dict[str, str]:
    """A vector as a resource list of a manifest."""
    return {name: shown(name, value) for name, value in resources.amounts(vector).items()}


def fits(need: Vector, have: Vector) -> bool:
    """Whether `need` ≤ `have` in every dimension, with tolerance."""
    return bool((need < have + STEP).all())


def empty(vector: Vector) -> bool:
    """Whether there are no requests; the pod itself does not count."""
    return not any(vector[i] >= STEP for i in range(len(vector)) if i != PODS)


def share(have: Vector, of: Vector) -> Vector:
    """`have / of` per dimension; where `of` is zero: 0 if `have` is zero too, else 1."""
    some = np.where(have > 0, 1.0, 0.0)
    return np.divide(have, of, out=some, where=of > 0)


def positive(vector: Vector) -> Vector:
    """The vector with its negative amounts set to zero."""
    return np.maximum(vector, 0.0)


def first_over(need: Vector, limit: Vector) -> int | None:
    """Column of the first resource of which more is needed than the limit, pods aside; None without one."""
    over = (need > 0) & (need >= limit + STEP)
    over[PODS] = False
    return int(over.argmax()) if over.any() else None
