"""Arguments of resource-strategy-fit: strategies by resource, scarce resources, kept proportions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from volcano.scheduler.engine.arguments import Argument, Arguments, Finding, Type, check_map

MOST, LEAST = "MostAllocated", "LeastAllocated"
STRATEGIES = (MOST, LEAST)
DEFAULT_WEIGHT = 10


class Strategy(NamedTuple):
    """How the use of one resource counts."""

    type: str = LEAST
    weight: int = 1


DEFAULT_STRATEGIES = {"cpu": Strategy(), "memory": Strategy()}


@dataclass(frozen=True, slots=True)
class ScarceResources:
    """`sra`: pods prefer nodes without these resources, unless they request them."""

    weight: int = 0
    weights: Mapping[str, int] | None = None


class Proportion(NamedTuple):
    """Cpu cores and gigabytes of memory that a node keeps free for each idle unit of a resource."""

    cpu: float
    memory: float


def _check_resources(value: Any) -> Iterator[Finding]:
    for name, strategy in value.items():
        if "*" in str(name) and (name == "*" or str(name).find("*") != len(name) - 1):
            yield Finding(
                (name,),
                "is not a valid pattern; it must be a resource name with at most one * at its end, such as "
                "cloudml.gpu/*",
            )
        yield from check_map(strategy, STRATEGY_FIELDS, (name,))


STRATEGY_FIELDS = (
    Argument("type", Type.TEXT, lambda value: value in STRATEGIES, " or ".join(STRATEGIES)),
    Argument("weight"),
)
SRA_FIELDS = (
    Argument("enable", Type.BOOLEAN),
    Argument("resources", Type.TEXT),
    Argument("weight"),
    Argument("resourceWeight", Type.MAP, inner=lambda value: check_map(value, (Argument("*"),))),
)
PROPORTIONAL_FIELDS = (
    Argument("enable", Type.BOOLEAN),
    Argument("resources", Type.TEXT),
    Argument(
        "resourceProportion", Type.MAP, inner=lambda value: check_map(value, (Argument("*", Type.NUMBER),))
    ),
)
ARGUMENTS = (
    Argument("resourceStrategyFitWeight"),
    Argument("resources", Type.MAP, inner=_check_resources),
    Argument("sra", Type.MAP, inner=lambda value: check_map(value, SRA_FIELDS)),
    Argument("proportional", Type.MAP, inner=lambda value: check_map(value, PROPORTIONAL_FIELDS)),
)


@dataclass(frozen=True, slots=True)
class Settings:
    """The plugin's arguments with defaults."""

    weight: int
    strategies: Mapping[str, Strategy]  # by resource name or pattern
    scarce: ScarceResources
    proportions: Mapping[str, Proportion]

    def strategy(self, resource: str) -> Strategy | None:
        """Returns the strategy of a resource: that of its name, or of the longest pattern that matches."""
        exact = self.strategies.get(resource)
        if exact is not None:
            return exact
        patterns = [name for name in self.strategies if name.endswith("*") and resource.startswith(name[:-1])]
        return self.strategies[max(patterns, key=len)] if patterns else None


def parse_settings(arguments: Arguments) -> Settings:
    weight = arguments.integer("resourceStrategyFitWeight", DEFAULT_WEIGHT)
    strategies = {
        name: Strategy(given.get("type", LEAST), max(given.get("weight", 1), 0) or 1)
        for name, given in (arguments.value("resources") or {}).items()
    }
    return Settings(
        weight if weight >= 0 else DEFAULT_WEIGHT,
        strategies or DEFAULT_STRATEGIES,
        _scarce(Arguments(arguments.value("sra", {}))),
        _proportions(Arguments(arguments.value("proportional", {}))),
    )


def _scarce(given: Arguments) -> ScarceResources:
    if not given.boolean("enable"):
        return ScarceResources()
    weights = Arguments(given.value("resourceWeight") or {})
    return ScarceResources(
        max(given.integer("weight", 1), 0),
        {name: int(_or_one(weights.integer(name, 1))) for name in given.strings("resources")},
    )


def _proportions(given: Arguments) -> dict[str, Proportion]:
    if not given.boolean("enable"):
        return {}
    ratios = Arguments(given.value("resourceProportion") or {})
    return {
        name: Proportion(
            _or_one(ratios.number(f"{name}.cpu", 1.0)), _or_one(ratios.number(f"{name}.memory", 1.0))
        )
        for name in given.strings("resources")
    }


def _or_one(value: float) -> float:
    """The value, or 1 when it is negative."""
    return value if value >= 0 else 1.0
