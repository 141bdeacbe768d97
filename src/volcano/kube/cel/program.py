"""Compiled CEL expressions."""

from collections.abc import Mapping
from typing import Any

from volcano.kube.cel.checker import check
from volcano.kube.cel.costs import estimate
from volcano.kube.cel.declarations import Declaration
from volcano.kube.cel.errors import CompilationError, CostLimitExceeded, SourceTooLarge
from volcano.kube.cel.frame import Frame
from volcano.kube.cel.interpreter import compile_checked
from volcano.kube.cel.library.overload import Range
from volcano.kube.cel.parser import parse
from volcano.kube.cel.types import Type
from volcano.kube.cel.validators import failed_conversion, issues

# Most cost of evaluating one expression once, as in kube-apiserver.
CALL_LIMIT = 1_000_000


class InvalidExpression(ValueError):
    """The expression does not compile."""


class Program:
    """An expression that was parsed and checked; `result` is its type, `cost` the estimate."""

    __slots__ = ("_evaluate", "cost", "result", "source", "variables")

    def __init__(self, source: str, variables: Mapping[str, Declaration], *, bindings: bool = False) -> None:
        """`bindings` allows `cel.bind`. Raises `InvalidExpression`."""
        self.source = source
        try:
            checked = check(source, parse(source, bindings=bindings), variables)
            if found := issues(checked):
                raise CompilationError(source, found)
            self.result: Type = checked.result
            self.cost: Range = estimate(checked, variables)
            self._evaluate = compile_checked(checked)
        except (CompilationError, SourceTooLarge) as error:
            raise InvalidExpression(f"compilation failed: {error}") from None
        if failure := failed_conversion(checked):
            raise InvalidExpression(f"program instantiation failed: {failure}")
        self.variables = frozenset(checked.variables)

    def evaluate(self, values: dict[str, Any], limit: int = CALL_LIMIT) -> tuple[Any, int]:
        """The value of the expression and its cost. Raises `EvaluationError` or `CostLimitExceeded`."""
        frame = Frame(values, limit)
        value = self._evaluate(frame)
        if frame.cost > limit:
            raise CostLimitExceeded
        return value, frame.cost
