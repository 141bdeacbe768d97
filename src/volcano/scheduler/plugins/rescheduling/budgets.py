"""Budgets: how much the underused nodes can take together."""

from typing import Any

from volcano.model.resources import STEP, Vector


class Budgets:
    """Amounts of cpu, memory and pods that are left."""

    def __init__(self, room: Vector) -> None:
        self._left = room

    def fits(self, amounts: Any) -> bool:
        return bool((amounts <= self._left + STEP).all())

    def take(self, amounts: Any) -> None:
        self._left = self._left - amounts
