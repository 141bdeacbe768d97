"""Scores by how full a node would be: the emptiest, the fullest, or the most evenly used."""

import numpy as np

from volcano.model.resources import CPU, MEMORY, ResourceIndex, Vector
from volcano.model.task import Task
from volcano.scheduler.nodetable import NodeTable
from volcano.scheduler.plugin import MAX_SCORE

BASIC = [CPU, MEMORY]
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
    points = np.floor(np.divide(part * MAX_SCORE, capacity, out=np.zeros_like(part), where=there))
    points[used > capacity] = 0
    mean: Vector = np.floor(points.sum(axis=1) / np.maximum(there.sum(axis=1), 1))
    return mean


def balanced_allocation(task: Task, nodes: NodeTable, resources: ResourceIndex) -> Vector:
    """`floor(100 x (1 - deviation))` of how full cpu, memory and, where asked for, gpu would be."""
    columns = [CPU, MEMORY]
    gpu = resources.column.get(GPU)
    if gpu is not None and task.request[gpu] > 0:
        columns.append(gpu)
    if not (task.request[columns] > 0).any():
        return np.zeros(len(nodes))
    capacity = nodes.allocatable[:, columns]
    used = nodes.used[:, columns] + task.request[columns]
    there = capacity > 0
    full = np.minimum(np.divide(used, capacity, out=np.zeros_like(used), where=there), 1.0)

    count = np.maximum(there.sum(axis=1), 1)
    mean = full.sum(axis=1) / count
    squares = np.where(there, (full - mean[:, None]) ** 2, 0.0)
    deviation = np.sqrt(squares.sum(axis=1) / count)
    # What is mathematically whole must not lose a point to rounding.
    points: Vector = np.floor((1 - deviation) * MAX_SCORE + 1e-9)
    return points
