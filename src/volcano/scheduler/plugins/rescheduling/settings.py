"""Arguments of rescheduling."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from volcano.model.resources import Vector
from volcano.scheduler.engine.arguments import Argument, Arguments, Finding, Type, check_map
from volcano.scheduler.engine.load_settings import COLLECTED_PERIOD

LOW_NODE_UTILIZATION = "lowNodeUtilization"
STRATEGIES = (LOW_NODE_UTILIZATION,)
DIMENSIONS = ("cpu", "memory", "pods")
DEFAULT_INTERVAL = 300.0
VOLCANO_PERIOD = "5m"  # Volcano's default, although it collects averages of ten minutes only
SPARED_CLASS = "system-cluster-critical"


def _check_period(value: str) -> Iterator[Finding]:
    if value != COLLECTED_PERIOD:
        yield Finding((), f"is {value}; averages of {COLLECTED_PERIOD} are collected and used", True)


def _check_strategies(value: list[Any]) -> Iterator[Finding]:
    for index, strategy in enumerate(value):
        yield from check_map(strategy, STRATEGY_FIELDS, (index,))
        if isinstance(strategy, dict) and "name" not in strategy:
            yield Finding((index,), f"has no name; choose from {', '.join(STRATEGIES)}")


def _check_thresholds(value: Mapping[str, Any]) -> Iterator[Finding]:
    return check_map(value, THRESHOLDS)


def _check_params(value: Mapping[str, Any]) -> Iterator[Finding]:
    """Checks the parameters; a node below its thresholds must not be above its targets."""
    findings = list(check_map(value, PARAMETERS))
    yield from findings
    if all(finding.is_warning for finding in findings):
        least, most = (value.get(name) or {} for name in ("thresholds", "targetThresholds"))
        for name in DIMENSIONS:
            if least.get(name, 100) > most.get(name, 100) and name in least:
                text = f"is {most.get(name, 100)}; it must be at least that of thresholds, {least[name]}"
                yield Finding(("targetThresholds", name), text)


THRESHOLDS = tuple(
    Argument(name, Type.INTEGER, lambda value: 0 <= value <= 100, "a percentage from 0 to 100")
    for name in DIMENSIONS
)
PARAMETERS = (
    Argument("thresholds", Type.MAP, inner=_check_thresholds),
    Argument("targetThresholds", Type.MAP, inner=_check_thresholds),
    Argument("thresholdPriorityClassName", Type.TEXT),
    Argument("nodeFit", Type.BOOLEAN),
)
STRATEGY_FIELDS = (
    Argument("name", Type.TEXT, lambda value: value in STRATEGIES, f"one of {', '.join(STRATEGIES)}"),
    Argument("params", Type.MAP, inner=_check_params),
)
ARGUMENTS = (
    Argument("interval", Type.DURATION),
    Argument(
        "metricsPeriod",
        Type.TEXT,
        lambda value: value in (COLLECTED_PERIOD, VOLCANO_PERIOD),
        f"{COLLECTED_PERIOD}, the period that values are averaged over",
        inner=_check_period,
    ),
    Argument("strategies", Type.LIST, inner=_check_strategies),
)


@dataclass(frozen=True, slots=True)
class LowNodeUtilization:
    """Parameters of the strategy: percentages of cpu, memory and pods."""

    thresholds: Vector  # (3,): nodes below all of them are underused
    targets: Vector  # (3,): nodes above one of them are overused
    spared_class: str
    node_fit: bool


def parse_strategies(arguments: Arguments) -> tuple[LowNodeUtilization, ...]:
    given = arguments.value("strategies") or [{"name": LOW_NODE_UTILIZATION}]
    return tuple(_parameters(Arguments(strategy.get("params") or {})) for strategy in given)


def _parameters(given: Arguments) -> LowNodeUtilization:
    def percentages(name: str) -> Vector:
        found = given.value(name) or {}
        return np.array([float(found.get(dimension, 100)) for dimension in DIMENSIONS])

    return LowNodeUtilization(
        percentages("thresholds"),
        percentages("targetThresholds"),
        given.text("thresholdPriorityClassName", SPARED_CLASS),
        given.boolean("nodeFit", default=True),
    )
