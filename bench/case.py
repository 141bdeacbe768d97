"""One measured case: what was measured, what came out, and what we want of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Case:
    """One row. A target's name is a metric's, with the bound in its prefix: `min:` or `max:`."""

    bench: str
    case: str
    metrics: dict[str, float]
    targets: dict[str, float] = field(default_factory=dict)

    def missed(self) -> list[str]:
        """The targets that were not met."""
        return [
            name
            for name, bound in self.targets.items()
            if (value := self.metrics.get(name.partition(":")[2])) is None
            or (value < bound if name.startswith("min:") else value > bound)
        ]


# `scale` is how large the run may be: 1.0 for the full sizes, less for a quick look.
Cases = Callable[[float], Iterator[Case]]
