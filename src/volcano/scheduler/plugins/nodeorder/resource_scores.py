"""Scores by allocation: least allocated, most allocated, balanced allocation."""

import numpy as np

from volcano.model.resources import CPU, MEMORY, ResourceIndex, Vector
from volcano.model.task import Task
from volcano.scheduler.engine.answers import MAX_SCORE
from volcano.scheduler.engine.node_table import NodeTable

BASIC = slice(CPU, MEMORY + 1)  # adjacent columns, so that slicing copies nothing
GPU = "nvidia.com/gpu"


def least_allocated(task: Task, nodes: NodeTable) -> Vector:
    """Returns the mean over cpu and memory of `floor(100 x (capacity - used) / capacity)`."""
    free = nodes.allocatable[:, BASIC] - (nodes.nonzero_used + task.shape.nonzero_request)
    points = np.floor(free * MAX_SCORE / nodes.capacity[:, BASIC])
    return _mean(np.maximum(points, 0.0), nodes)  # 0 where the request does not fit


def most_allocated(task: Task, nodes: NodeTable) -> Vector:
    """Returns the mean over cpu and memory of `floor(100 x used / capacity)`."""
    used = nodes.nonzero_used + task.shape.nonzero_request
    points = np.floor(used * MAX_SCORE / nodes.capacity[:, BASIC])
    points[used > nodes.allocatable[:, BASIC]] = 0  # 0 where the request does not fit
    return _mean(points, nodes)


def _mean(points: Vector, nodes: NodeTable) -> Vector:
    """Returns the mean of whole points, rounded down, over the resources a node has."""
    mean: Vector = np.floor((points[:, 0] + points[:, 1]) / nodes.basics)
    return mean


def balanced_allocation(task: Task, nodes: NodeTable, resources: ResourceIndex) -> Vector:
    """Returns `75 + half of the change of balance`, rounded down: 100 where the task balances a node, 50 where it
    unbalances it.

    The balance of a node is `floor(100 x (1 - deviation))` of the usage of cpu, memory and, if requested, gpu. Only the
    change counts, as in Kubernetes 1.36, so that an empty node is not preferred to one that is in use.
    """
    gpu, request = resources.column.get(GPU), task.shape.request
    columns = [CPU, MEMORY, gpu] if gpu is not None and request.item(gpu) > 0 else BASIC
    if columns is BASIC and not (request.item(CPU) or request.item(MEMORY)):
        return np.zeros(len(nodes))
    before = _balance(nodes.used[:, columns] / nodes.capacity[:, columns], nodes, columns)
    after = _balance(nodes.filled(request)[:, columns], nodes, columns)
    points: Vector = MAX_SCORE / 2 + np.floor((MAX_SCORE / 2 + after - before) / 2)
    return points


def _balance(full: Vector, nodes: NodeTable, columns: slice | list[int]) -> Vector:
    """Returns `floor(100 x (1 - deviation))` of the used fractions."""
    full = np.minimum(full, 1.0)
    spread = _half_difference(full, nodes) if columns is BASIC else _deviation(full, nodes, columns)
    # Rounding errors must not lower whole numbers by a point.
    balance: Vector = np.floor((1 - spread) * MAX_SCORE + 1e-9)
    return balance


def _half_difference(full: Vector, nodes: NodeTable) -> Vector:
    """Returns the standard deviation of two numbers; 0 for a node with only one of the resources."""
    half: Vector = np.abs(full[:, 0] - full[:, 1]) * ((nodes.basics - 1) / 2)
    return half


def _deviation(full: Vector, nodes: NodeTable, columns: slice | list[int]) -> Vector:
    """Returns the standard deviation per row, over the resources a node has."""
    there = nodes.allocatable[:, columns] > 0
    count = np.maximum(there.sum(axis=1), 1)
    mean = full.sum(axis=1) / count
    squares = np.where(there, (full - mean[:, None]) ** 2, 0.0)
    spread: Vector = np.sqrt(squares.sum(axis=1) / count)
    return spread
