"""What a forecast starts from: jobs that run, jobs that wait, and the rules by which these start."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from volcano.analysis.estimate.run_times import Expected
from volcano.model.resources import Mask, Vector

Rows = NDArray[np.intp]
NONE: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Running:
    """A job that holds resources: amounts on rows, and its expected run time; None when nothing is known."""

    uid: str
    rows: Rows
    amounts: Vector
    started: float
    limit: float | None
    expected: Expected | None
    queue: str = ""
    is_known: bool = (
        True  # by its walltime or by similar jobs; otherwise it is expected to run as jobs of all kinds
    )


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that waits: request, count and possible nodes of its pods by shape, and its expected run time."""

    uid: str
    needs: Sequence[tuple[Vector, int, Mask]]
    limit: float | None
    expected: Expected | None
    queue: str = ""
    rejected: bool = False  # the scheduler does not start it now
    created: float = -math.inf
    minimum: Vector | None = (
        None  # what has to be left for it to be admitted; None: it is admitted in any case
    )
    admitted: bool = True
    priority: int = 0

    @property
    def total(self) -> Vector:
        """What its pods request together."""
        found: Vector = np.sum([count * request for request, count, _ in self.needs], axis=0)
        return found


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Jobs that will arrive: so many per second, each like one of those that arrived lately."""

    rate: float = 0.0
    examples: Sequence[Waiting] = ()


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules by which jobs start, beside the resources of nodes."""

    room: Mapping[str, Vector] = field(default_factory=dict)  # what queues with a capability may still take
    limited_by: Mapping[str, Sequence[str]] = field(
        default_factory=dict
    )  # a queue → it and those above in `room`
    in_order: frozenset[str] = frozenset()  # queues in which no job passes another one
    # What may still be admitted, and how much less that is for each of the queues in `room`; None: all is admitted.
    admissible: Vector | None = None
    promised: Mapping[str, Vector] = field(default_factory=dict)
    reservations: int = 0  # how many gangs that wait get nodes
    starvation: float = math.inf  # seconds after which a gang gets nodes although no ends are known
    possible: Vector | None = None  # free on each row once all jobs have ended
