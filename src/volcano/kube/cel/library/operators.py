"""Operators on values of any type: equality, membership, indexes, optional selections, joining lists.

`interpreter` evaluates `&&`, `||`, `?:` and equality itself; their overloads are here for types and estimates.
"""

from typing import Any

from volcano.kube.cel import types
from volcano.kube.cel.errors import EvaluationError, no_such_overload
from volcano.kube.cel.library.overload import ONE, STRING_FACTOR, Definitions, Estimate, Sizes
from volcano.kube.cel.library.standard import smaller
from volcano.kube.cel.syntax import Expression
from volcano.kube.cel.types import BOOL, DYN, INT
from volcano.kube.cel.values import NONE, MapList, Optional, SetList, equal, size_of

OPERATORS = Definitions()
_define = OPERATORS.function
_A, _K, _V = types.parameter("A"), types.parameter("K"), types.parameter("V")
_LIST, _MAP = types.list_of(_A), types.map_of(_K, _V)


def _never(*arguments: Any) -> Any:
    raise AssertionError("evaluated by the interpreter")


def index(holder: Any, key: Any) -> Any:
    """`holder[key]`. Raises `EvaluationError`."""
    if isinstance(holder, dict):
        if key.__class__ is float and key.is_integer():
            key = int(key)
        try:
            return holder[key]
        except (KeyError, TypeError):
            raise EvaluationError(f"no such key: {_shown(key)}") from None
    if isinstance(holder, list):
        if key.__class__ is float and key.is_integer():
            key = int(key)
        if not isinstance(key, int) or key.__class__ is bool:
            raise EvaluationError(f"unsupported index type '{key.__class__.__name__}' in list")
        if not 0 <= key < len(holder):
            raise EvaluationError(f"index out of bounds: {int(key)}")
        return holder[key]
    if isinstance(holder, Optional):
        return optional_index(holder, key)
    raise no_such_overload()


def optional_index(holder: Any, key: Any) -> Optional:
    """`holder[?key]` and `holder.?key`: no value instead of an error."""
    if isinstance(holder, Optional):
        if not holder.present:
            return NONE
        holder = holder.value
    if not isinstance(holder, dict | list):
        raise no_such_overload()
    try:
        return Optional(index(holder, key))
    except EvaluationError:
        return NONE


def _shown(key: Any) -> str:
    return "true" if key is True else "false" if key is False else str(key)


def _in_map(key: Any, holder: dict[Any, Any]) -> bool:
    try:
        return key in holder
    except TypeError:
        return False


def _joined(first: list[Any], second: list[Any]) -> list[Any]:
    """Lists of type set and map are merged, others are concatenated."""
    if isinstance(first, SetList):
        return SetList([*first, *(item for item in second if not any(equal(item, each) for each in first))])
    if isinstance(first, MapList):
        merged = {repr(first.identity(item)): item for item in first}
        merged.update((repr(first.identity(item)), item) for item in second)
        return MapList(list(merged.values()), first.keys)
    return first + second


def _joined_cost(sizes: Sizes, operands: list[Expression]) -> Estimate:
    return Estimate(ONE, sizes.of(operands[0]).plus(sizes.of(operands[1])))


def _joined_price(arguments: tuple[Any, ...], result: Any) -> int:
    """cel-go joins lists without copying them; Python copies."""
    first, second = size_of(arguments[0]), size_of(arguments[1])
    if isinstance(arguments[0], SetList):
        return 1 + first * second
    return 1 + int((first + second) * STRING_FACTOR)


_define("_==_", (_A, _A), BOOL, _never, estimate=smaller)
_define("_!=_", (_A, _A), BOOL, _never, estimate=smaller)
_define("_&&_", (BOOL, BOOL), BOOL, _never)
_define("_||_", (BOOL, BOOL), BOOL, _never)
_define("_?_:_", (BOOL, _A, _A), _A, _never)
_define("_[_]", (_LIST, INT), _A, index)
_define("_[_]", (_MAP, _K), _V, index)
_define("_[_]", (types.optional_of(_LIST), INT), types.optional_of(_A), index)
_define("_[_]", (types.optional_of(_MAP), _K), types.optional_of(_V), index)
for _holder, _key, _value in ((_LIST, INT, _A), (_MAP, _K, _V)):
    for _parameter in (_holder, types.optional_of(_holder)):
        _define("_[?_]", (_parameter, _key), types.optional_of(_value), optional_index)
_define("_?._", (DYN, DYN), types.optional_of(DYN), optional_index)
_define(
    "@in", (_A, _LIST), BOOL, _never,
    estimate=lambda sizes, operands: Estimate(sizes.of(operands[1])),
)  # fmt: skip
_define("@in", (_K, _MAP), BOOL, _in_map)
_define("_+_", (_LIST, _LIST), _LIST, _joined, estimate=_joined_cost, price=_joined_price)
