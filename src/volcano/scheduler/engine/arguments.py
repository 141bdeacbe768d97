"""Arguments of plugins and actions: declared as data and validated when the configuration is parsed."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, TypeGuard

from volcano.kube.api import duration

TRUTHS = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}


class Type(Enum):
    """Type of an argument, as in Volcano: a quoted number is not a number."""

    INTEGER = "an integer, unquoted"
    NUMBER = "a number, unquoted"
    BOOLEAN = "true or false"
    TEXT = "a text"
    DURATION = "a duration such as 1h30m, 45s or 500ms"
    LIST = "a list"
    MAP = "a map"
    ANY = "anything"


class Finding(NamedTuple):
    """Something wrong inside a list or map: the path below the argument, what is wrong and what would be right."""

    path: tuple[Any, ...]
    problem: str  # "is 'a'; it must be a number, unquoted"
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a plugin or action. A name that ends with `*` stands for all names with that prefix."""

    name: str
    type: Type = Type.INTEGER
    valid: Callable[[Any], bool] | None = None  # condition for values of the right type
    expected: str = ""  # the condition as text: "at least 1"
    warning: Callable[[Mapping[str, Any]], str] | None = None  # of all arguments together; "" for none
    excludes: tuple[str, ...] = ()  # arguments that may not be true when this one is
    inner: Callable[[Any], Iterable[Finding]] | None = None  # checks the values of a list or map

    def matches(self, name: str) -> bool:
        return name.startswith(self.name[:-1]) if self.name.endswith("*") else name == self.name

    def problem(self, value: Any) -> str:
        """Returns what is wrong with a value and what would be right; empty for a valid one."""
        if not CHECKS[self.type](value):
            return f"is {value!r}; it must be {self.type.value}"
        if self.valid is not None and not self.valid(value):
            return f"is {value!r}; it must be {self.expected}"
        return ""

    def findings(self, value: Any) -> Iterable[Finding]:
        """Returns all that is wrong with a value."""
        if problem := self.problem(value):
            return (Finding((), problem),)
        return self.inner(value) if self.inner is not None else ()


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments given to one plugin or action. A getter returns the default for a missing name."""

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
        """Returns the parts of a comma-separated text, trimmed and without empty ones, or of a YAML list."""
        value = self.values.get(name)
        parts = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else ()
        return tuple(part.strip() for part in parts if isinstance(part, str) and part.strip())

    def value(self, name: str, default: Any = None) -> Any:
        """Returns the value as in the file, for lists and maps."""
        return self.values.get(name, default)

    def prefixed(self, prefix: str) -> Iterator[tuple[str, Any]]:
        """Iterates over the values whose name starts with `prefix`, under the rest of their name."""
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


def check_map(value: Any, known: Iterable[Argument], path: tuple[Any, ...] = ()) -> Iterator[Finding]:
    """Checks the values of a map inside an argument; unknown names are warnings."""
    if not isinstance(value, dict):
        yield Finding(path, f"is {value!r}; it must be {Type.MAP.value}")
        return
    known = tuple(known)
    for name, found in value.items():
        argument = next((each for each in known if each.matches(str(name))), None)
        if argument is None:
            names = ", ".join(each.name for each in known)
            yield Finding((*path, name), f"is not known and has no effect; choose from {names}", True)
            continue
        for finding in argument.findings(found):
            yield finding._replace(path=(*path, name, *finding.path))


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
