"""Amounts of resources as vectors: which name is which column, and how two vectors compare."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from volcano.kube import quantity

Vector: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]

# A resource list in the reference's units: milli-cores, bytes, pods, and thousandths of everything else.
ResourceList: TypeAlias = Mapping[str, float]

CPU, MEMORY, PODS = 0, 1, 2
FIXED = ("cpu", "memory", "pods")
STEP = 0.1  # amounts closer than this are the same amount
NATIVE = frozenset(("cpu", "memory", "pods", "ephemeral-storage"))


@dataclass(frozen=True, slots=True)
class ResourceIndex:
    """Which resource is which column: cpu, memory and pods, then the rest in the order they were first seen."""

    names: tuple[str, ...] = FIXED
    column: Mapping[str, int] = field(default_factory=lambda: {name: i for i, name in enumerate(FIXED)})

    @property
    def width(self) -> int:
        return len(self.names)

    def extended(self, names: Iterable[str]) -> "ResourceIndex":
        """An index that knows these names as well; this one when it already does."""
        new = sorted(set(names) - self.column.keys())
        if not new:
            return self
        wider = (*self.names, *new)
        return ResourceIndex(wider, {name: i for i, name in enumerate(wider)})

    def vector(self, amounts: ResourceList | None, *, missing: float = 0.0) -> Vector:
        """A resource list as a vector; names that are not listed get `missing`, unknown names are left out."""
        vector = np.full(self.width, missing)
        for name, amount in (amounts or {}).items():
            column = self.column.get(name)
            if column is not None:
                vector[column] = amount
        return vector

    def mask(self, names: Iterable[str]) -> Mask:
        """The columns of these names."""
        mask = np.zeros(self.width, dtype=np.bool_)
        for name in names:
            column = self.column.get(name)
            if column is not None:
                mask[column] = True
        return mask

    def zeros(self) -> Vector:
        return np.zeros(self.width)

    def amounts(self, vector: Vector) -> dict[str, float]:
        """The names of a vector that are not zero, with their amounts."""
        return {name: float(vector[i]) for i, name in enumerate(self.names) if abs(vector[i]) >= STEP}

    def widened(self, vector: Vector) -> Vector:
        """A vector of an older, narrower index, with zeros in the new columns."""
        if len(vector) == self.width:
            return vector
        wide = np.zeros(self.width)
        wide[: len(vector)] = vector
        return wide

    def shown(self, vector: Vector) -> str:
        """For people: `cpu 2, memory 4Gi`."""
        return ", ".join(f"{name} {shown(name, amount)}" for name, amount in self.amounts(vector).items())


def counted(name: str) -> bool:
    """Whether a name stands for something that is scheduled by; a quota's names and plain words do not."""
    if name in NATIVE:
        return True
    return ("/" in name and not name.startswith(("count/", "requests.", "limits."))) or name.startswith(
        ("hugepages-", "attachable-volumes-")
    )


def amount(name: str, value: str | int | float) -> float:
    """One quantity in the units this name is counted in."""
    if name in ("memory", "pods"):
        return quantity.units(value)
    return quantity.milli(value)


def parse(resources: Mapping[str, str | int | float] | None) -> dict[str, float]:
    """A manifest's resource list in our units, without the names that are not scheduled by."""
    return {name: amount(name, value) for name, value in (resources or {}).items() if counted(name)}


def shown(name: str, value: float) -> str:
    """One amount as a manifest would write it."""
    if name == "memory":
        return quantity.format_binary(round(value))
    if name == "pods":
        return quantity.format_decimal(round(value))
    return quantity.format_milli(round(value))


def manifest(resources: ResourceIndex, vector: Vector) -> dict[str, str]:
    """A vector as a manifest's resource list."""
    return {name: shown(name, value) for name, value in resources.amounts(vector).items()}


def fits(need: Vector, have: Vector) -> bool:
    """Whether `need` ≤ `have` in every dimension, with tolerance."""
    return bool((need < have + STEP).all())


def fits_where_asked(need: Vector, have: Vector, asked: Vector) -> bool:
    """Whether `need` ≤ `have` exactly, in the dimensions `asked` is positive in; pods are not looked at."""
    columns = asked > 0
    columns[PODS] = False
    return bool((need[columns] <= have[columns]).all())


def empty(vector: Vector) -> bool:
    """Whether nothing is asked for; the pod itself does not count."""
    return not any(vector[i] >= STEP for i in range(len(vector)) if i != PODS)


def share(have: Vector, of: Vector) -> Vector:
    """`have / of` per dimension; where `of` is nothing: 0 if `have` is nothing too, else 1."""
    some = np.where(have > 0, 1.0, 0.0)
    return np.divide(have, of, out=some, where=of > 0)


def positive(vector: Vector) -> Vector:
    """The vector with its negative amounts set to zero."""
    return np.maximum(vector, 0.0)
