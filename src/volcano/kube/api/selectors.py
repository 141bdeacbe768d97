"""Label, node and field selectors: parsed once, matched many times."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple


class Operator(StrEnum):
    """Operators of label selectors."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


class Requirement(NamedTuple):
    """One condition on one label; `values` is empty for Exists and DoesNotExist."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
        number, bound = _integer(value), _integer(next(iter(self.values), None))
        if number is None or bound is None:
            return False
        return number > bound if self.operator is Operator.GREATER else number < bound


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must match; without any, everything matches, unless it is the selector of nothing."""

    requirements: tuple[Requirement, ...] = ()
    selects_nothing: bool = False

    @property
    def empty(self) -> bool:
        """Whether every object matches."""
        return not self.requirements and not self.selects_nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.selects_nothing:
            return False
        return all(requirement.matches(labels) for requirement in self.requirements)


EVERYTHING = LabelSelector()
NOTHING = LabelSelector(selects_nothing=True)

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?", re.ASCII)
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", re.ASCII)
_TOKEN = re.compile(r"\s*(==|!=|[=!<>(),]|[^\s=!<>(),]+)")
_COMPARISONS = {
    "=": Operator.IN,
    "==": Operator.IN,
    "!=": Operator.NOT_IN,
    ">": Operator.GREATER,
    "<": Operator.LESS,
}
_SETS = {"in": Operator.IN, "notin": Operator.NOT_IN}


@lru_cache(maxsize=1024)
def parse_labels(text: str) -> LabelSelector:
    """Parses a `labelSelector` parameter. Raises ValueError with the expected syntax."""
    tokens = _tokens(text)
    requirements = []
    while tokens[-1]:
        requirements.append(_requirement(tokens, text))
        separator = tokens.pop()
        if separator not in (",", ""):
            raise _unparsable(text, f"found {separator!r}, expected ',' or the end")
        if not separator:
            break
        if not tokens[-1]:
            raise _unparsable(text, "found the end, expected another requirement after ','")
    return LabelSelector(tuple(requirements)) if requirements else EVERYTHING


def from_object(selector: Mapping[str, Any] | None, *, absent: LabelSelector = NOTHING) -> LabelSelector:
    """Converts a LabelSelector object; `absent` when there is none. Raises ValueError when malformed."""
    if selector is None:
        return absent
    requirements = [
        Requirement(key, Operator.IN, frozenset((value,)))
        for key, value in sorted((selector.get("matchLabels") or {}).items())
    ]
    requirements += _expressions(selector.get("matchExpressions") or (), _LABEL_OPERATORS)
    return LabelSelector(tuple(requirements)) if requirements else EVERYTHING


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """Terms of which one must match; each is a pair of selectors, on the node's labels and on its fields."""

    terms: tuple[tuple[LabelSelector, LabelSelector], ...]

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether the node with that name and those labels is selected."""
        fields = {"metadata.name": name}
        return any(
            on_labels.matches(labels) and on_fields.matches(fields) for on_labels, on_fields in self.terms
        )


def node_selector(selector: Mapping[str, Any]) -> NodeSelector:
    """Converts a NodeSelector object; a term without conditions matches no node."""
    return NodeSelector(tuple(map(node_selector_term, selector.get("nodeSelectorTerms") or ())))


def node_selector_term(term: Mapping[str, Any]) -> tuple[LabelSelector, LabelSelector]:
    """Returns the selectors on a node's labels and on its fields of one term."""
    labels = tuple(_expressions(term.get("matchExpressions") or (), _NODE_OPERATORS))
    fields = tuple(_expressions(term.get("matchFields") or (), _LABEL_OPERATORS))
    if not labels and not fields:
        return NOTHING, NOTHING
    return LabelSelector(labels), LabelSelector(fields)


class FieldRequirement(NamedTuple):
    """One condition on one field; `operator` is `=` or `!=`."""

    path: str
    operator: str
    value: str


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """All requirements must match; without any, everything matches."""

    requirements: tuple[FieldRequirement, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.requirements

    def matches(self, getter: Callable[[str], str]) -> bool:
        """Whether an object is selected; `getter` returns its field at a path, empty for absent ones."""
        return all(
            (getter(path) == value) is (operator == "=") for path, operator, value in self.requirements
        )

    def exact(self, path: str) -> str | None:
        """The value that the field at `path` must equal, if the selector requires one."""
        return next(
            (value for field, operator, value in self.requirements if (field, operator) == (path, "=")), None
        )


@lru_cache(maxsize=1024)
def parse_fields(text: str) -> FieldSelector:
    r"""Parses a `fieldSelector` parameter; `\,`, `\=` and `\\` stand for themselves in values."""
    return FieldSelector(tuple(_field_requirement(part, text) for part in _split_unescaped(text) if part))


def check_label_key(key: str) -> None:
    """Raises ValueError unless `key` is a valid label key."""
    prefix, slash, name = key.rpartition("/")
    if not _NAME.fullmatch(name) or len(name) > 63:
        raise ValueError(
            f"{key!r} is not a label key; its name must be at most 63 letters, digits, '-', '_' or '.', "
            "and begin and end with a letter or digit"
        )
    if slash and (not _PREFIX.fullmatch(prefix) or len(prefix) > 253):
        raise ValueError(f"{key!r} is not a label key; its prefix must be a lower-case DNS name")


def check_label_value(value: str) -> None:
    """Raises ValueError unless `value` is a valid label value."""
    if value and (not _NAME.fullmatch(value) or len(value) > 63):
        raise ValueError(
            f"{value!r} is not a label value; it must be empty or at most 63 letters, digits, '-', '_' or '.', "
            "and begin and end with a letter or digit"
        )


def _integer(text: str | None) -> int | None:
    if text is None or not re.fullmatch(r"[+-]?[0-9]+", text):
        return None
    return int(text)


def _unparsable(text: str, why: str) -> ValueError:
    return ValueError(f"unable to parse requirement {text!r}: {why}")


def _tokens(text: str) -> list[str]:
    """Returns the tokens of a label selector in reverse, so that pop() takes the next; the end is an empty
    token."""
    tokens, position, end = [], 0, len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position)
        assert found is not None  # every character but white space begins a token
        tokens.append(found.group(1))
        position = found.end()
    tokens.append("")
    return tokens[::-1]


