"""Fragmentation: the share of free resources that the pods seen so far could not use where it is."""

from collections.abc import Mapping

import numpy as np

from volcano.model.resources import CPU, STEP
from volcano.model.snapshot import Snapshot
from volcano.model.task import Shape

MOST_SHAPES = 24  # the most frequent ones


def fragmentation(snapshot: Snapshot, demand: Mapping[Shape, float], gpu: str) -> float:
    """Mean over the pods of `demand` of the share of free GPUs (of CPUs, for a cluster without) on nodes where the pod
    does not fit. 0 when nothing is free."""
    free = np.maximum(snapshot.allocatable - snapshot.used, 0.0)
    column = snapshot.resources.column.get(gpu)
    target = CPU if column is None else column
    amounts = free[:, target]
    total = float(amounts.sum())
    shapes = sorted(demand.items(), key=lambda item: -item[1])[:MOST_SHAPES]
    shapes = [(shape, count) for shape, count in shapes if shape.request[target] > 0]
    weight = sum(count for _, count in shapes)
    if total <= 0 or weight <= 0:
        return 0.0
    lost = 0.0
    for shape, count in shapes:
        columns = np.flatnonzero(shape.request > 0)
        fits = np.all(free[:, columns] + STEP > shape.request[columns], axis=1)
        lost += count * float(amounts[~fits].sum())
    return lost / (weight * total)
