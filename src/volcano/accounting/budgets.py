"""Budgets of queues: how much of a resource a queue may use in a day, week or month.

The annotation is a list such as `nvidia.com/gpu=1000h/month, memory=64Gih/day`: hours of one unit of the resource.
"""

import re
from dataclasses import dataclass
from typing import Final

from volcano.accounting.api import PERIODS
from volcano.kube.api import quantity

EXAMPLE: Final = "nvidia.com/gpu=1000h/month"
_ENTRY: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._/-]*)=([0-9.]+[A-Za-z]{0,2}?)h/([a-z]+)")


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit of one resource."""

    resource: str
    limit: float  # resource-seconds
    period: str  # day, week or month
    text: str  # as written


def parse_budgets(text: str) -> tuple[Budget, ...]:
    """Parses the annotation. Raises ValueError that says what is wrong and what would be right."""
    found: list[Budget] = []
    for entry in (part.strip() for part in text.split(",")):
        if entry:
            found.append(_budget(entry))
    if not found:
        raise ValueError(f"it is empty; such as {EXAMPLE}")
    pairs = [(budget.resource, budget.period) for budget in found]
    for pair in pairs:
        if pairs.count(pair) > 1:
            raise ValueError(f"{pair[0]} has two budgets for a {pair[1]}; keep one")
    return tuple(found)


def _budget(entry: str) -> Budget:
    parts = _ENTRY.fullmatch(entry)
    if parts is None:
        raise ValueError(f"{entry!r} should be RESOURCE=AMOUNTh/PERIOD, such as {EXAMPLE}")
    resource, amount, period = parts.groups()
    if period not in PERIODS:
        raise ValueError(f"{entry!r}: the period is {period!r}; choose from {', '.join(PERIODS)}")
    try:
        limit = float(quantity.parse(amount)) * 3600
    except ValueError:
        raise ValueError(f"{entry!r}: {amount!r} is no amount such as 1000 or 64Gi") from None
    if limit <= 0:
        raise ValueError(f"{entry!r}: the amount must be greater than 0")
    return Budget(resource, limit, period, entry)
