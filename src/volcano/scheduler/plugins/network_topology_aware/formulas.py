"""Formulas of network-topology-aware: how full domains become, and how near nodes are to placed pods."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from volcano.model.resources import Mask, Vector

Numbers = NDArray[np.intp]


def filled(used: Vector, request: Vector, allocatable: Vector, weights: Vector) -> Vector:
    """Weighted mean of the usage of the requested resources with the request added; 0 where one does not fit.

    `used` and `allocatable` have a row per domain, `request` and `weights` an element per resource.
    """
    asked = (request > 0) & (weights > 0)
    if not asked.any():
        return np.zeros(len(used))
    capacity = allocatable[:, asked]
    share = np.divide(
        used[:, asked] + request[asked], capacity, out=np.full_like(capacity, np.inf), where=capacity > 0
    )
    fits: Mask = np.all(share <= 1 + 1e-9, axis=1)
    share[~fits] = 0.0
    mean: Vector = share @ weights[asked] / weights[asked].sum()
    return mean


def tier_weights(tiers: Sequence[int], fading: float) -> Vector:
    """Weight of each tier: `fading` to the power of the tier less 1; the lowest tiers alone when fading is 0."""
    if fading == 0:
        return np.array([1.0 if tier <= 1 else 0.0 for tier in tiers])
    return np.array([fading ** (tier - 1) for tier in tiers])


def nearness(common_tiers: Numbers, lowest: int, highest: int) -> Vector:
    """Score by the tier of the lowest domain around a node and the pods placed before: 1 for the lowest tier, 0 for
    the highest; 1 where there is one tier only."""
    if highest <= lowest:
        return np.ones(len(common_tiers))
    score: Vector = (highest - common_tiers) / (highest - lowest)
    return score


def with_members(scores: Vector, members: Vector) -> Vector:
    """Scores to which the share of members is added where several have the highest score."""
    best = scores == scores.max()
    if best.sum() < 2:
        return scores
    return scores + np.where(best, members, 0.0)
