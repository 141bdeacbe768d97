"""State of one evaluation: variables, and the cost so far."""

from collections.abc import Callable
from typing import Any

from volcano.kube.cel.errors import CostLimitExceeded


class Frame:
    """Variables by name and the cost of an evaluation. Loops and calls that depend on sizes check the limit."""

    __slots__ = ("cost", "limit", "values")

    def __init__(self, values: dict[str, Any], limit: int) -> None:
        self.values = values
        self.cost = 0
        self.limit = limit

    def spend(self, amount: int) -> None:
        """Adds to the cost. Raises `CostLimitExceeded`."""
        self.cost += amount
        if self.cost > self.limit:
            raise CostLimitExceeded


Evaluate = Callable[[Frame], Any]
