"""YAML as JSON values, within limits: the one function that reads YAML which users write.

Values are built from the events of the parser, without a tree of nodes and without recursion: a text can neither
exhaust the stack nor grow beyond its limits through aliases and merge keys.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

import orjson
import yaml

MIB = 1 << 20
# Each %TAG directive is compared with all others.
MAX_TAG_DIRECTIVES = 100
MAX_DUPLICATES = 100  # reported; further ones are not
_TAG = "tag:yaml.org,2002:"
_SURROGATE = re.compile("[\ud800-\udfff]")
_INTEGER = re.compile(r"[-+]?(?:0b[01]+|0o?[0-7]+|0|[1-9][0-9]*|0x[0-9a-fA-F]+)")
_OCTAL = re.compile(r"[-+]?0[0-7]+")
_FLOAT = re.compile(
    r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_WORDS: dict[str, bool | None] = {
    "": None,
    "~": None,
    **{
        spelling: value
        for value, words in (
            (None, ("null",)),
            (True, ("true", "yes", "on")),
            (False, ("false", "no", "off")),
        )
        for word in words
        for spelling in (word, word.capitalize(), word.upper())
    },
}
_NUMBER_STARTS = frozenset("-+.0123456789")
_MERGE = object()  # the key `<<`


class YamlError(ValueError):
    """Text that is not YAML, has no JSON form or exceeds a limit; `line` is 0 where it is not known."""

    def __init__(self, problem: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {problem}" if line else problem)
        self.problem = problem
        self.line = line


class YamlTooLarge(YamlError):
    """Text that is too long or has too many values."""


@dataclass(frozen=True, slots=True)
class YamlLimits:
    """Limits of a text, each after the expansion of aliases and merge keys."""

    size: int = 3 * MIB  # bytes of the text
    depth: int = 128  # lists and maps in each other
    values: int = 100_000  # of all documents together: maps, lists, keys and scalars


CONFIGURATION = YamlLimits(size=MIB, values=20_000)
# Files that a user passes on the command line: large, but read in a process of their own.
FILES = YamlLimits(size=256 * MIB, depth=200, values=10_000_000)


class DuplicateKey(NamedTuple):
    """A key that a map has twice."""

    line: int
    key: str

    def __str__(self) -> str:
        return f'line {self.line}: key "{self.key}" already set in map'


@dataclass(slots=True)
class YamlDocument:
    """One document as a JSON value."""

    value: Any
    line: int
    duplicates: list[DuplicateKey] = field(default_factory=list)
    lines: dict[tuple[Any, ...], int] = field(default_factory=dict)  # of each value, where asked for


def load_yaml(text: bytes | str, limits: YamlLimits = CONFIGURATION, *, lines: bool = False) -> YamlDocument:
    """Returns the first document of a text, null if there is none. Raises YamlError."""
    return next(_documents(text, limits, lines=lines), None) or YamlDocument(None, 1)


def load_documents(text: bytes | str, limits: YamlLimits = FILES) -> list[YamlDocument]:
    """Returns every document of a text. Raises YamlError."""
    return list(_documents(text, limits))


def _documents(text: bytes | str, limits: YamlLimits, *, lines: bool = False) -> Iterator[YamlDocument]:
    _check_text(text, limits)
    budget = _Budget(limits)
    try:
        parser = yaml.CSafeLoader(text)  # used for its events only
        try:
            yield from _parsed(parser, budget, lines=lines)
        finally:
            parser.dispose()
    except yaml.YAMLError as error:
        raise _syntax_error(error, text) from None
    except UnicodeError as error:
        raise YamlError(f"the text is not valid Unicode: {error}") from None


def _parsed(parser: Any, budget: "_Budget", *, lines: bool) -> Iterator[YamlDocument]:
    while not isinstance(event := parser.get_event(), yaml.StreamEndEvent):
        if isinstance(event, yaml.DocumentStartEvent):
            yield _Builder(parser, budget, lines=lines).build()


def _check_text(text: bytes | str, limits: YamlLimits) -> None:
    if len(text) > limits.size:
        raise YamlTooLarge(f"the text is longer than {limits.size} bytes")
    directives = text.count("%TAG") if isinstance(text, str) else text.count(b"%TAG")
    if directives > MAX_TAG_DIRECTIVES:
        raise YamlTooLarge(f"there are more than {MAX_TAG_DIRECTIVES} %TAG directives")


def _syntax_error(error: yaml.YAMLError, text: bytes | str) -> YamlError:
    mark = getattr(error, "problem_mark", None)
    last_line = (text.count("\n") if isinstance(text, str) else text.count(b"\n")) + 1
    problem = getattr(error, "problem", None) or " ".join(str(error).split())
    context = getattr(error, "context", None)
    return YamlError(
        f"{context}: {problem}" if context else str(problem), min(mark.line + 1, last_line) if mark else 0
    )


class _Budget:
    """Counts the values that may still be built."""

    def __init__(self, limits: YamlLimits) -> None:
        self.limits = limits
        self.left = limits.values

    def take(self, count: int, line: int) -> None:
        self.left -= count
        if self.left < 0:
            raise YamlTooLarge(f"there are more than {self.limits.values} values", line)

    def take_alias(self, count: int, line: int) -> None:
        if count > self.left:
            raise YamlError(
                f"excessive aliasing: more than {self.limits.values} values once aliases are expanded", line
            )
        self.left -= count


@dataclass(slots=True)
class _Container:
    """A map or list that is being built."""

    value: Any  # dict or list
    anchor: str | None
    left_before: int  # of the budget: what is used between start and end is the size of this value
    path: tuple[Any, ...]
    key: Any = None  # of a map: the key whose value comes next
    has_key: bool = False
    merged: list[Any] = field(default_factory=list)  # values of `<<`


class _Anchored(NamedTuple):
    value: Any
    size: int
    depth: int


class _Builder:
    """Builds one document from parser events."""

    def __init__(self, parser: Any, budget: _Budget, *, lines: bool) -> None:
        self._next_event = parser.get_event
        self._budget = budget
        self._anchors: dict[str, _Anchored] = {}
        self._open: list[_Container] = []
        self._deepest = 0  # depth reached since the outermost open anchor
        self._with_lines = lines
        self._lines: dict[tuple[Any, ...], int] = {}
        self._duplicates: list[DuplicateKey] = []
        self._root: Any = None

    def build(self) -> YamlDocument:
        first = 0
        while True:
            event = self._next_event()
            line = event.start_mark.line + 1
            first = first or line
            match event:
                case yaml.ScalarEvent():
                    self._scalar(event, line)
                case yaml.MappingStartEvent():
                    self._start({}, "map", event, line)
                case yaml.SequenceStartEvent():
                    self._start([], "seq", event, line)
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    self._end(line)
                case yaml.AliasEvent():
                    self._alias(str(event.anchor), line)
                case yaml.DocumentEndEvent():
                    return YamlDocument(self._root, first, self._duplicates, self._lines)

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        self._budget.take(1, line)
        value = _scalar_value(event, line)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, 1, 0)
        self._add(value, line)

    def _start(self, value: Any, tag: str, event: Any, line: int) -> None:
        if event.tag not in (None, "!", _TAG + tag):
            raise YamlError(f"values with the tag {event.tag[:100]!r} have no JSON form", line)
        self._budget.take(1, line)
        depth = len(self._open) + 1
        self._check_depth(depth, line)
        self._deepest = max(self._deepest, depth)
        if event.anchor is not None:
            self._anchors.pop(event.anchor, None)
        path = self._path() if self._with_lines else ()
        self._note(path, line)
        self._open.append(_Container(value, event.anchor, self._budget.left + 1, path))

    def _end(self, line: int) -> None:
        done = self._open.pop()
        if done.merged:
            self._merge(done, line)
        if done.anchor is not None:
            size = done.left_before - self._budget.left
            # An upper bound: the deepest value so far may be outside of this one.
            depth = self._deepest - len(self._open)
            self._anchors[done.anchor] = _Anchored(done.value, size, depth)
        self._add(done.value, line)

    def _alias(self, anchor: str, line: int) -> None:
        known = self._anchors.get(anchor)
        if known is None:
            raise YamlError(f"unknown or unfinished anchor {anchor[:100]!r}", line)
        self._budget.take_alias(known.size, line)
        self._check_depth(len(self._open) + known.depth, line)
        self._deepest = max(self._deepest, len(self._open) + known.depth)
        # A copy, because values are changed in place later.
        value = (
            orjson.loads(orjson.dumps(known.value)) if isinstance(known.value, dict | list) else known.value
        )
        self._add(value, line)

    def _check_depth(self, depth: int, line: int) -> None:
        if depth > self._budget.limits.depth:
            raise YamlError(f"exceeded max depth of {self._budget.limits.depth}", line)

    def _path(self) -> tuple[Any, ...]:
        """Path of the value that comes next."""
        if not self._open:
            return ()
        parent = self._open[-1]
        return (*parent.path, parent.key if isinstance(parent.value, dict) else len(parent.value))

    def _add(self, value: Any, line: int) -> None:
        """Adds a complete value to the innermost open map or list."""
        if not self._open:
            self._root = "<<" if value is _MERGE else value
            self._note((), line)
            return
        parent = self._open[-1]
        if isinstance(parent.value, list):
            self._note((*parent.path, len(parent.value)), line)
            parent.value.append("<<" if value is _MERGE else value)
        elif not parent.has_key:
            self._add_key(parent, value, line)
        else:
            value = "<<" if value is _MERGE else value
            parent.has_key = False
            if parent.key is _MERGE:
                parent.merged.append(value)
            else:
                parent.value[parent.key] = value

    def _add_key(self, parent: _Container, value: Any, line: int) -> None:
        parent.has_key = True
        if value is _MERGE:
            parent.key = value
            return
        parent.key = key = _key_text(value, line)
        if key in parent.value and len(self._duplicates) < MAX_DUPLICATES:
            self._duplicates.append(DuplicateKey(line, key))
        self._note((*parent.path, key), line)

    def _note(self, path: tuple[Any, ...], line: int) -> None:
        if self._with_lines:
            self._lines.setdefault(path, line)

    def _merge(self, container: _Container, line: int) -> None:
        """Adds the fields of the maps under `<<`; the map's own fields and earlier maps win."""
        for given in container.merged:
            for source in given if isinstance(given, list) else [given]:
                if not isinstance(source, dict):
                    raise YamlError("the value of a merge key must be a map or a list of maps", line)
                self._budget.take_alias(len(source), line)
                for key, value in source.items():
                    container.value.setdefault(key, value)


