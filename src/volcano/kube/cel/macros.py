"""Macros: calls that are expanded to comprehensions while parsing."""

from collections.abc import Callable, Mapping

from volcano.kube.cel.syntax import (
    ACCUMULATOR,
    Call,
    Comprehension,
    Expression,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
)

# Offset of the call, its receiver and its arguments.
Macro = Callable[[int, Expression, list[Expression]], Expression]
# Receiver of macros that have none.
OnlyReceiver = Literal(0, None)


class MacroError(ValueError):
    """An argument of a macro is not of the form it needs."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset


def _name(argument: Expression) -> str:
    if not isinstance(argument, Ident):
        raise MacroError(argument.offset, "argument must be a simple name")
    if argument.name == ACCUMULATOR:
        raise MacroError(argument.offset, "iteration variable overwrites accumulator variable")
    return argument.name


def _has(offset: int, target: Expression, arguments: list[Expression]) -> Expression:
    chosen = arguments[0]
    if not isinstance(chosen, Select) or chosen.test_only:
        raise MacroError(chosen.offset, "invalid argument to has() macro")
    return Select(offset, chosen.operand, chosen.field_name, test_only=True)


def _names(arguments: list[Expression]) -> tuple[str, str]:
    """The iteration variables: one, or two for macros over keys and values."""
    first, second = _name(arguments[0]), _name(arguments[1])
    if first == second:
        raise MacroError(arguments[1].offset, f"duplicate variable name: {first}")
    return first, second


def _fold(
    offset: int,
    target: Expression,
    variables: tuple[str, str],
    initial: Expression,
    condition: Expression,
    step: Expression,
    result: Expression | None = None,
) -> Comprehension:
    end = _accumulator(offset) if result is None else result
    return Comprehension(offset, target, *variables, ACCUMULATOR, initial, condition, step, end)


def _accumulator(offset: int) -> Ident:
    return Ident(offset, ACCUMULATOR)


def _quantifier(
    variables: tuple[str, str], every: bool, offset: int, target: Expression, test: Expression
) -> Expression:
    """`all` and `exists`: stops at the first element that decides."""
    running: Expression = _accumulator(offset)
    if not every:
        running = Call(offset, "!_", [running])
    condition = Call(offset, "@not_strictly_false", [running])
    step = Call(offset, "_&&_" if every else "_||_", [_accumulator(offset), test])
    return _fold(offset, target, variables, Literal(offset, every), condition, step)


def _exactly_one(variables: tuple[str, str], offset: int, target: Expression, test: Expression) -> Expression:
    more = Call(offset, "_+_", [_accumulator(offset), Literal(offset, 1)])
    step = Call(offset, "_?_:_", [test, more, _accumulator(offset)])
    result = Call(offset, "_==_", [_accumulator(offset), Literal(offset, 1)])
    return _fold(offset, target, variables, Literal(offset, 0), Literal(offset, True), step, result)


def _collect(
    variables: tuple[str, str], offset: int, target: Expression, test: Expression | None, item: Expression
) -> Expression:
    """`map`, `filter` and `transformList`: appends an item to the accumulated list."""
    step: Expression = Call(offset, "_+_", [_accumulator(offset), ListLiteral(offset, [item])])
    return _fold(
        offset, target, variables, ListLiteral(offset, []), Literal(offset, True), _if(offset, test, step)
    )


def _insert(
    variables: tuple[str, str],
    offset: int,
    target: Expression,
    test: Expression | None,
    entry: list[Expression],
) -> Expression:
    """`transformMap` and `transformMapEntry`: inserts into the accumulated map."""
    step: Expression = Call(offset, "cel.@mapInsert", [_accumulator(offset), *entry])
    return _fold(
        offset, target, variables, MapLiteral(offset, []), Literal(offset, True), _if(offset, test, step)
    )


def _if(offset: int, test: Expression | None, step: Expression) -> Expression:
    return step if test is None else Call(offset, "_?_:_", [test, step, _accumulator(offset)])


def _one(arguments: list[Expression]) -> tuple[str, str]:
    return _name(arguments[0]), ""


def _map(offset: int, target: Expression, arguments: list[Expression]) -> Expression:
    test = arguments[1] if len(arguments) == 3 else None
    return _collect(_one(arguments), offset, target, test, arguments[-1])


def _filter(offset: int, target: Expression, arguments: list[Expression]) -> Expression:
    name = _name(arguments[0])
    return _collect((name, ""), offset, target, arguments[1], Ident(arguments[0].offset, name))


def _transform_list(offset: int, target: Expression, arguments: list[Expression]) -> Expression:
    test = arguments[2] if len(arguments) == 4 else None
    return _collect(_names(arguments), offset, target, test, arguments[-1])


def _transform_map(offset: int, target: Expression, arguments: list[Expression]) -> Expression:
    test = arguments[2] if len(arguments) == 4 else None
    key = Ident(arguments[0].offset, _name(arguments[0]))
    return _insert(_names(arguments), offset, target, test, [key, arguments[-1]])


def _transform_entry(offset: int, target: Expression, arguments: list[Expression]) -> Expression:
    test = arguments[2] if len(arguments) == 4 else None
    return _insert(_names(arguments), offset, target, test, [arguments[-1]])


def _with_optional(flat: bool) -> Macro:
    """`optMap` and `optFlatMap`: binds the value of an optional to a name."""

    def expand(offset: int, target: Expression, arguments: list[Expression]) -> Expression:
        name = _name(arguments[0])
        value = Call(offset, "value", [], target)
        bound = _bound(offset, name, value, arguments[1])
        if not flat:
            bound = Call(offset, "optional.of", [bound])
        present = Call(offset, "hasValue", [], target)
        return Call(offset, "_?_:_", [present, bound, Call(offset, "optional.none", [])])

    return expand


def bind(offset: int, target: Expression, arguments: list[Expression]) -> Expression:
    """`cel.bind(name, value, expression)`: a name for a value."""
    return _bound(offset, _name(arguments[0]), arguments[1], arguments[2])


def _bound(offset: int, name: str, value: Expression, expression: Expression) -> Expression:
    return Comprehension(
        offset, ListLiteral(offset, []), "#unused", "", name, value, Literal(offset, False), Ident(offset, name),
        expression,
    )  # fmt: skip


def _sort_by(offset: int, target: Expression, arguments: list[Expression]) -> Expression:
    keys = _collect(_one(arguments), offset, target, None, arguments[1])
    return Call(offset, "@sortByAssociatedKeys", [keys], target)


# By name, number of arguments and whether there is a receiver.
MACROS: Mapping[tuple[str, int, bool], Macro] = {
    ("has", 1, False): _has,
    ("all", 2, True): lambda at, target, given: _quantifier(_one(given), True, at, target, given[1]),
    ("all", 3, True): lambda at, target, given: _quantifier(_names(given), True, at, target, given[2]),
    ("exists", 2, True): lambda at, target, given: _quantifier(_one(given), False, at, target, given[1]),
    ("exists", 3, True): lambda at, target, given: _quantifier(_names(given), False, at, target, given[2]),
    ("exists_one", 2, True): lambda at, target, given: _exactly_one(_one(given), at, target, given[1]),
    **{
        (name, 3, True): lambda at, target, given: _exactly_one(_names(given), at, target, given[2])
        for name in ("exists_one", "existsOne")
    },
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_entry,
    ("transformMapEntry", 4, True): _transform_entry,
    ("optMap", 2, True): _with_optional(flat=False),
    ("optFlatMap", 2, True): _with_optional(flat=True),
    ("sortBy", 2, True): _sort_by,
}
