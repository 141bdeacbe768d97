"""Standard functions and operators of CEL. Those that do not evaluate all operands are in `interpreter`."""

import math
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from volcano.kube.api.formats import re2_patterns
from volcano.kube.cel import types
from volcano.kube.cel.errors import EvaluationError
from volcano.kube.cel.library.overload import (
    STRING_FACTOR,
    Definitions,
    Estimate,
    Range,
    Sizes,
    regex,
    regex_price,
    traversal,
    traversal_price,
)
from volcano.kube.cel.syntax import Expression
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
)
from volcano.kube.cel.values import (
    Duration,
    Timestamp,
    TypeValue,
    Uint,
    integer,
    size_of,
    span,
    unsigned,
)

STANDARD = Definitions()
_define, _method = STANDARD.function, STANDARD.method
_A = types.parameter("A")
_KEY, _VALUE = types.parameter("K"), types.parameter("V")
_SECOND = 1_000_000_000


# -- arithmetic ------------------------------------------------------------------------------------------------------


def _divide(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return integer(quotient if (left < 0) == (right < 0) else -quotient)


def _remainder(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("modulus by zero")
    return int(math.copysign(1, left)) * (abs(left) % abs(right))


def _divide_floats(left: float, right: float) -> float:
    if right:
        return left / right
    return (
        math.nan if not left or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1, right)
    )


_NUMERIC: dict[str, tuple[Callable[[int, int], int], Callable[[float, float], float] | None]] = {
    "_+_": (lambda a, b: a + b, lambda a, b: a + b),
    "_-_": (lambda a, b: a - b, lambda a, b: a - b),
    "_*_": (lambda a, b: a * b, lambda a, b: a * b),
    "_/_": (_divide, _divide_floats),
    "_%_": (_remainder, None),
}


def _checked(operate: Callable[[int, int], int], check: Callable[[int], int]) -> Callable[[int, int], int]:
    return lambda left, right: check(operate(left, right))


for _name, (_integers, _floats) in _NUMERIC.items():
    _define(_name, (INT, INT), INT, _checked(_integers, integer))
    _define(_name, (UINT, UINT), UINT, _checked(_integers, unsigned))
    if _floats is not None:
        _define(_name, (DOUBLE, DOUBLE), DOUBLE, _floats)


def _joined(sizes: Sizes, operands: list[Expression]) -> Estimate:
    size = sizes.of(operands[0]).plus(sizes.of(operands[1]))
    return Estimate(size.scaled(STRING_FACTOR), size)


def _joined_price(arguments: tuple[Any, ...], result: Any) -> int:
    return math.ceil((size_of(arguments[0]) + size_of(arguments[1])) * STRING_FACTOR)


_define("_+_", (STRING, STRING), STRING, lambda a, b: a + b, estimate=_joined, price=_joined_price)
_define("_+_", (BYTES, BYTES), BYTES, lambda a, b: a + b, estimate=_joined, price=_joined_price)
_define("_+_", (DURATION, DURATION), DURATION, lambda a, b: span(a.nanoseconds + b.nanoseconds))
_define(
    "_+_", (TIMESTAMP, DURATION), TIMESTAMP, lambda a, b: Timestamp.checked(a.nanoseconds + b.nanoseconds)
)
_define(
    "_+_", (DURATION, TIMESTAMP), TIMESTAMP, lambda a, b: Timestamp.checked(a.nanoseconds + b.nanoseconds)
)
_define("_-_", (DURATION, DURATION), DURATION, lambda a, b: span(a.nanoseconds - b.nanoseconds))
_define(
    "_-_", (TIMESTAMP, DURATION), TIMESTAMP, lambda a, b: Timestamp.checked(a.nanoseconds - b.nanoseconds)
)
_define("_-_", (TIMESTAMP, TIMESTAMP), DURATION, lambda a, b: span(a.nanoseconds - b.nanoseconds))
_define("-_", (INT,), INT, lambda value: integer(-value))
_define("-_", (DOUBLE,), DOUBLE, lambda value: -value)
_define("!_", (BOOL,), BOOL, lambda value: not value)


# -- comparison ------------------------------------------------------------------------------------------------------


def smaller(sizes: Sizes, operands: list[Expression]) -> Estimate:
    """Estimate of comparing two values: reads as much as the smaller one has."""
    most = min(sizes.of(operands[0]).most, sizes.of(operands[1]).most)
    return Estimate(Range(1 if most else 0, most).scaled(STRING_FACTOR))


def smaller_price(arguments: tuple[Any, ...], result: Any) -> int:
    return math.ceil(min(size_of(arguments[0]), size_of(arguments[1])) * STRING_FACTOR)


_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "_<_": lambda a, b: a < b,
    "_<=_": lambda a, b: a <= b,
    "_>_": lambda a, b: a > b,
    "_>=_": lambda a, b: a >= b,
}
for _name, _order in _ORDERS.items():
    for _left in (INT, UINT, DOUBLE):
        for _right in (INT, UINT, DOUBLE):
            _define(_name, (_left, _right), BOOL, _order)
    for _type in (BOOL, DURATION, TIMESTAMP):
        _define(_name, (_type, _type), BOOL, _order)
    for _type in (STRING, BYTES):
        _define(_name, (_type, _type), BOOL, _order, estimate=smaller, price=smaller_price)


