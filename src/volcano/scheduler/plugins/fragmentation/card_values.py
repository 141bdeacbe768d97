"""Card values: what each free share of a card is worth, given the shares that pods request.

The prices of the shares are the dual prices of the cutting-stock problem "the fewest cards for this mix of requests",
solved by column generation (Gilmore and Gomory): a share that leaves a rest which no other request fits into has the
price of a whole card. A free share is worth the most expensive set of requests that fits into it.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from volcano.model.resources import Vector

WHOLE = 100  # shares are in percent of a card
TOLERANCE = 1e-9
STEPS = 500  # upper bound; about three steps per distinct share are needed

Counts = NDArray[np.int64]


def card_values(requests: Mapping[int, float]) -> Vector:
    """Returns the value of each free share of a card, 0 to 100 percent; a whole card is worth 1.

    `requests` has the number of pods by share; without any, the value is the share itself.
    """
    shares = np.array(sorted(share for share, count in requests.items() if count > 0), dtype=np.int64)
    if not len(shares):
        return np.arange(WHOLE + 1) / WHOLE
    demand = np.array([requests[share] for share in shares.tolist()], dtype=np.float64)
    values, _ = _fill(shares, share_prices(shares, demand))
    return values


def share_prices(shares: Counts, demand: Vector) -> Vector:
    """Returns the price of each share, in cards: the dual prices of covering the demand with the fewest cards."""
    # Each column of `patterns` is one way to divide a card; at first, one pattern for each share.
    patterns = np.diag(WHOLE // shares).astype(np.float64)
    cost = np.ones(len(shares))  # 1 for a card, 0 for requests beyond the demand
    used = np.linalg.solve(patterns, demand)
    for _ in range(STEPS):
        prices = np.linalg.solve(patterns.T, cost).astype(np.float64)
        entering, entering_cost = _improving_pattern(shares, prices)
        if entering is None:
            break
        change = np.linalg.solve(patterns, entering)
        shrinking = np.flatnonzero(change > TOLERANCE)
        ratios = used[shrinking] / change[shrinking]
        leaving = shrinking[ratios.argmin()]
        used = used - ratios.min() * change
        used[leaving] = ratios.min()
        patterns[:, leaving], cost[leaving] = entering, entering_cost
    found: Vector = np.maximum(prices, 0.0)
    return found


def _improving_pattern(shares: Counts, prices: Vector) -> tuple[Vector | None, float]:
    """Returns a pattern that saves cards at these prices, and its cost; None when there is none."""
    if prices.min() < -TOLERANCE:  # more of this share than requested costs nothing
        surplus = np.zeros(len(shares))
        surplus[prices.argmin()] = -1.0
        return surplus, 0.0
    values, last = _fill(shares, prices)
    if values[WHOLE] <= 1 + TOLERANCE:
        return None, 0.0
    pattern = np.zeros(len(shares))
    left = WHOLE
    while left > 0 and last[left] >= 0:
        pattern[last[left]] += 1
        left -= int(shares[last[left]])
    return pattern, 1.0


def _fill(shares: Counts, prices: Vector) -> tuple[Vector, Counts]:
    """Returns, for each free share, the price of the most expensive set of requests in it, and one of the set."""
    values = np.zeros(WHOLE + 1)
    last = np.full(WHOLE + 1, -1, dtype=np.int64)
    for free in range(1, WHOLE + 1):
        fitting = shares <= free
        if fitting.any():
            totals = np.where(fitting, prices + values[np.maximum(free - shares, 0)], -1.0)
            best = int(totals.argmax())
            values[free], last[free] = totals[best], best
    return values, last