def _scalar_value(event: yaml.ScalarEvent, line: int) -> Any:
    text: str = event.value
    if event.tag is not None and event.tag != "!":
        return _tagged(event.tag, text, line)
    if not text.isascii() and _SURROGATE.search(text):
        raise YamlError("text must be of characters that UTF-8 has", line)
    if not event.implicit[0]:
        return text  # quoted
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in _NUMBER_STARTS:
        return _number(text, line)
    return _MERGE if text == "<<" else text


def _number(text: str, line: int) -> Any:
    """The number, or the text where it is none: base-60 numbers and timestamps are text, as in Kubernetes."""
    if _INTEGER.fullmatch(text):
        return _integer(text, line)
    if _FLOAT.fullmatch(text):
        return _float(text, line)
    return text


def _integer(text: str, line: int) -> int:
    if len(text) > 100:
        raise YamlError("whole numbers must fit in 64 bits", line)
    number = int(text, 8) if _OCTAL.fullmatch(text) else int(text, 10 if text.lstrip("+-").isdigit() else 0)
    if not -(2**63) <= number < 2**64:
        raise YamlError("whole numbers must fit in 64 bits", line)
    return number


def _float(text: str, line: int) -> float:
    number = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    if not isfinite(number):
        raise YamlError("numbers must be finite", line)
    return number


def _tagged(tag: str, text: str, line: int) -> Any:
    """The value of a scalar with an explicit tag."""
    match tag.removeprefix(_TAG):
        case "str":
            return text
        case "null" if _WORDS.get(text, "") is None:
            return None
        case "bool" if isinstance(_WORDS.get(text), bool):
            return _WORDS[text]
        case "int" if _INTEGER.fullmatch(text):
            return _integer(text, line)
        case "float" if _FLOAT.fullmatch(text):
            return _float(text, line)
    raise YamlError(f"{text[:100]!r} with the tag {tag[:100]!r} has no JSON form", line)


def _key_text(key: Any, line: int) -> str:
    match key:
        case str():
            return key
        case bool():
            return "true" if key else "false"
        case None:
            return "null"
        case int() | float():
            return str(key)
    raise YamlError(f"map keys must be text or numbers, not {type(key).__name__}", line)