def _requirement(tokens: list[str], text: str) -> Requirement:
    token = tokens.pop()
    if token == "!":
        return Requirement(_key(tokens.pop(), text), Operator.DOES_NOT_EXIST)
    key = _key(token, text)
    following = tokens[-1]
    if following in ("", ","):
        return Requirement(key, Operator.EXISTS)
    tokens.pop()
    if following in _SETS:
        return Requirement(key, _SETS[following], frozenset(_set_values(tokens, text)))
    if following not in _COMPARISONS:
        raise _unparsable(text, f"found {following!r}, expected in, notin, =, ==, !=, <, > or ','")
    value = "" if tokens[-1] in ("", ",") else tokens.pop()
    operator = _COMPARISONS[following]
    _check_values(operator, (value,), text)
    return Requirement(key, operator, frozenset((value,)))


def _key(token: str, text: str) -> str:
    if not token or token in "(),=!<>" or token in ("==", "!="):
        raise _unparsable(text, f"found {token or 'the end'!r}, expected a label key or '!'")
    try:
        check_label_key(token)
    except ValueError as error:
        raise _unparsable(text, str(error)) from None
    return token


def _set_values(tokens: list[str], text: str) -> Iterator[str]:
    if (opening := tokens.pop()) != "(":
        raise _unparsable(text, f"found {opening!r}, expected '('")
    while True:
        value = "" if tokens[-1] in (",", ")") else tokens.pop()
        _check_values(Operator.IN, (value,), text)
        yield value
        closing = tokens.pop() if tokens else ""
        if closing == ")":
            return
        if closing != ",":
            raise _unparsable(text, f"found {closing or 'the end'!r}, expected ',' or ')'")


def _check_values(operator: Operator, values: tuple[str, ...], text: str) -> None:
    for value in values:
        if operator in (Operator.GREATER, Operator.LESS) and _integer(value) is None:
            raise _unparsable(text, f"{value!r} is compared by size and must be an integer")
        try:
            check_label_value(value)
        except ValueError as error:
            raise _unparsable(text, str(error)) from None


_LABEL_OPERATORS = frozenset({Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST})
_NODE_OPERATORS = frozenset(Operator)


def _expressions(expressions: Any, allowed: frozenset[Operator]) -> Iterator[Requirement]:
    for expression in expressions:
        operator = expression.get("operator", "")
        values = frozenset(expression.get("values") or ())
        if operator not in allowed:
            raise ValueError(
                f"{operator!r} is not a valid label selector operator; choose from {', '.join(sorted(allowed))}"
            )
        wanted = {Operator.IN: len(values) > 0, Operator.NOT_IN: len(values) > 0}
        if not wanted.get(operator, len(values) == (operator in (Operator.GREATER, Operator.LESS))):
            raise ValueError(
                f"{len(values)} values do not go with operator {operator} of {expression.get('key')!r}"
            )
        yield Requirement(expression["key"], Operator(operator), values)


def _split_unescaped(text: str) -> list[str]:
    """Splits `text` at its unescaped commas."""
    return re.findall(r"(?:\\.|[^\\,])+", text, re.DOTALL)


def _field_requirement(part: str, text: str) -> FieldRequirement:
    found = re.match(r"((?:\\.|[^\\=!])*?)(==|!=|=)(.*)", part, re.DOTALL)
    if not found or not found.group(1).strip():
        raise ValueError(
            f"invalid selector: {text!r}; can't understand {part!r}: write field=value, field==value or field!=value"
        )
    path, operator, value = found.groups()
    if re.search(r"(?<!\\)=", value):
        raise ValueError(
            f"invalid field selector {text!r}: unescaped '=' in the value {value!r}; write '\\='"
        )
    return FieldRequirement(path.strip(), "!=" if operator == "!=" else "=", re.sub(r"\\(.)", r"\1", value))
