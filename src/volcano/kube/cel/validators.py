"""Rejects expressions with constants that can never be valid: patterns, times, format strings, mixed literals."""

from collections.abc import Callable, Iterator
from typing import Any

from volcano.kube.api.formats import re2_patterns
from volcano.kube.cel.checker import Checked
from volcano.kube.cel.errors import EvaluationError, Issue
from volcano.kube.cel.library.strings import CLAUSES, clause_problem, clauses
from volcano.kube.cel.syntax import (
    Call,
    Expression,
    ListLiteral,
    Literal,
    MapLiteral,
    children,
)
from volcano.kube.cel.types import Type
from volcano.kube.cel.values import Duration, Timestamp

# Functions that cel-go calls while it compiles if their argument is a constant.
_CONVERSIONS = frozenset({"bool", "bytes", "double", "int", "string", "uint"})


def issues(checked: Checked) -> list[Issue]:
    """Problems of the constants of an expression, by place."""
    found = {issue for node in _nodes(checked.expression) for issue in _of_node(checked, node)}
    return sorted(found)


def failed_conversion(checked: Checked) -> str:
    """Why a conversion of a constant always fails; empty if none does."""
    for node in _nodes(checked.expression):
        if not (isinstance(node, Call) and node.function in _CONVERSIONS and len(node.arguments) == 1):
            continue
        argument = node.arguments[0]
        overloads = checked.overloads[id(node)]
        if isinstance(argument, Literal) and len(overloads) == 1:
            try:
                overloads[0].call(argument.value)
            except EvaluationError as error:
                return str(error)
    return ""


def _nodes(root: Expression) -> Iterator[Expression]:
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:  # macros use their receiver twice
            seen.add(id(node))
            waiting.extend(children(node))
            yield node


def _of_node(checked: Checked, node: Expression) -> Iterator[Issue]:
    match node:
        case Call(function="matches", arguments=[*_, Literal() as pattern]):
            yield from _parsed(pattern, "matches", re2_patterns.compiled)
        case Call(function="duration", arguments=[Literal() as text]):
            yield from _parsed(text, "duration", Duration.parse)
        case Call(function="timestamp", arguments=[Literal() as text]):
            yield from _parsed(text, "timestamp", Timestamp.parse)
        case Call(function="format", target=Literal(), arguments=[ListLiteral() as values]):
            yield from _format(checked, node, values)
        case Call(function="format"):
            pass
        case ListLiteral() if not _is_formatted(checked, node):
            yield from _same_type(
                checked, node.elements, [index in node.optional for index in range(len(node.elements))]
            )
        case MapLiteral():
            yield from _same_type(checked, [key for key, _, _ in node.entries], [False] * len(node.entries))
            yield from _same_type(
                checked,
                [value for _, value, _ in node.entries],
                [optional for _, _, optional in node.entries],
            )


def _is_formatted(checked: Checked, node: ListLiteral) -> bool:
    """Whether a list is the argument of `format`, which takes values of several types."""
    return id(node) in checked.formatted


def _parsed(argument: Literal, name: str, parse: Callable[[str], Any]) -> Iterator[Issue]:
    if not isinstance(argument.value, str):
        return
    try:
        parse(argument.value)
    except (ValueError, EvaluationError):
        yield Issue(argument.offset, f"invalid {name} argument")


def _same_type(checked: Checked, nodes: list[Expression], optional: list[bool]) -> Iterator[Issue]:
    first: Type | None = None
    for node, is_optional in zip(nodes, optional, strict=True):
        found = checked.type_of(node)
        if is_optional and found.parameters:
            found = found.parameters[0]
        if first is None:
            first = found
        elif found != first:
            yield Issue(node.offset, f"expected type '{first}' but found '{found}'")


def _format(checked: Checked, node: Call, values: ListLiteral) -> Iterator[Issue]:
    assert isinstance(node.target, Literal)
    try:
        verbs = clauses(str(node.target.value))
    except EvaluationError as error:
        yield Issue(node.offset, str(error))
        return
    for index, verb in enumerate(verbs):
        if verb not in CLAUSES:
            yield Issue(node.offset, clause_problem(verb, ""))
            return
        if index >= len(values.elements):
            yield Issue(node.offset, f"index {index} out of range")
            return
        kind = _kind(checked.type_of(values.elements[index]))
        if kind != "dyn" and (problem := clause_problem(verb, kind)):
            yield Issue(values.elements[index].offset, problem)
            return
    if len(values.elements) > len(verbs):
        text = f"too many arguments supplied to string.format (expected {len(verbs)}, got {len(values.elements)})"
        yield Issue(node.offset, text)


def _kind(type_: Type) -> str:
    return type_.kind if type_.parameters or type_.is_object else str(type_)
