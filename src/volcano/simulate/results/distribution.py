"""Distribution of a figure over many jobs, in bounded memory."""

import math
from array import array
from collections.abc import Sequence

EXACT = 100_000  # values up to which quantiles are exact
ACCURACY = 0.005  # relative error of quantiles beyond that
_BASE = math.log1p(2 * ACCURACY)
_SMALLEST = 1e-6


class Distribution:
    """Values that are 0 or more: exact count, mean and extremes; quantiles exact, or to 0.5 % when there are many."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.largest = 0.0
        self._values: array[float] | None = array("d")
        self._buckets: dict[int, int] = {}

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.largest = max(self.largest, value)
        if self._values is None:
            self._put(value)
            return
        self._values.append(value)
        if len(self._values) > EXACT:
            for known in self._values:
                self._put(known)
            self._values = None

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    def quantile(self, share: float) -> float:
        """The smallest value that at least this share of the values does not exceed; 0 without values."""
        return self.quantiles((share,))[0]

    def quantiles(self, shares: Sequence[float]) -> list[float]:
        """Quantiles of ascending shares."""
        if not self.count:
            return [0.0] * len(shares)
        ranks = [max(math.ceil(share * self.count), 1) for share in shares]
        if self._values is not None:
            ordered = sorted(self._values)
            return [ordered[rank - 1] for rank in ranks]
        found: list[float] = []
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            while len(found) < len(ranks) and seen >= ranks[len(found)]:
                found.append(min(_middle(bucket), self.largest))
        return found + [self.largest] * (len(ranks) - len(found))

    def _put(self, value: float) -> None:
        bucket = -1 if value < _SMALLEST else int(math.log(value / _SMALLEST) / _BASE)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1


def _middle(bucket: int) -> float:
    return 0.0 if bucket < 0 else _SMALLEST * math.exp(_BASE * (bucket + 0.5))
