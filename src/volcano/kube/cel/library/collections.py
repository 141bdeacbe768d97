"""Functions of lists, sets, maps and optionals."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

from volcano.kube.cel import types
from volcano.kube.cel.errors import CostLimitExceeded, EvaluationError
from volcano.kube.cel.library.overload import (
    ONE,
    STRING_FACTOR,
    Definitions,
    Estimate,
    Price,
    Range,
    Sizes,
)
from volcano.kube.cel.syntax import Expression, Literal
from volcano.kube.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
)
from volcano.kube.cel.values import (
    NONE,
    Duration,
    Optional,
    Timestamp,
    Uint,
    compare,
    equal,
    integer,
    size_of,
    span,
    unsigned,
)

COLLECTIONS = Definitions(overhead=2)
_define, _method = COLLECTIONS.function, COLLECTIONS.method
_A, _K, _V = types.parameter("A"), types.parameter("K"), types.parameter("V")
_LIST, _MAP, _OPTIONAL = types.list_of(_A), types.map_of(_K, _V), types.optional_of(_A)
_COMPARABLE = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
MOST_ITEMS = 1_000_000


# -- Kubernetes' lists -----------------------------------------------------------------------------------------------


def traversed(value: Any) -> int:
    """Price of reading a value with everything in it."""
    if isinstance(value, str):
        return int(len(value.encode("utf-8", "replace")) * STRING_FACTOR)
    if isinstance(value, bytes):
        return int(len(value) * STRING_FACTOR)
    if isinstance(value, list):
        return sum(map(traversed, value))
    if isinstance(value, dict):
        return sum(traversed(key) + traversed(item) for key, item in value.items())
    return 1


def _read_price(arguments: tuple[Any, ...], result: Any) -> int:
    return traversed(arguments[0])


def _read(sizes: Sizes, operands: list[Expression]) -> Estimate:
    type_, item = sizes.of_items(operands[0])
    each = ONE.plus(item.scaled(STRING_FACTOR)) if type_ in (STRING, BYTES) else ONE
    return Estimate(sizes.of(operands[0]).times(each))


def _is_sorted(values: list[Any]) -> bool:
    return all(compare(values[index], values[index + 1]) <= 0 for index in range(len(values) - 1))


def _extreme(name: str, sign: int) -> Callable[[list[Any]], Any]:
    def choose(values: list[Any]) -> Any:
        if not values:
            raise EvaluationError(f"{name} called on empty list")
        best = values[0]
        for value in values[1:]:
            if compare(value, best) == sign:
                best = value
        return best

    return choose


def _sum(zero: Any, add: Callable[[Any, Any], Any]) -> Callable[[list[Any]], Any]:
    return lambda values: functools.reduce(add, values, zero)


def _index_of(values: list[Any], item: Any) -> int:
    return next((index for index, value in enumerate(values) if equal(value, item)), -1)


def _last_index_of(values: list[Any], item: Any) -> int:
    return next((index for index in range(len(values) - 1, -1, -1) if equal(values[index], item)), -1)


for _type in _COMPARABLE:
    _of = types.list_of(_type)
    _method("isSorted", (_of,), BOOL, _is_sorted, estimate=_read, price=_read_price)
    _method("min", (_of,), _type, _extreme("min", -1), estimate=_read, price=_read_price)
    _method("max", (_of,), _type, _extreme("max", 1), estimate=_read, price=_read_price)
_SUMS: tuple[tuple[Type, Any, Callable[[Any, Any], Any]], ...] = (
    (INT, 0, lambda a, b: integer(a + b)),
    (UINT, Uint(0), lambda a, b: unsigned(a + b)),
    (DOUBLE, 0.0, lambda a, b: a + b),
    (DURATION, Duration(0), lambda a, b: span(a.nanoseconds + b.nanoseconds)),
)
for _type, _zero, _add in _SUMS:
    _method("sum", (types.list_of(_type),), _type, _sum(_zero, _add), estimate=_read, price=_read_price)
_method("indexOf", (_LIST, _A), INT, _index_of, estimate=_read, price=_read_price)
_method("lastIndexOf", (_LIST, _A), INT, _last_index_of, estimate=_read, price=_read_price)


# -- cel-go's lists --------------------------------------------------------------------------------------------------


def _slice(values: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if end > len(values):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def _flatten(values: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    return list(_flat(values, min(depth, 100)))


def _flat(values: Iterable[Any], depth: int) -> Iterable[Any]:
    for value in values:
        if isinstance(value, list) and depth > 0:
            yield from _flat(value, depth - 1)
        else:
            yield value


def _sorted_by(values: list[Any], keys: list[Any]) -> list[Any]:
    by_key = functools.cmp_to_key(compare)
    order = sorted(range(len(keys)), key=lambda index: by_key(keys[index]))
    if len({key.__class__ for key in keys}) > 1:
        raise EvaluationError("list elements must have the same type")
    return [values[index] for index in order]


def _sort(values: list[Any]) -> list[Any]:
    return _sorted_by(values, values)


def _distinct(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if not any(equal(value, other) for other in found):
            found.append(value)
    return found


def _range(end: int) -> list[int]:
    if end > MOST_ITEMS:
        raise CostLimitExceeded
    return list(range(max(end, 0)))


_NEW_LIST = Range(11, 11)  # a call and a new list


def _per_item(sizes: Sizes, operands: list[Expression]) -> Estimate:
    size = sizes.of(operands[0])
    return Estimate(size.plus(_NEW_LIST), size)


def _per_nested_item(sizes: Sizes, operands: list[Expression]) -> Estimate:
    return Estimate(_per_item(sizes, operands).cost)


def _per_pair(sizes: Sizes, operands: list[Expression]) -> Estimate:
    size = sizes.of(operands[0])
    return Estimate(size.times(size).scaled(2).plus(_NEW_LIST), size)


def _per_pair_of_keys(sizes: Sizes, operands: list[Expression]) -> Estimate:
    """cel-go binds the list to a name first."""
    estimated = _per_pair(sizes, operands)
    return Estimate(estimated.cost.plus(Range(13, 13)), estimated.size)


def _slice_cost(sizes: Sizes, operands: list[Expression]) -> Estimate:
    size = sizes.of(operands[0])
    _, start, end = operands
    if isinstance(start, Literal) and isinstance(end, Literal):
        length = max(end.value - start.value, 0)
        size = Range(length, length)
    return Estimate(size.plus(_NEW_LIST), size)


def _range_cost(sizes: Sizes, operands: list[Expression]) -> Estimate:
    end = operands[0]
    size = Range(0, MOST_ITEMS)
    if isinstance(end, Literal) and isinstance(end.value, int):
        size = Range(max(end.value, 0), max(end.value, 0))
    return Estimate(size.plus(_NEW_LIST), size)


def _price_of(*, square: bool = False) -> Price:
    """Price per item, of the argument or of the result, whichever has more."""

    def price(arguments: tuple[Any, ...], result: Any) -> int:
        size = max(size_of(arguments[0]), size_of(result))
        return (2 * size * size if square else size) + 11

    return price


_method("slice", (_LIST, INT, INT), _LIST, _slice, estimate=_slice_cost, price=_price_of())
_method(
    "flatten",
    (types.list_of(_LIST),),
    _LIST,
    _flatten,
    estimate=_per_nested_item,
    price=_price_of(),
)
_method(
    "flatten", (types.list_of(DYN), INT), types.list_of(DYN), _flatten,
    estimate=_per_nested_item, price=_price_of(),
)  # fmt: skip
_method("distinct", (_LIST,), _LIST, _distinct, estimate=_per_pair, price=_price_of(square=True))
_method("reverse", (_LIST,), _LIST, lambda values: values[::-1], estimate=_per_item, price=_price_of())
_method("first", (_LIST,), _OPTIONAL, lambda values: Optional(values[0]) if values else NONE)
_method("last", (_LIST,), _OPTIONAL, lambda values: Optional(values[-1]) if values else NONE)
_define("lists.range", (INT,), types.list_of(INT), _range, estimate=_range_cost, price=_price_of())
for _type in _COMPARABLE:
    _of = types.list_of(_type)
    _method("sort", (_of,), _of, _sort, estimate=_per_pair, price=_price_of(square=True))
    _method(
        "@sortByAssociatedKeys", (_LIST, _of), _LIST, _sorted_by,
        estimate=_per_pair_of_keys, price=_price_of(square=True),
    )  # fmt: skip


# -- sets ------------------------------------------------------------------------------------------------------------


def _contains(outer: list[Any], inner: list[Any]) -> bool:
    return all(any(equal(item, each) for each in outer) for item in inner)


def _equivalent(first: list[Any], second: list[Any]) -> bool:
    return _contains(first, second) and _contains(second, first)


def _intersects(first: list[Any], second: list[Any]) -> bool:
    return any(equal(item, other) for item in first for other in second)


def _pairs(factor: int) -> Callable[[Sizes, list[Expression]], Estimate]:
    def estimate(sizes: Sizes, operands: list[Expression]) -> Estimate:
        return Estimate(sizes.of(operands[0]).times(sizes.of(operands[1])).scaled(factor).plus(ONE))

    return estimate


def _pairs_price(factor: int) -> Price:
    return lambda arguments, result: size_of(arguments[0]) * size_of(arguments[1]) * factor + 1


for _name, _call, _factor in (
    ("sets.contains", _contains, 1),
    ("sets.equivalent", _equivalent, 2),
    ("sets.intersects", _intersects, 1),
):
    _define(_name, (_LIST, _LIST), BOOL, _call, estimate=_pairs(_factor), price=_pairs_price(_factor))


# -- optionals -------------------------------------------------------------------------------------------------------

_ZERO_VALUES = (None, False, 0, 0.0, "", b"")


def _of_non_zero(value: Any) -> Optional:
    empty = not value if isinstance(value, list | dict) else value in (Duration(0), Timestamp(0), NONE)
    if empty or (
        isinstance(value, None.__class__ | bool | int | float | str | bytes) and value in _ZERO_VALUES
    ):
        return NONE
    return Optional(value)


_define("optional.of", (_A,), _OPTIONAL, Optional)
_define("optional.ofNonZeroValue", (_A,), _OPTIONAL, _of_non_zero)
_define("optional.none", (), _OPTIONAL, lambda: NONE)
for _name in ("optional.unwrap", "unwrapOpt"):
    COLLECTIONS.function(
        _name, (types.list_of(_OPTIONAL),), _LIST, lambda values: [each.value for each in values if each.present],
        method=_name == "unwrapOpt",
    )  # fmt: skip
_method("value", (_OPTIONAL,), _A, Optional.get)
_method("hasValue", (_OPTIONAL,), BOOL, lambda value: value.present)
_method("or", (_OPTIONAL, _OPTIONAL), _OPTIONAL, lambda first, second: first if first.present else second)
_method("orValue", (_OPTIONAL, _A), _A, lambda first, second: first.value if first.present else second)


# -- maps ------------------------------------------------------------------------------------------------------------


def _insert(target: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    if key in target:
        raise EvaluationError(f"insert failed: key {key} already exists")
    target[key] = value  # the accumulator of a comprehension, which nothing else refers to
    return target


def _insert_all(target: dict[Any, Any], entries: dict[Any, Any]) -> dict[Any, Any]:
    for key, value in entries.items():
        _insert(target, key, value)
    return target


_define("cel.@mapInsert", (_MAP, _K, _V), _MAP, _insert)
_define("cel.@mapInsert", (_MAP, _MAP), _MAP, _insert_all)
