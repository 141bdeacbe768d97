"""Scores by how full a node would be: the emptiest, the fullest, or the most evenly used."""

import numpy as np

from volcano.model.resources import CPU, MEMORY, Mask, ResourceIndex, Vector
from volcano.model.task import Task
from volcano.scheduler.nodetable import NodeTable
from volcano.scheduler.plugin import MAX_SCORE

BASIC = slice(CPU, MEMORY + 1)  # neighbouring columns, so that taking them copies nothing
GPU = "nvidia.com/gpu"


def least_allocated(task: Task, nodes: NodeTable) -> Vector:
    """The mean, over cpu and memory, of the part that stays free; `floor(100 x (capacity - used) / capacity)` each."""
    capacity, used = nodes.allocatable[:, BASIC], nodes.nonzero_used + task.shape.nonzero_request
    return _mean(capacity - used, capacity, used)


def most_allocated(task: Task, nodes: NodeTable) -> Vector:
    """The mean, over cpu and memory, of the part that is used; `floor(100 x used / capacity)` each."""
    capacity, used = nodes.allocatable[:, BASIC], nodes.nonzero_used + task.shape.nonzero_request
    return _mean(used, capacity, used)


def _mean(part: Vector, capacity: Vector, used: Vector) -> Vector:
    """Whole points per resource, averaged in whole points; a resource that overflows earns none."""
    there = capacity > 0
    points = np.floor(quotient(part * MAX_SCORE, capacity, there))
    points[used > capacity] = 0
    count = 2.0 if there.all() else np.maximum(there.sum(axis=1), 1)
    mean: Vector = np.floor((points[:, 0] + points[:, 1]) / count)
    return mean


def quotient(part: Vector, whole: Vector, there: Mask) -> Vector:
    """`part / whole` where there is a whole, else 0."""
    if there.all():
        return part / whole
    return np.divide(part, whole, out=np.zeros_like(part), where=there)


def balanced_allocation(task: Task, nodes: NodeTable, resources: ResourceIndex) -> Vector:
    """`floor(100 x (1 - deviation))` of how full cpu, memory and, where asked for, gpu would be."""
    columns: slice | list[int] = BASIC
    gpu = resources.column.get(GPU)
    if gpu is not None and task.request[gpu] > 0:
        columns = [CPU, MEMORY, gpu]
    request = task.request[columns]
    if not request.any():
        return np.zeros(len(nodes))
    capacity = nodes.allocatable[:, columns]
    used = nodes.used[:, columns] + request
    there = capacity > 0
    full = np.minimum(quotient(used, capacity, there), 1.0)
    # What is mathematically whole must not lose a point to rounding.
    points: Vector = np.floor((1 - deviation(full, there)) * MAX_SCORE + 1e-9)
    return points


def deviation(full: Vector, there: Mask) -> Vector:
    """The standard deviation per row, over the columns that are there; of two, half their difference."""
    if full.shape[1] == 2 and there.all():
        half: Vector = np.abs(full[:, 0] - full[:, 1]) / 2
        return half
    count = np.maximum(there.sum(axis=1), 1)
    mean = full.sum(axis=1) / count
    squares = np.where(there, (full - mean[:, None]) ** 2, 0.0)
    spread: Vector = np.sqrt(squares.sum(axis=1) / count)
    return spread
