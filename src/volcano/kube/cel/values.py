"""Values of CEL that Python does not have, and the equality, order and size of all values.

null, bool, int, double, string, bytes, list and map are Python's None, bool, int, float, str, bytes, list and dict.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from volcano.kube.api import duration
from volcano.kube.cel.errors import EvaluationError, no_such_overload

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1
_SECOND = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_SECOND, _LAST_SECOND = -62135596800, 253402300799  # years 1 and 9999


class Uint(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{int(self)}u"


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A span of time in nanoseconds."""

    nanoseconds: int

    @staticmethod
    def parse(text: str) -> "Duration":
        return Duration(duration.parse_nanoseconds(text))

    def __str__(self) -> str:
        return f"{decimal_seconds(self.nanoseconds)}s"


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A moment, in nanoseconds since 1970."""

    nanoseconds: int

    @staticmethod
    def parse(text: str) -> "Timestamp":
        """Parses RFC 3339. Raises ValueError."""
        head, dot, rest = text.partition(".")
        digits = ""
        if dot:
            zone = rest.lstrip("0123456789")
            digits = rest[: len(rest) - len(zone)]
            if not digits:
                raise ValueError(f"{text!r} is not a time; write it like 2006-01-02T15:04:05Z")
            head += zone
        if len(head) < 20 or head[10] not in "Tt":
            raise ValueError(f"{text!r} is not a time; write it like 2006-01-02T15:04:05Z")
        moment = datetime.fromisoformat(head)
        fraction = int(digits[:9].ljust(9, "0")) if digits else 0
        since = moment - _EPOCH
        return Timestamp((since.days * 86400 + since.seconds) * _SECOND + fraction)

    @staticmethod
    def checked(nanoseconds: int) -> "Timestamp":
        """A time within the years 1 to 9999."""
        if not _FIRST_SECOND <= nanoseconds // _SECOND <= _LAST_SECOND:
            raise EvaluationError("timestamp overflow")
        return Timestamp(nanoseconds)

    def moment(self) -> datetime:
        """Date and time in UTC; fractions of seconds are left out."""
        return _EPOCH + timedelta(seconds=self.nanoseconds // _SECOND)

    def __str__(self) -> str:
        moment = self.moment()
        fraction = decimal_seconds(self.nanoseconds % _SECOND).removeprefix("0")
        return f"{moment.year:04}-{moment:%m-%dT%H:%M:%S}{fraction}Z"


def decimal_seconds(nanoseconds: int) -> str:
    """Nanoseconds as seconds without trailing zeros."""
    sign, amount = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    whole, rest = divmod(amount, _SECOND)
    return f"{sign}{whole}.{rest:09}".rstrip("0").rstrip(".")


@dataclass(frozen=True, slots=True)
class Optional:
    """An optional value; `NONE` has none."""

    value: Any
    present: bool = True

    def get(self) -> Any:
        if not self.present:
            raise EvaluationError("optional.none() dereference")
        return self.value


NONE = Optional(None, present=False)


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value, as `type(1)` or `int`."""

    name: str


class SetList(list[Any]):
    """A list of type set: its order does not matter."""

    __slots__ = ()


class MapList(list[Any]):
    """A list of type map: items are identified by `keys`, their order does not matter."""

    __slots__ = ("keys",)

    def __init__(self, items: list[Any], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys

    def identity(self, item: Any) -> tuple[Any, ...]:
        return tuple(item.get(key) for key in self.keys) if isinstance(item, dict) else ()


LISTS = (list, SetList, MapList)
NUMBERS = (int, Uint, float)


class MapOfMaps(dict[Any, Any]):
    """A map of maps: a key that is missing has an empty map. `in` and iterations use the keys that exist."""

    def __missing__(self, key: Any) -> dict[Any, Any]:
        return {}


class Comparison:
    """Deep equality that counts the values it visits, so that comparing large objects has its price."""

    __slots__ = ("visited",)

    def __init__(self) -> None:
        self.visited = 0

    def equal(self, left: Any, right: Any) -> bool:
        self.visited += 1
        first, second = left.__class__, right.__class__
        if first is second and first in _PLAIN:
            return bool(left == right)
        if first in NUMBERS and second in NUMBERS:
            return bool(left == right)
        if isinstance(left, list) and isinstance(right, list):
            return self._equal_lists(left, right)
        if first is dict and second is dict:
            return self._equal_maps(left, right)
        if first is Optional and second is Optional:
            return left.present == right.present and (not left.present or self.equal(left.value, right.value))
        return first is second and bool(left == right)

    def _equal_maps(self, left: Mapping[Any, Any], right: Mapping[Any, Any]) -> bool:
        if len(left) != len(right):
            return False
        return all(key in right and self.equal(value, right[key]) for key, value in left.items())

    def _equal_lists(self, left: list[Any], right: list[Any]) -> bool:
        if len(left) != len(right):
            return False
        # As in kube-apiserver, the type of the list on the left decides.
        if isinstance(left, MapList):
            others = {repr(left.identity(item)): item for item in right}
            return all(
                (other := others.get(repr(left.identity(item)))) is not None and self.equal(item, other)
                for item in left
            )
        if isinstance(left, SetList):
            return all(self.contains(right, item) for item in left)
        return all(self.equal(a, b) for a, b in zip(left, right, strict=True))

    def contains(self, items: list[Any], item: Any) -> bool:
        return any(self.equal(each, item) for each in items)


_PLAIN = frozenset({int, Uint, float, str, bool, bytes, type(None), Timestamp, Duration})


def equal(left: Any, right: Any) -> bool:
    """Equality: numbers by value, lists and maps by content, other values of different types are not equal."""
    return Comparison().equal(left, right)


def compare(left: Any, right: Any) -> int:
    """Order of two values: -1, 0 or 1. Raises `EvaluationError` for values without an order."""
    first, second = left.__class__, right.__class__
    if (first is second and first in _ORDERED) or (first in NUMBERS and second in NUMBERS):
        return int(left > right) - int(left < right)
    raise no_such_overload()


_ORDERED = frozenset({int, Uint, float, str, bool, bytes, Timestamp, Duration})


def size_of(value: Any) -> int:
    """Size for the computation of cost: characters, bytes, items; 1 for all other values."""
    if value.__class__ in _SIZED or isinstance(value, list):
        return len(value)
    return int(getattr(value, "cost_size", 1))


_SIZED = frozenset({str, bytes, dict, list, MapOfMaps})


def integer(value: int) -> int:
    """An int within 64 bits. Raises `EvaluationError`."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvaluationError("integer overflow")


def unsigned(value: int) -> Uint:
    """A uint within 64 bits. Raises `EvaluationError`."""
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise EvaluationError("unsigned integer overflow")


def span(nanoseconds: int) -> Duration:
    """A duration within 64 bits of nanoseconds. Raises `EvaluationError`."""
    if INT_MIN <= nanoseconds <= INT_MAX:
        return Duration(nanoseconds)
    raise EvaluationError("integer overflow")
