"""Scores by how full a node would be: the emptiest, the fullest, or the most evenly used."""

import numpy as np

from volcano.model.resources import CPU, MEMORY, ResourceIndex, Vector
from volcano.model.task import Task
from volcano.scheduler.engine.nodetable import NodeTable
from volcano.scheduler.engine.plugin import MAX_SCORE

BASIC = slice(CPU, MEMORY + 1)  # neighbouring columns, so that taking them copies nothing
GPU = "nvidia.com/gpu"


def least_allocated(task: Task, nodes: NodeTable) -> Vector:
    """The mean, over cpu and memory, of the part that stays free; `floor(100 x (capacity - used) / capacity)` each."""
    free = nodes.allocatable[:, BASIC] - (nodes.nonzero_used + task.shape.nonzero_request)
    points = np.floor(free * MAX_SCORE / nodes.capacity[:, BASIC])
    return _mean(np.maximum(points, 0.0), nodes)  # what overflows earns none


def most_allocated(task: Task, nodes: NodeTable) -> Vector:
    """The mean, over cpu and memory, of the part that is used; `floor(100 x used / capacity)` each."""
    used = nodes.nonzero_used + task.shape.nonzero_request
    points = np.floor(used * MAX_SCORE / nodes.capacity[:, BASIC])
    points[used > nodes.allocatable[:, BASIC]] = 0  # what overflows earns none
    return _mean(points, nodes)


def _mean(points: Vector, nodes: NodeTable) -> Vector:
    """Whole points per resource, averaged in whole points over those a node has."""
    mean: Vector = np.floor((points[:, 0] + points[:, 1]) / nodes.basics)
    return mean


def balanced_allocation(task: Task, nodes: NodeTable, resources: ResourceIndex) -> Vector:
    """`floor(100 x (1 - deviation))` of how full cpu, memory and, where asked for, gpu would be."""
    gpu, request = resources.column.get(GPU), task.shape.request
    columns = [CPU, MEMORY, gpu] if gpu is not None and request.item(gpu) > 0 else BASIC
    if columns is BASIC and not (request.item(CPU) or request.item(MEMORY)):
        return np.zeros(len(nodes))
    full = np.minimum(nodes.filled(request)[:, columns], 1.0)
    spread = _half_difference(full, nodes) if columns is BASIC else _deviation(full, nodes, columns)
    # What is mathematically whole must not lose a point to rounding.
    points: Vector = np.floor((1 - spread) * MAX_SCORE + 1e-9)
    return points


def _half_difference(full: Vector, nodes: NodeTable) -> Vector:
    """The standard deviation of two; of the only one a node has it is nothing."""
    half: Vector = np.abs(full[:, 0] - full[:, 1]) * ((nodes.basics - 1) / 2)
    return half


def _deviation(full: Vector, nodes: NodeTable, columns: slice | list[int]) -> Vector:
    """The standard deviation per row, over the columns that are there."""
    there = nodes.allocatable[:, columns] > 0
    count = np.maximum(there.sum(axis=1), 1)
    mean = full.sum(axis=1) / count
    squares = np.where(there, (full - mean[:, None]) ** 2, 0.0)
    spread: Vector = np.sqrt(squares.sum(axis=1) / count)
    return spread
