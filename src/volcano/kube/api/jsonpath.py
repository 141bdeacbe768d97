"""kubectl's JSONPath without templates: names, subscripts, slices, filters and descent, compiled once."""

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

# One step maps a value to the values it selects.
Step = Callable[[Any], Iterator[Any]]

_NAME = re.compile(r"\.((?:\\.|[^\[\].\s\\])+)")
_SUBSCRIPT = re.compile(r"""\[\s*(?:'((?:\\.|[^'\\])*)'|"((?:\\.|[^"\\])*)"|(-?\d+)|(\*))\s*\]""")
_SLICE = re.compile(r"\[\s*(-?\d*)\s*:\s*(-?\d*)\s*\]")
_FILTER = re.compile(
    r"""\[\?\(\s*@((?:\.[\w\-/\\]+|\['[^']*'\])+)\s*(?:(==|!=|<=|>=|<|>)\s*("[^"]*"|'[^']*'|[^\s)]+))?\s*\)\]"""
)


class JsonPath:
    """A compiled path. `find` returns all values it selects, `first` the first one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._steps = tuple(_compile(text))

    def find(self, value: Any) -> list[Any]:
        """Returns all values at the path, in order; none when a part of the path is missing."""
        found = [value]
        for step in self._steps:
            found = [result for each in found for result in step(each)]
        return found

    def first(self, value: Any) -> Any:
        """Returns the first value at the path, or None."""
        return next(iter(self.find(value)), None)


@lru_cache(maxsize=4096)
def compile_path(text: str) -> JsonPath:
    """Compiles a path such as `.status.conditions[?(@.type=="Ready")].status`. Raises ValueError."""
    return JsonPath(text)


def _compile(text: str) -> Iterator[Step]:
    path = text.strip()
    if path.startswith("{") and path.endswith("}"):
        path = path[1:-1].strip()
    path = path.removeprefix("$").removeprefix("@") or "."
    if path[0] not in ".[":
        path = f".{path}"
    position = 0
    while position < len(path) and path != ".":
        step, position = _next_step(path, position)
        yield step


def _next_step(path: str, position: int) -> tuple[Step, int]:
    if path.startswith("..", position) and not path.startswith("...", position):
        after = path[position + 2 : position + 3]
        return _descent, position + (2 if after in ("", "[") else 1)
    if path.startswith(".*", position):
        return _children, position + 2
    if found := _NAME.match(path, position):
        return _member(re.sub(r"\\(.)", r"\1", found.group(1))), found.end()
    if path.startswith(".[", position):
        return _next_step(path, position + 1)
    if found := _SUBSCRIPT.match(path, position):
        single, double, index, star = found.groups()
        if star:
            return _children, found.end()
        if index is not None:
            return _element(int(index)), found.end()
        return _member(re.sub(r"\\(.)", r"\1", single if single is not None else double)), found.end()
    if found := _SLICE.match(path, position):
        start, stop = (int(bound) if bound else None for bound in found.groups())
        return _slice(start, stop), found.end()
    if found := _FILTER.match(path, position):
        return _filter(JsonPath(found.group(1)), found.group(2), found.group(3)), found.end()
    raise ValueError(
        f"JSONPath {path!r} is not understood from {path[position:]!r} on; "
        "write steps such as .name, ..name, ['name'], [0], [*] or [?(@.type==\"Ready\")]"
    )


def _member(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _element(index: int) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _slice(start: int | None, stop: int | None) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[start:stop]

    return step


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _descent(value: Any) -> Iterator[Any]:
    """Yields a value and everything below it, from the top; numbers, booleans and empty values are not
    descended to."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if value and isinstance(value, (dict, list, str)):
            yield value
            waiting += reversed(list(_children(value)))


def _literal(text: str) -> Any:
    if text[0] in "\"'":
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        return text


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def _filter(path: JsonPath, operator: str | None, literal: str | None) -> Step:
    wanted = None if literal is None else _literal(literal)

    def holds(value: Any) -> bool:
        found = path.find(value)
        if operator is None or not found:
            return bool(found)
        ordered = isinstance(found[0], (int, float, str)) and isinstance(found[0], str) == isinstance(
            wanted, str
        )
        return (ordered or operator in ("==", "!=")) and _COMPARISONS[operator](found[0], wanted)

    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from filter(holds, value)

    return step
