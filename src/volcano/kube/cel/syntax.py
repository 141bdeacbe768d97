"""Syntax tree of CEL. Macros are expanded to comprehensions, so that cost is counted as in cel-go."""

from dataclasses import dataclass, field
from typing import Any

# Accumulator of expanded macros; no identifier can have this name.
ACCUMULATOR = "@result"


@dataclass(slots=True, eq=False)
class Expression:
    """A node; `offset` is its place in the source, `depth` the height of the tree below it."""

    offset: int
    depth: int = field(default=1, init=False)


@dataclass(slots=True, eq=False)
class Literal(Expression):
    value: Any


@dataclass(slots=True, eq=False)
class Ident(Expression):
    name: str


@dataclass(slots=True, eq=False)
class Select(Expression):
    """`operand.field`; with `test_only` the expansion of `has(operand.field)`."""

    operand: Expression
    field_name: str
    test_only: bool = False


@dataclass(slots=True, eq=False)
class Call(Expression):
    """A function, method or operator. Operators have the names of cel-go, such as `_+_` and `_?_:_`."""

    function: str
    arguments: list[Expression]
    target: Expression | None = None


@dataclass(slots=True, eq=False)
class ListLiteral(Expression):
    """`[a, ?b]`; `optional` has the indices of elements that are left out when they have no value."""

    elements: list[Expression]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class MapLiteral(Expression):
    """`{key: value, ?key: optional}`."""

    entries: list[tuple[Expression, Expression, bool]]


@dataclass(slots=True, eq=False)
class Comprehension(Expression):
    """A fold over a list or map; with `second` the variables are index or key, and value."""

    iter_range: Expression
    variable: str
    second: str
    accumulator: str
    initial: Expression
    condition: Expression
    step: Expression
    result: Expression


def children(node: Expression) -> list[Expression]:
    """Direct subexpressions."""
    match node:
        case Select():
            return [node.operand]
        case Call():
            return [*([node.target] if node.target is not None else ()), *node.arguments]
        case ListLiteral():
            return node.elements
        case MapLiteral():
            return [each for key, value, _ in node.entries for each in (key, value)]
        case Comprehension():
            return [node.iter_range, node.initial, node.condition, node.step, node.result]
    return []
