"""GPU sharing by memory or number of cards: names and text formats shared with Volcano's first device plugin."""

from collections.abc import Iterable
from typing import Final

# Resources, in the limits of containers and in the capacity of nodes.
MEMORY: Final = "volcano.sh/gpu-memory"  # of all cards together, MiB by convention
NUMBER: Final = "volcano.sh/gpu-number"

UNHEALTHY: Final = "volcano.sh/gpu-unhealthy-ids"  # of nodes
INDEX: Final = "volcano.sh/gpu-index"  # of pods, set by the scheduler: "0" or "0,2"
TIME: Final = "volcano.sh/predicate-time"  # of pods, set by the scheduler: unix nanoseconds
ASSIGNED: Final = "volcano.sh/gpu-assigned"  # of pods, set by the device plugin: "true"
LOCK: Final = "gpu"  # of nodes: RFC 3339 time at which the scheduler assigned a card not handed out yet


def parse_index(text: str) -> tuple[int, ...]:
    """Returns the cards of a pod. Raises ValueError."""
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise ValueError(f"{text!r} should be indexes of cards separated by commas, such as 0,2")
    return tuple(map(int, parts))


def format_index(cards: Iterable[int]) -> str:
    return ",".join(map(str, cards))


def parse_unhealthy(text: str) -> frozenset[int]:
    """Returns the unhealthy cards of a node. Entries that are no index are ignored, as in Volcano."""
    parts = (part.strip() for part in text.split(","))
    return frozenset(int(part) for part in parts if part.isascii() and part.isdecimal())
