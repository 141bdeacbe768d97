"""Overloads of functions: types, implementation, and cost before and after a call."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from volcano.kube.cel.syntax import Expression
from volcano.kube.cel.types import Type, has_parameters
from volcano.kube.cel.values import size_of

LARGEST = 2**64 - 1
# Cost of reading one character, and of one character of a regular expression.
STRING_FACTOR, REGEX_FACTOR = 0.1, 0.25


class Range(NamedTuple):
    """Least and most of a size or cost; sums and products stop at the largest 64-bit number."""

    least: int
    most: int

    def plus(self, other: "Range") -> "Range":
        return Range(min(self.least + other.least, LARGEST), min(self.most + other.most, LARGEST))

    def times(self, other: "Range") -> "Range":
        return Range(min(self.least * other.least, LARGEST), min(self.most * other.most, LARGEST))

    def scaled(self, factor: float) -> "Range":
        return Range(_scaled(self.least, factor), _scaled(self.most, factor))

    def union(self, other: "Range") -> "Range":
        return Range(min(self.least, other.least), max(self.most, other.most))


def _scaled(number: int, factor: float) -> int:
    return min(math.ceil(number * factor), LARGEST) if number < LARGEST else _of_largest(factor)


def _of_largest(factor: float) -> int:
    return LARGEST if factor >= 1 else math.ceil(LARGEST * factor)


ONE, UNKNOWN = Range(1, 1), Range(0, LARGEST)


class Estimate(NamedTuple):
    """Cost of a call without its arguments, and the size of its result where known."""

    cost: Range
    size: Range | None = None


class Sizes(Protocol):
    """Sizes of the operands of a call, as far as the schema bounds them."""

    def of(self, node: Expression) -> Range: ...

    def of_items(self, node: Expression) -> tuple[Type | None, Range]: ...


# Receiver first. None: the default cost of 1.
Estimator = Callable[[Sizes, list[Expression]], Estimate]
# Cost of a call that was made: its arguments, receiver first, and its result.
Price = Callable[[tuple[Any, ...], Any], int]


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function; `method` says that the first parameter is the receiver."""

    parameters: tuple[Type, ...]
    result: Type
    call: Callable[..., Any]
    method: bool = False
    estimate: Estimator | None = None
    price: Price | None = None
    # Whether the types have parameters.
    generic: bool = False
    # Added to the price, for functions that take much longer in Python than in Go.
    overhead: int = 0


Table = dict[str, list[Overload]]


class Definitions:
    """Collects the overloads of a library; `overhead` is added to the price of all of its functions."""

    def __init__(self, overhead: int = 0) -> None:
        self.table: Table = {}
        self._overhead = overhead

    def function(
        self,
        name: str,
        parameters: tuple[Type, ...],
        result: Type,
        call: Callable[..., Any],
        *,
        method: bool = False,
        estimate: Estimator | None = None,
        price: Price | None = None,
        overhead: int | None = None,
    ) -> None:
        generic = any(map(has_parameters, (*parameters, result)))
        cost = self._overhead if overhead is None else overhead
        overload = Overload(parameters, result, call, method, estimate, price, generic, cost)
        self.table.setdefault(name, []).append(overload)

    def method(
        self,
        name: str,
        parameters: tuple[Type, ...],
        result: Type,
        call: Callable[..., Any],
        *,
        estimate: Estimator | None = None,
        price: Price | None = None,
        overhead: int | None = None,
    ) -> None:
        self.function(
            name, parameters, result, call,
            method=True, estimate=estimate, price=price, overhead=overhead,
        )  # fmt: skip


# -- common estimates and prices -------------------------------------------------------------------------------------


def traversal(operand: int, factor: float = STRING_FACTOR, *, same_size: bool = False) -> Estimator:
    """Estimate of a function that reads a string once."""

    def estimate(sizes: Sizes, operands: list[Expression]) -> Estimate:
        size = sizes.of(operands[operand])
        return Estimate(size.scaled(factor), size if same_size else None)

    return estimate


def traversal_price(operand: int, factor: float = STRING_FACTOR) -> Price:
    """Price of a function that reads a string once."""
    return lambda arguments, result: math.ceil(size_of(arguments[operand]) * factor)


def regex(sizes: Sizes, operands: list[Expression]) -> Estimate:
    """Estimate of searching a pattern: length of the text times length of the pattern."""
    text = sizes.of(operands[0])
    cost = text.plus(ONE).scaled(STRING_FACTOR).times(sizes.of(operands[1]).scaled(REGEX_FACTOR))
    return Estimate(cost, Range(0, text.most))


def regex_price(arguments: tuple[Any, ...], result: Any) -> int:
    text = math.ceil((1 + size_of(arguments[0])) * STRING_FACTOR)
    return text * math.ceil(size_of(arguments[1]) * REGEX_FACTOR)
