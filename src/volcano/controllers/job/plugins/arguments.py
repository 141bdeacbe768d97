"""Plugin arguments: command-line flags, parsed up to the first error."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Value = bool | int | str

_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


@dataclass(frozen=True, slots=True)
class Arguments:
    """The values of a plugin's flags, and the error in its arguments, if any."""

    values: Mapping[str, Value]
    error: str = ""

    def text(self, name: str) -> str:
        return str(self.values[name])

    def number(self, name: str) -> int:
        return int(self.values[name])

    def flag(self, name: str) -> bool:
        return bool(self.values[name])


def read_arguments(plugin: str, defaults: Mapping[str, Value], arguments: Sequence[str]) -> Arguments:
    """Parses `--name=value`, `-name=value`, `--name value` and bare booleans.

    Parsing stops at the first invalid argument; the values before it are kept.
    """
    values = dict(defaults)
    rest = list(arguments)
    while rest:
        name, equals, text = rest.pop(0).partition("=")
        flag = name.removeprefix("-").removeprefix("-")
        if flag == name or flag not in defaults:
            known = ", ".join(f"--{known}" for known in defaults) or "none"
            return Arguments(values, f"plugin {plugin}: unknown argument {name!r}; it takes {known}")
        if not equals:
            if isinstance(defaults[flag], bool):
                text = "true"
            elif rest:
                text = rest.pop(0)
            else:
                return Arguments(values, f"plugin {plugin}: argument {name!r} needs a value")
        value = _read(defaults[flag], text)
        if value is None:
            wanted = "true or false" if isinstance(defaults[flag], bool) else "a whole number"
            return Arguments(values, f"plugin {plugin}: argument {name!r} is {text!r}; it must be {wanted}")
        values[flag] = value
    return Arguments(values)


def _read(default: Value, text: str) -> Value | None:
    if isinstance(default, bool):
        return True if text in _TRUE else False if text in _FALSE else None
    if isinstance(default, int):
        digits = text.removeprefix("-")
        return int(text) if digits.isascii() and digits.isdigit() else None
    return text