# -- size, strings and patterns --------------------------------------------------------------------------------------

for _type in (STRING, BYTES, types.list_of(_A), types.map_of(_KEY, _VALUE)):
    _define("size", (_type,), INT, len)
    _method("size", (_type,), INT, len)


def _contains_cost(sizes: Sizes, operands: list[Expression]) -> Estimate:
    return Estimate(
        sizes.of(operands[0]).scaled(STRING_FACTOR).times(sizes.of(operands[1]).scaled(STRING_FACTOR))
    )


def _contains_price(arguments: tuple[Any, ...], result: Any) -> int:
    return math.ceil(size_of(arguments[0]) * STRING_FACTOR) * math.ceil(size_of(arguments[1]) * STRING_FACTOR)


def pattern(source: str) -> re2_patterns.Pattern:
    """A compiled pattern. Raises `EvaluationError`."""
    try:
        return re2_patterns.compiled(source)
    except re2_patterns.PatternError as error:
        raise EvaluationError(str(error)) from None


def _matches(text: str, source: str) -> bool:
    return pattern(source).contains(text)


def _regex_cost(sizes: Sizes, operands: list[Expression]) -> Estimate:
    return Estimate(regex(sizes, operands).cost)


_method(
    "contains", (STRING, STRING), BOOL, lambda a, b: b in a, estimate=_contains_cost, price=_contains_price
)
_method("startsWith", (STRING, STRING), BOOL, str.startswith, estimate=traversal(1), price=traversal_price(0))
_method("endsWith", (STRING, STRING), BOOL, str.endswith, estimate=traversal(1), price=traversal_price(0))
_method("matches", (STRING, STRING), BOOL, _matches, estimate=_regex_cost, price=regex_price, overhead=15)
# The price of both forms is the same, although cel-go estimates the function at 1.
_define("matches", (STRING, STRING), BOOL, _matches, price=regex_price, overhead=15)


# -- conversions -----------------------------------------------------------------------------------------------------


def _parsed(parse: Callable[[str], Any], target: str) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        try:
            return parse(text)
        except ValueError:
            raise EvaluationError(f"type conversion error from 'string' to '{target}'") from None

    return convert


