"""Arguments of the plugin `fairshare`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from volcano.model.resources import ResourceIndex, Vector
from volcano.scheduler.engine.arguments import Argument, Arguments, Finding, Type, is_number

DAY = 86400.0
GIB = 1024.0**3
# Price of one unit of a resource for one second: a core, a GiB, a device.
PRICES: Mapping[str, float] = {"cpu": 1.0, "memory": 0.25, "nvidia.com/gpu": 16.0}
PRICE_PREFIX = "fairshare.resources."


def _check_weight(value: Any) -> bool:
    return bool(0 <= value <= 1e9)


def _weight(name: str) -> Argument:
    return Argument(name, Type.NUMBER, _check_weight, "at least 0 and at most 1e9")


def _prices(value: Any) -> Iterator[Finding]:
    for name, price in value.items():
        if not is_number(price) or not _check_weight(price):
            yield Finding((name,), f"is {price!r}; it must be a number, unquoted, at least 0 and at most 1e9")


ARGUMENTS = (
    Argument("fairshare.halfLife", Type.DURATION, lambda value: not _is_zero(value), "longer than 0"),
    Argument("fairshare.maxAge", Type.DURATION, lambda value: not _is_zero(value), "longer than 0"),
    Argument("fairshare.favorSmall", Type.BOOLEAN),
    _weight("fairshare.weight.priority"),
    _weight("fairshare.weight.age"),
    _weight("fairshare.weight.size"),
    _weight("fairshare.weight.fairshare"),
    Argument("fairshare.resources", Type.MAP, inner=_prices),
)


def _is_zero(value: str) -> bool:
    return Arguments({"value": value}).duration("value") <= 0


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the factors of a job's priority."""

    priority: float = 1000.0
    age: float = 10.0
    size: float = 0.0
    fairshare: float = 1000.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Arguments, with defaults for those that are not given."""

    half_life: float = 7 * DAY  # seconds
    max_age: float = 7 * DAY  # seconds after which the age factor is 1
    favor_small: bool = False
    weights: Weights = field(default_factory=Weights)
    prices: Mapping[str, float] = field(default_factory=lambda: PRICES)

    @classmethod
    def of(cls, arguments: Arguments) -> "Settings":
        default = Weights()
        return cls(
            arguments.duration("fairshare.halfLife", 7 * DAY),
            arguments.duration("fairshare.maxAge", 7 * DAY),
            arguments.boolean("fairshare.favorSmall"),
            Weights(
                arguments.number("fairshare.weight.priority", default.priority),
                arguments.number("fairshare.weight.age", default.age),
                arguments.number("fairshare.weight.size", default.size),
                arguments.number("fairshare.weight.fairshare", default.fairshare),
            ),
            {name: float(price) for name, price in arguments.value("fairshare.resources", PRICES).items()},
        )

    def price_vector(self, index: ResourceIndex) -> Vector:
        """Prices per unit of the resource vectors: milli-cores, bytes, thousandths of devices."""
        return index.vector({name: price / units(name) for name, price in self.prices.items()})


def units(name: str) -> float:
    """How many units of a resource vector one priced unit has."""
    if name == "memory":
        return GIB
    if name == "ephemeral-storage" or name.startswith("hugepages-"):
        return GIB * 1000
    return 1.0 if name == "pods" else 1000.0
