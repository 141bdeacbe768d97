"""String functions: cel-go's extension of version 2, without those that Kubernetes leaves out."""

import math
import re
from collections.abc import Callable
from typing import Any

from volcano.kube.cel import types
from volcano.kube.cel.errors import CostLimitExceeded, EvaluationError
from volcano.kube.cel.library.overload import (
    STRING_FACTOR,
    Definitions,
    Estimate,
    Range,
    Sizes,
    traversal,
    traversal_price,
)
from volcano.kube.cel.library.standard import float_text, type_name
from volcano.kube.cel.syntax import Expression, Literal
from volcano.kube.cel.types import DYN, INT, STRING
from volcano.kube.cel.values import Duration, Timestamp, TypeValue, size_of

STRINGS = Definitions(overhead=2)
_method = STRINGS.method
# Longest string that an expression may build: reading it once exhausts the cost limit of an expression.
LONGEST_TEXT = 10_000_000
_VERB = re.compile(r"%(?:(%)|(?:\.(\d{1,5}))?([A-Za-z]))")
_MOST_PRECISION = 1000
_STRINGS_LIST = types.list_of(STRING)


def _index(text: str, position: int) -> int:
    if not 0 <= position <= len(text):
        raise EvaluationError(f"index out of range: {position}")
    return position


def _char_at(text: str, position: int) -> str:
    return text[_index(text, position) :][:1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    return text.find(part, _index(text, start))


def _last_index_of(text: str, part: str, *start: int) -> int:
    if not start:
        return text.rfind(part)
    return text.rfind(part, 0, _index(text, start[0]) + len(part))


def _substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if not 0 <= start <= len(text):
        raise EvaluationError(f"index out of range: {start}")
    if not 0 <= end <= len(text):
        raise EvaluationError(f"index out of range: {end}")
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    return text[start:end]


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    count = text.count(old) if limit < 0 else min(text.count(old), limit)
    if len(text) + count * (len(new) - len(old)) > LONGEST_TEXT:
        raise CostLimitExceeded
    return text.replace(old, new, limit)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1) if limit > 0 else text.split(separator)
    characters = list(text)
    if 0 < limit < len(characters):
        return [*characters[: limit - 1], "".join(characters[limit - 1 :])]
    return characters


def _join(texts: list[str], separator: str = "") -> str:
    if not all(isinstance(text, str) for text in texts):
        raise EvaluationError("no such overload")
    if sum(map(len, texts)) + len(separator) * len(texts) > LONGEST_TEXT:
        raise CostLimitExceeded
    return separator.join(texts)


def _ascii(upper: bool) -> Callable[[str], str]:
    table = {code: code ^ 32 for code in range(ord("a" if upper else "A"), ord("z" if upper else "Z") + 1)}
    return lambda text: text.translate(table)


_QUOTED = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\",
    '"': '\\"',
}  # fmt: skip


def _quote(text: str) -> str:
    return '"' + "".join(_QUOTED.get(character, character) for character in text) + '"'


# -- costs -----------------------------------------------------------------------------------------------------------


def _replaced(sizes: Sizes, operands: list[Expression]) -> Estimate:
    """Twice the length of the text; the result may be longer by the replacements."""
    text, old, new = (sizes.of(operands[index]) for index in range(3))
    if old.least == 0:
        most = (text.most + 1) * new.most + text.most
    elif new.most <= old.least:
        most = text.most
    else:
        most = math.ceil(text.most / old.least) * new.most
    if old.most == 0:
        least = (text.least + 1) * new.least + text.least
    elif old.most <= new.least:
        least = text.least
    else:
        least = math.ceil(text.least / old.most) * new.least
    size = Range(least, most).times(Range(1, 1))
    return Estimate(text.scaled(2 * STRING_FACTOR), size)


def _separated(sizes: Sizes, operands: list[Expression]) -> Estimate:
    text = sizes.of(operands[0])
    most = text.most
    if len(operands) > 2 and isinstance(operands[2], Literal) and isinstance(operands[2].value, int):
        most = max(operands[2].value, 0) if operands[2].value >= 0 else most
    return Estimate(text.scaled(2 * STRING_FACTOR), Range(0, most))


