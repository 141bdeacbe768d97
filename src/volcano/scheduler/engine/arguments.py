"""Arguments of plugins and actions: declared as data, checked when the file is read, then simply looked up."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeGuard

from volcano.kube import duration

TRUTHS = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}


class Type(Enum):
    """What a value may be, in the reference's typing: a quoted number is not a number."""

    INTEGER = "an integer, unquoted"
    NUMBER = "a number, unquoted"
    BOOLEAN = "true or false"
    TEXT = "a text"
    DURATION = "a duration such as 1h30m, 45s or 500ms"
    LIST = "a list"
    MAP = "a map"
    ANY = "anything"


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument a plugin or action understands. A name ending in `*` stands for all that begin so."""

    name: str
    type: Type = Type.INTEGER
    holds: Callable[[Any], bool] | None = None  # what a value of the right type must fulfil besides
    right: str = ""  # how to say so: "at least 1"

    def matches(self, name: str) -> bool:
        return name.startswith(self.name[:-1]) if self.name.endswith("*") else name == self.name

    def complaint(self, value: Any) -> str:
        """What is wrong with a value and what would be right; empty when nothing is."""
        if not CHECKS[self.type](value):
            return f"is {value!r}; it must be {self.type.value}"
        if self.holds is not None and not self.holds(value):
            return f"is {value!r}; it must be {self.right}"
        return ""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The values given to one plugin or action. A getter returns the default when the name was not given."""

    values: Mapping[str, Any] = field(default_factory=dict)
    hierarchy: bool = False  # the switch enableHierarchy

    def integer(self, name: str, default: int = 0) -> int:
        value = self.values.get(name)
        return value if is_integer(value) else default

    def number(self, name: str, default: float = 0.0) -> float:
        value = self.values.get(name)
        return float(value) if is_number(value) else default

    def boolean(self, name: str, default: bool = False) -> bool:
        value = self.values.get(name)
        if isinstance(value, str):
            return TRUTHS.get(value.lower(), default)
        return value if isinstance(value, bool) else default

    def text(self, name: str, default: str = "") -> str:
        value = self.values.get(name)
        return value if isinstance(value, str) else default

    def duration(self, name: str, default: float = 0.0) -> float:
        """Seconds."""
        value = self.values.get(name)
        return duration.parse(value) if is_duration(value) else default

    def strings(self, name: str) -> tuple[str, ...]:
        """A comma list, blanks trimmed, empty parts left out; a YAML list of texts will do as well."""
        value = self.values.get(name)
        parts = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else ()
        return tuple(part.strip() for part in parts if isinstance(part, str) and part.strip())

    def value(self, name: str, default: Any = None) -> Any:
        """The value as the file has it, for lists and maps."""
        return self.values.get(name, default)

    def prefixed(self, prefix: str) -> Iterator[tuple[str, Any]]:
        """Every value whose name begins with `prefix`, under the rest of its name."""
        return (
            (name[len(prefix) :], value) for name, value in self.values.items() if name.startswith(prefix)
        )


def is_integer(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_boolean(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, str) and value.lower() in TRUTHS)


def is_duration(value: Any) -> TypeGuard[str]:
    if not isinstance(value, str):
        return False
    try:
        duration.parse(value)
    except ValueError:
        return False
    return True


CHECKS: Mapping[Type, Callable[[Any], bool]] = {
    Type.INTEGER: is_integer,
    Type.NUMBER: is_number,
    Type.BOOLEAN: is_boolean,
    Type.TEXT: lambda value: isinstance(value, str),
    Type.DURATION: is_duration,
    Type.LIST: lambda value: isinstance(value, list),
    Type.MAP: lambda value: isinstance(value, dict),
    Type.ANY: lambda value: True,
}
