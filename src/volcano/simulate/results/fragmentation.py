"""Fragmentation: the share of free resources that the pods seen so far could not use where it is."""

from collections.abc import Mapping

import numpy as np

from volcano.model.resources import Vector
from volcano.simulate.workload import Requests

MOST_KINDS = 24  # of pods: the most frequent ones
CPU, GPU = 0, 2
TOLERANCE = 1e-6


def fragmentation(free: Vector, demand: Mapping[Requests, int]) -> float:
    """Mean over the pods of `demand` of the share of free GPUs (of CPUs, if no pod asks for GPUs) on nodes where the
    pod does not fit; 0 when nothing is free. `free` has cpu, memory and GPUs of each node."""
    column = GPU if any(requests.gpus for requests in demand) else CPU
    amounts = free[:, column]
    total = float(amounts.sum())
    kinds = sorted(demand.items(), key=lambda item: -item[1])[:MOST_KINDS]
    asked = [(np.array((kind.cpu, kind.memory, kind.gpu)), count) for kind, count in kinds]
    asked = [(vector, count) for vector, count in asked if vector[column] > 0]
    weight = sum(count for _, count in asked)
    if total <= TOLERANCE or not weight:
        return 0.0
    lost = sum(
        count * float(amounts[~np.all(free + TOLERANCE >= vector, axis=1)].sum()) for vector, count in asked
    )
    return float(lost / (weight * total))
