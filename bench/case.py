"""One measured case: metrics and targets."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Case:
    """One row. A target's name is a metric's with the bound as prefix: `min:` or `max:`."""

    bench: str
    case: str
    metrics: dict[str, float]
    targets: dict[str, float] = field(default_factory=dict)

    def missed(self) -> list[str]:
        """Targets that were not met."""
        return [
            name
            for name, bound in self.targets.items()
            if (value := self.metrics.get(name.partition(":")[2])) is None
            or (value < bound if name.startswith("min:") else value > bound)
        ]


# `scale` is the size of the run: 1.0 for the full sizes, less for a quick run.
Cases = Callable[[float], Iterator[Case]]
