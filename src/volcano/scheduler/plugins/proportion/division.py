"""Dividing a cluster by weight: water is poured into every queue at the pace of its weight until all of it is gone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Claim:
    """What one queue brings to the division, in resource columns."""

    weight: float
    floor: Vector  # never less than this: the guarantee
    ceiling: Vector  # never more than this: what it asks for, within what it may have


def pour(total: Vector, weights: Vector, floors: Matrix, ceilings: Matrix) -> Matrix:
    """Shares (queues, resources) at the water level that spends `total`, per resource.

    A share is `level x weight`, but at least the floor and at most the ceiling. The level is the one at which
    the shares add up to the total; where all ceilings together ask for less, everybody gets the ceiling, and
    where the floors alone ask for more, everybody gets the floor.
    """
    ceilings = np.maximum(ceilings, floors)
    shares = floors.copy()
    for column in range(len(total)):
        shares[:, column] = _pour_one(float(total[column]), weights, floors[:, column], ceilings[:, column])
    return shares


def _pour_one(total: float, weights: Vector, floor: Vector, ceiling: Vector) -> Vector:
    """One resource: walk the levels at which a queue starts or stops rising, up to the one that spends the total."""
    if ceiling.sum() <= total:
        return ceiling
    thirsty = (weights > 0) & (ceiling > floor)
    spare = total - floor.sum()
    if spare <= 0 or not thirsty.any():
        return floor
    starts = floor[thirsty] / weights[thirsty]
    stops = ceiling[thirsty] / weights[thirsty]
    levels = np.concatenate([starts, stops])
    paces = np.concatenate([weights[thirsty], -weights[thirsty]])
    order = np.argsort(levels, kind="stable")
    levels, paces = levels[order], np.cumsum(paces[order])
    poured = np.concatenate([[0.0], np.cumsum(np.diff(levels) * paces[:-1])])
    at = int(np.searchsorted(poured, spare, side="right")) - 1
    level = levels[at] + (spare - poured[at]) / paces[at] if paces[at] > 0 else levels[at]
    shares: Vector = np.clip(level * weights, floor, ceiling)
    return shares


def divide(
    total: Vector,
    claims: Mapping[str, Claim],
    children: Mapping[str, Sequence[str]],
    root: str,
) -> dict[str, Vector]:
    """Every queue's share of `total`: each parent's share is poured among its children, so siblings borrow first.

    `claims` holds a claim for every queue below `root`; `children` names them level by level. A parent's claim
    is what its subtree claims together, within its own limits (see `gather`).
    """
    shares = {root: total}
    pending = [root]
    while pending:
        parent = pending.pop()
        names = children.get(parent, ())
        if not names:
            continue
        rows = [claims[name] for name in names]
        poured = pour(
            shares[parent],
            np.array([row.weight for row in rows], dtype=np.float64),
            np.array([row.floor for row in rows]),
            np.array([row.ceiling for row in rows]),
        )
        shares.update(zip(names, poured, strict=True))
        pending.extend(names)
    return shares


def gather(own: Mapping[str, Claim], children: Mapping[str, Sequence[str]], root: str) -> dict[str, Claim]:
    """Claims of whole subtrees: a parent claims what its children claim, at least its own floor.

    `own[parent].ceiling` is what the parent itself may have; what it asks for on its own account adds nothing.
    """
    claims: dict[str, Claim] = {}

    def visit(name: str) -> Claim:
        below = [visit(child) for child in children.get(name, ())]
        claim = own[name]
        if below:
            floor = np.maximum(claim.floor, np.sum([each.floor for each in below], axis=0))
            asked = np.sum([each.ceiling for each in below], axis=0)
            claim = Claim(claim.weight, floor, np.maximum(np.minimum(asked, claim.ceiling), floor))
        claims[name] = claim
        return claim

    for top in children.get(root, ()):
        visit(top)
    return claims