def _text_to_int(text: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > 20:
        raise ValueError(text)
    return int(text)


def _text_to_bool(text: str) -> bool:
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if text in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise ValueError(text)


def _text_to_float(text: str) -> float:
    if text.strip() != text or "_" in text:
        raise ValueError(text)
    return float(text)


def _truncated(value: float) -> int:
    if not -(2.0**63) < value < 2.0**63:
        raise EvaluationError("integer overflow")
    return int(value)


def _float_to_uint(value: float) -> Uint:
    if not -1 < value < 2.0**64:
        raise EvaluationError("unsigned integer overflow")
    return unsigned(int(value))


def float_text(value: float) -> str:
    """A double as Go's `%g` prints it: with an exponent from seven digits before the point."""
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    number = Decimal(repr(value)).as_tuple()
    sign = "-" if number.sign else ""
    digits = "".join(map(str, number.digits)).lstrip("0")
    power = len(digits) - 1 + int(number.exponent) if digits else 0
    digits = digits.rstrip("0") or "0"
    if -4 <= power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    if 0 <= power < 6:
        whole, fraction = digits[: power + 1].ljust(power + 1, "0"), digits[power + 1 :]
        return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"
    mantissa = f"{digits[0]}.{digits[1:]}" if len(digits) > 1 else digits
    return f"{sign}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02}"


def _bytes_to_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def _timestamp_seconds(seconds: int) -> Timestamp:
    return Timestamp.checked(seconds * _SECOND)


_define("int", (INT,), INT, lambda value: value)
_define("int", (UINT,), INT, lambda value: integer(int(value)))
_define("int", (DOUBLE,), INT, _truncated)
_define("int", (STRING,), INT, lambda text: integer(_parsed(_text_to_int, "int")(text)))
_define("int", (TIMESTAMP,), INT, lambda value: value.nanoseconds // _SECOND)
_define("int", (DURATION,), INT, lambda value: value.nanoseconds)
_define("uint", (UINT,), UINT, lambda value: value)
_define("uint", (INT,), UINT, unsigned)
_define("uint", (DOUBLE,), UINT, _float_to_uint)
_define("uint", (STRING,), UINT, lambda text: unsigned(_parsed(_text_to_int, "uint")(text)))
_define("double", (DOUBLE,), DOUBLE, lambda value: value)
_define("double", (INT,), DOUBLE, float)
_define("double", (UINT,), DOUBLE, float)
_define("double", (STRING,), DOUBLE, _parsed(_text_to_float, "double"))
_define("string", (STRING,), STRING, lambda value: value)
_define("string", (BOOL,), STRING, lambda value: "true" if value else "false")
_define("string", (INT,), STRING, str)
_define("string", (UINT,), STRING, lambda value: str(int(value)))
_define("string", (DOUBLE,), STRING, float_text)
_define("string", (TIMESTAMP,), STRING, str)
_define("string", (DURATION,), STRING, str)
_define(
    "string", (BYTES,), STRING, _bytes_to_text,
    estimate=lambda sizes, given: Estimate(
        (size := sizes.of(given[0])).scaled(STRING_FACTOR), Range(size.least // 4, size.most)
    ),
    price=traversal_price(0),
)  # fmt: skip
_define("bytes", (BYTES,), BYTES, lambda value: value)
_define(
    "bytes", (STRING,), BYTES, lambda text: text.encode("utf-8", "replace"),
    estimate=lambda sizes, given: Estimate(
        (size := sizes.of(given[0])).scaled(STRING_FACTOR), size.times(Range(1, 4))
    ),
    price=traversal_price(0),
)  # fmt: skip
_define("bool", (BOOL,), BOOL, lambda value: value)
_define("bool", (STRING,), BOOL, _parsed(_text_to_bool, "bool"))
_define("timestamp", (TIMESTAMP,), TIMESTAMP, lambda value: value)
_define("timestamp", (INT,), TIMESTAMP, _timestamp_seconds)
_define("timestamp", (STRING,), TIMESTAMP, _parsed(Timestamp.parse, "google.protobuf.Timestamp"), overhead=15)
_define("duration", (DURATION,), DURATION, lambda value: value)
_define("duration", (INT,), DURATION, lambda value: span(value))
_define("duration", (STRING,), DURATION, _parsed(Duration.parse, "google.protobuf.Duration"), overhead=15)
_define("dyn", (_A,), DYN, lambda value: value)

_CLASSES: dict[type, str] = {
    bool: "bool", int: "int", Uint: "uint", float: "double", str: "string", bytes: "bytes", type(None): "null_type",
    dict: "map", Timestamp: "google.protobuf.Timestamp", Duration: "google.protobuf.Duration", TypeValue: "type",
}  # fmt: skip


def type_name(value: Any) -> str:
    """Name of the type of a value, as `type()` returns it."""
    if isinstance(value, list):
        return "list"
    return _CLASSES.get(value.__class__) or str(getattr(value, "type_name", "optional_type"))


_define("type", (_A,), types.type_of(_A), lambda value: TypeValue(type_name(value)))
_define("@not_strictly_false", (BOOL,), BOOL, lambda value: value)


# -- times -----------------------------------------------------------------------------------------------------------


def _in_zone(value: Timestamp, zone: str) -> datetime:
    moment = value.moment()
    if not zone or zone == "UTC":
        return moment
    sign = -1 if zone[0] == "-" else 1
    hours, colon, minutes = zone.lstrip("+-").partition(":")
    if colon and hours.isdigit() and minutes.isdigit():
        offset = timedelta(hours=int(hours), minutes=int(minutes)) * sign
        try:
            return moment.astimezone(timezone(offset))
        except ValueError:
            raise EvaluationError(f"unknown time zone {zone}") from None
    try:
        return moment.astimezone(ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise EvaluationError(f"unknown time zone {zone}") from None


_PARTS: dict[str, Callable[[datetime, int], int]] = {
    "getFullYear": lambda moment, _: moment.year,
    "getMonth": lambda moment, _: moment.month - 1,
    "getDayOfYear": lambda moment, _: moment.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda moment, _: moment.day - 1,
    "getDate": lambda moment, _: moment.day,
    "getDayOfWeek": lambda moment, _: moment.isoweekday() % 7,
    "getHours": lambda moment, _: moment.hour,
    "getMinutes": lambda moment, _: moment.minute,
    "getSeconds": lambda moment, _: moment.second,
    "getMilliseconds": lambda _, nanoseconds: nanoseconds % _SECOND // 1_000_000,
}


def _time_part(part: Callable[[datetime, int], int]) -> Callable[..., int]:
    return lambda value, zone="": part(_in_zone(value, zone), value.nanoseconds)


for _name, _part in _PARTS.items():
    _method(_name, (TIMESTAMP,), INT, _time_part(_part), overhead=10)
    _method(_name, (TIMESTAMP, STRING), INT, _time_part(_part), overhead=30)


def _whole(unit: int) -> Callable[[Duration], int]:
    return lambda value: _divide(value.nanoseconds, unit)


for _name, _unit in (
    ("getHours", 3600 * _SECOND),
    ("getMinutes", 60 * _SECOND),
    ("getSeconds", _SECOND),
    ("getMilliseconds", 1_000_000),
):
    _method(_name, (DURATION,), INT, _whole(_unit))