def _joined(sizes: Sizes, operands: list[Expression]) -> Estimate:
    items = sizes.of(operands[0])
    size = items.times(sizes.of_items(operands[0])[1])
    if len(operands) > 1:
        separators = Range(max(items.least - 1, 0), max(items.most - 1, 0))
        size = size.plus(sizes.of(operands[1]).times(separators))
    return Estimate(size.scaled(STRING_FACTOR), size)


def _joined_price(arguments: tuple[Any, ...], result: Any) -> int:
    return math.ceil(size_of(result) * 2 * STRING_FACTOR)


def _first_price(arguments: tuple[Any, ...], result: Any) -> int:
    return int(len(arguments[0].encode("utf-8", "replace")) * STRING_FACTOR)


def _format_price(arguments: tuple[Any, ...], result: Any) -> int:
    return math.ceil(max(size_of(arguments[0]), size_of(result)) * STRING_FACTOR)


_parameters: tuple[types.Type, ...]
_method("charAt", (STRING, INT), STRING, _char_at)
for _parameters in ((STRING, STRING), (STRING, STRING, INT)):
    _method("indexOf", _parameters, INT, _index_of, estimate=traversal(0), price=_first_price)
    _method("lastIndexOf", _parameters, INT, _last_index_of, estimate=traversal(0), price=_first_price)
for _parameters in ((STRING, INT), (STRING, INT, INT)):
    _method(
        "substring",
        _parameters,
        STRING,
        _substring,
        estimate=traversal(0, same_size=True),
        price=traversal_price(0),
    )
for _name, _call in (("lowerAscii", _ascii(False)), ("upperAscii", _ascii(True)), ("trim", str.strip)):
    _method(_name, (STRING,), STRING, _call, estimate=traversal(0, same_size=True), price=traversal_price(0))
for _parameters in ((STRING, STRING, STRING), (STRING, STRING, STRING, INT)):
    _method(
        "replace",
        _parameters,
        STRING,
        _replace,
        estimate=_replaced,
        price=traversal_price(0, 2 * STRING_FACTOR),
    )
for _parameters in ((STRING, STRING), (STRING, STRING, INT)):
    _method(
        "split",
        _parameters,
        _STRINGS_LIST,
        _split,
        estimate=_separated,
        price=traversal_price(0, 2 * STRING_FACTOR),
    )
for _parameters in ((_STRINGS_LIST,), (_STRINGS_LIST, STRING)):
    _method("join", _parameters, STRING, _join, estimate=_joined, price=_joined_price)
STRINGS.function(
    "strings.quote", (STRING,), STRING, _quote,
    estimate=lambda sizes, given: Estimate(
        (size := sizes.of(given[0])).scaled(STRING_FACTOR),
        Range(size.least + 2, size.most).plus(size.times(Range(0, 1))).plus(Range(0, 2)),
    ),
    price=traversal_price(0),
)  # fmt: skip


# -- format ----------------------------------------------------------------------------------------------------------


def _format(template: str, values: list[Any]) -> str:
    """Formats `%s`, `%d`, `%f`, `%e`, `%b`, `%o`, `%x`, `%X` and `%%`."""
    given = iter(values)
    used, length = 0, len(template)
    parts: list[str] = []
    at = 0
    while (start := template.find("%", at)) >= 0:
        found = _VERB.match(template, start)
        if found is None:
            raise EvaluationError("unexpected end of string")
        parts.append(template[at:start])
        at = found.end()
        if found[1]:
            parts.append("%")
            continue
        try:
            value = next(given)
        except StopIteration:
            raise EvaluationError(f"index {used} out of range") from None
        used += 1
        text = _clause(found[3], found[2], value)
        length += len(text)
        if length > LONGEST_TEXT:
            raise CostLimitExceeded
        parts.append(text)
    if used < len(values):
        raise EvaluationError(
            f"too many arguments supplied to string.format (expected {used}, got {len(values)})"
        )
    return "".join(parts) + template[at:]


