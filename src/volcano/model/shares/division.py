"""Shares by weight: division of a cluster among queues, within a minimum and a maximum per queue."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volcano.kube.api.names import ROOT_QUEUE
from volcano.model.shares.tree import QueueTree

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
OWN = "/own"  # suffix for the jobs of a queue that also has children: they take part beside the children


@dataclass(frozen=True, slots=True)
class QueueDemand:
    """Weight and limits of one queue in the division, in resource columns."""

    weight: float
    minimum: Vector  # the guarantee
    maximum: Vector  # the request, within the capability


def weighted_shares(total: Vector, weights: Vector, minimums: Matrix, maximums: Matrix) -> Matrix:
    """Returns shares (queues, resources) that add up to `total`, per resource.

    A share is `level x weight`, but at least the minimum and at most the maximum; the level is the one at which the
    shares add up to the total. If all maximums together are less than the total, every queue gets its maximum; if the
    minimums alone exceed it, every queue gets its minimum.
    """
    maximums = np.maximum(maximums, minimums)
    shares = minimums.copy()
    for column in range(len(total)):
        shares[:, column] = _weighted_share(
            float(total[column]), weights, minimums[:, column], maximums[:, column]
        )
    return shares


def _weighted_share(total: float, weights: Vector, minimum: Vector, maximum: Vector) -> Vector:
    """Computes one resource: finds the level among those at which a queue reaches its minimum or its maximum."""
    if maximum.sum() <= total:
        return maximum
    growing = (weights > 0) & (maximum > minimum)
    left = total - minimum.sum()
    if left <= 0 or not growing.any():
        return minimum
    starts = minimum[growing] / weights[growing]
    stops = maximum[growing] / weights[growing]
    levels = np.concatenate([starts, stops])
    slopes = np.concatenate([weights[growing], -weights[growing]])
    order = np.argsort(levels, kind="stable")
    levels, slopes = levels[order], np.cumsum(slopes[order])
    divided = np.concatenate([[0.0], np.cumsum(np.diff(levels) * slopes[:-1])])  # at each level
    at = int(np.searchsorted(divided, left, side="right")) - 1
    level = levels[at] + (left - divided[at]) / slopes[at] if slopes[at] > 0 else levels[at]
    shares: Vector = np.clip(level * weights, minimum, maximum)
    return shares


def divide_by_weight(
    total: Vector,
    demands: Mapping[str, QueueDemand],
    children: Mapping[str, Sequence[str]],
    root: str,
) -> dict[str, Vector]:
    """Returns every queue's share of `total`: each parent's share is divided among its children.

    Siblings therefore borrow from each other first. `demands` has every queue below `root`, with that of a parent for
    its whole subtree (see `subtree_demands`).
    """
    shares = {root: total}
    pending = [root]
    while pending:
        parent = pending.pop()
        names = children.get(parent, ())
        if not names:
            continue
        rows = [demands[name] for name in names]
        divided = weighted_shares(
            shares[parent],
            np.array([row.weight for row in rows], dtype=np.float64),
            np.array([row.minimum for row in rows]),
            np.array([row.maximum for row in rows]),
        )
        shares.update(zip(names, divided, strict=True))
        pending.extend(names)
    return shares


def subtree_demands(
    own: Mapping[str, QueueDemand], children: Mapping[str, Sequence[str]], root: str
) -> dict[str, QueueDemand]:
    """Returns the demands of whole subtrees: a parent's is the sum of its children's, at least its own minimum.

    `own[parent].maximum` is the parent's own limit; requests of its own jobs add nothing.
    """
    demands: dict[str, QueueDemand] = {}

    def visit(name: str) -> QueueDemand:
        below = [visit(child) for child in children.get(name, ())]
        demand = own[name]
        if below:
            minimum = np.maximum(demand.minimum, np.sum([each.minimum for each in below], axis=0))
            requested = np.sum([each.maximum for each in below], axis=0)
            maximum = np.maximum(np.minimum(requested, demand.maximum), minimum)
            demand = QueueDemand(demand.weight, minimum, maximum)
        demands[name] = demand
        return demand

    for top in children.get(root, ()):
        visit(top)
    return demands


def proportional_shares(
    tree: QueueTree,
    limits: Mapping[str, Vector],
    guaranteed: Mapping[str, Vector],
    requested: Mapping[str, Vector],
    total: Vector,
) -> dict[str, Vector]:
    """Returns shares by weight of whole subtrees, at most what they request, and of the own jobs of parents."""
    zero = np.zeros(len(total))
    own: dict[str, QueueDemand] = {}
    children = {name: list(below) for name, below in tree.children.items()}
    for name in tree.parent:
        weight, limit, wanted = tree.queues[name].weight, limits[name], requested.get(name, zero)
        if tree.is_leaf(name):
            own[name] = QueueDemand(weight, guaranteed[name], np.minimum(wanted, limit))
            continue
        own[name] = QueueDemand(weight, guaranteed[name], limit)
        if wanted.any():
            own[name + OWN] = QueueDemand(1, zero, np.minimum(wanted, limit))
            children[name].append(name + OWN)
    return divide_by_weight(total, subtree_demands(own, children, ROOT_QUEUE), children, ROOT_QUEUE)


def own_shares(shares: Mapping[str, Vector]) -> dict[str, Vector]:
    """Returns the share of each queue; of a parent, the part of its own jobs, if any."""
    own = {name.removesuffix(OWN): part for name, part in shares.items() if name.endswith(OWN)}
    return {**shares, **own}
