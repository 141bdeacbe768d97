"""Fairness between queues: what each deserves at a moment, and Jain's index."""

from collections.abc import Sequence

import numpy as np

from volcano.model.resources import Vector


def deserved(weights: Vector, demand: Vector) -> Vector:
    """Share of the cluster that each queue deserves: by weight, at most its demand; the rest goes to the others."""
    shares = np.zeros(len(weights))
    left = 1.0
    open_queues = demand > 0
    while left > 1e-12 and open_queues.any():
        offer = left * weights * open_queues / max(float((weights * open_queues).sum()), 1e-12)
        taken = np.minimum(offer, demand - shares)
        shares += taken
        left -= float(taken.sum())
        satisfied = shares >= demand - 1e-12
        if not (satisfied & open_queues).any():
            break
        open_queues &= ~satisfied
    return shares


def jain(values: Sequence[float]) -> float:
    """Jain's index: 1 when all are equal, 1/n when one has everything; 1 without values."""
    total, squares = sum(values), sum(value * value for value in values)
    return total * total / (len(values) * squares) if squares > 0 else 1.0