def _clause(verb: str, precision: str | None, value: Any) -> str:
    digits = int(precision) if precision is not None else 6
    if digits > _MOST_PRECISION:
        raise EvaluationError(f"precision {digits} exceeds maximum allowed precision {_MOST_PRECISION}")
    if problem := clause_problem(verb, type_name(value)):
        raise EvaluationError(problem)
    match verb:
        case "s":
            return text_of(value)
        case "d":
            return str(int(value))
        case "f":
            return _special(value) or f"{value:,.{digits}f}"
        case "e":
            return _special(value) or _scientific(value)
        case "b" | "o":
            return f"{int(value):{verb}}"
    if isinstance(value, int):
        return f"{int(value):{verb}}"
    raw = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return raw.hex().upper() if verb == "X" else str(raw.hex())


_INTEGERS = frozenset({"int", "uint"})
CLAUSES: dict[str, tuple[frozenset[str], str]] = {
    "s": (
        _INTEGERS
        | {"string", "bool", "bytes", "double", "map", "list", "type", "null_type", "null"}
        | {"google.protobuf.Duration", "google.protobuf.Timestamp"},
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
        "timestamps",
    ),
    "d": (_INTEGERS, "decimal clause can only be used on integers"),
    "f": (frozenset({"double"}), "fixed-point clause can only be used on doubles"),
    "e": (frozenset({"double"}), "scientific clause can only be used on doubles"),
    "b": (_INTEGERS | {"bool"}, "only integers and bools can be formatted as binary"),
    "o": (_INTEGERS, "octal clause can only be used on integers"),
    "x": (
        _INTEGERS | {"string", "bytes"},
        "only integers, byte buffers, and strings can be formatted as hex",
    ),
    "X": (
        _INTEGERS | {"string", "bytes"},
        "only integers, byte buffers, and strings can be formatted as hex",
    ),
}


def clause_problem(verb: str, kind: str) -> str:
    """Why a clause of `format` cannot print values of a type; empty if it can."""
    if verb not in CLAUSES:
        return f'could not parse formatting clause: unrecognized formatting clause "{verb}"'
    kinds, text = CLAUSES[verb]
    return "" if kind in kinds else f"error during formatting: {text}, was given {kind}"


def clauses(template: str) -> list[str]:
    """Verbs of a format string. Raises `EvaluationError`."""
    found: list[str] = []
    at = 0
    while (start := template.find("%", at)) >= 0:
        clause = _VERB.match(template, start)
        if clause is None:
            raise EvaluationError("unexpected end of string")
        at = clause.end()
        if not clause[1]:
            found.append(clause[3])
    return found


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "" if not math.isinf(value) else "∞" if value > 0 else "-∞"


_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def _scientific(value: float) -> str:
    """`1.052033×10⁰³`, as kube-apiserver prints it."""
    mantissa, _, exponent = f"{value:.6e}".partition("e")
    return f"{mantissa}×10{exponent.removeprefix('+').translate(_SUPERSCRIPTS)}"


def text_of(value: Any) -> str:
    """Text of a value as `%s` prints it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Timestamp | Duration):
        return str(value)
    if isinstance(value, float):
        return float_text(value)
    return _nested(value)


def _nested(value: Any) -> str:
    """Text of a value inside a list or map."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, bytes):
        return f"b{_quote(value.decode('utf-8', 'replace'))}"
    if isinstance(value, Timestamp):
        return f'timestamp("{value}")'
    if isinstance(value, Duration):
        return f'duration("{value}")'
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return _special(value) or f"{value:.6f}"
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, list):
        return f"[{', '.join(map(_nested, value))}]"
    if isinstance(value, dict):
        entries = sorted((_nested(key), _nested(item)) for key, item in value.items())
        return f"{{{', '.join(f'{key}:{item}' for key, item in entries)}}}"
    raise EvaluationError(clause_problem("s", type_name(value)))


_method("format", (STRING, types.list_of(DYN)), STRING, _format, estimate=traversal(0), price=_format_price)
