"""Estimated load of pods that no measurement shows yet."""

from dataclasses import dataclass

import numpy as np

from volcano.kube.api import quantity
from volcano.model.resources import Vector
from volcano.model.task import Shape
from volcano.scheduler.engine.arguments import Argument, Arguments, Type, is_integer

MIB = 1024 * 1024.0
DIMENSIONS = ("cpu", "memory")
ESTIMATOR_ARGUMENTS = (
    Argument("estimator.request_ratio", Type.NUMBER, lambda value: 0 <= value <= 1, "0 to 1"),
    Argument("estimator.burst_ratio", Type.NUMBER, lambda value: 0 <= value <= 1, "0 to 1"),
    Argument("estimator.risk_threshold", Type.NUMBER, lambda value: 0 <= value <= 1, "0 to 1"),
    Argument("estimator.risk_factor", Type.NUMBER, lambda value: value >= 1, "at least 1"),
    Argument(
        "estimator.be_cpu", Type.ANY, lambda value: _is_amount(value), "thousandths of a cpu, or a quantity"
    ),
    Argument("estimator.be_mem", Type.ANY, lambda value: _is_amount(value), "a number of MiB, or a quantity"),
)


def _is_amount(value: object) -> bool:
    if is_integer(value):
        return value >= 0
    try:
        return isinstance(value, str) and quantity.parse(value) >= 0
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Estimator:
    """Estimates the load of one pod, in thousandths of a cpu and bytes."""

    request_ratio: float
    burst_ratio: float
    risk_threshold: float  # of the weighted load of the node
    risk_factor: float
    best_effort: Vector

    @classmethod
    def of(cls, arguments: Arguments) -> "Estimator":
        cpu, memory = arguments.value("estimator.be_cpu", 250), arguments.value("estimator.be_mem", 200)
        return cls(
            arguments.number("estimator.request_ratio", 0.7),
            arguments.number("estimator.burst_ratio", 0.0),
            arguments.number("estimator.risk_threshold", 0.6),
            arguments.number("estimator.risk_factor", 1.2),
            np.array(
                [
                    float(cpu) if is_integer(cpu) else quantity.milli(cpu),
                    memory * MIB if is_integer(memory) else quantity.units(memory),
                ]
            ),
        )

    def load(self, shape: Shape, *, risky: bool) -> Vector:
        """(2,): the load of a pod of this shape, on a node that is loaded beyond the threshold or not."""
        risk = self.risk_factor if risky else 1.0
        if shape.best_effort:
            return self.best_effort * risk
        request: Vector = shape.request[:2]
        limit = np.maximum([shape.limits.get(name, 0.0) for name in DIMENSIONS], request)
        estimated = (request * self.request_ratio + (limit - request) * self.burst_ratio) * risk
        found: Vector = np.clip(estimated, 0.0, limit)
        return found
