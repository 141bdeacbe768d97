"""Evaluation of comprehensions: the forms of the common macros have loops of their own."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from volcano.kube.cel.costs import LIST_COST
from volcano.kube.cel.errors import CostLimitExceeded, EvaluationError, no_such_overload
from volcano.kube.cel.frame import Evaluate, Frame
from volcano.kube.cel.syntax import (
    ACCUMULATOR,
    Call,
    Comprehension,
    Expression,
    Ident,
    ListLiteral,
)

Compile = Callable[[Expression], Evaluate]
# Cost of an iteration besides the macro's arguments: accumulator, condition and step, as cel-go evaluates them.
_ALL_STEP, _EXISTS_STEP, _COLLECT_STEP = 3, 4, LIST_COST + 2


def compile_comprehension(node: Comprehension, compile_node: Compile) -> Evaluate:
    """Compiles a comprehension; `compile_node` compiles its parts."""
    values = compile_node(node.iter_range)
    loop = _quantifier(node, compile_node) or _collector(node, compile_node) or _fold(node, compile_node)
    names = (node.variable, node.second, node.accumulator)

    def evaluate(frame: Frame) -> Any:
        items = _items(values(frame), bool(node.second))
        frame.spend(0)
        variables = frame.values
        shadowed = [(name, variables[name]) for name in names if name in variables]
        if not shadowed:
            return loop(frame, items)
        try:
            return loop(frame, items)
        finally:
            variables.update(shadowed)

    return evaluate


def _items(values: Any, pairs: bool) -> Iterable[Any]:
    if isinstance(values, list):
        return enumerate(values) if pairs else values
    if isinstance(values, dict):
        return values.items() if pairs else values
    raise no_such_overload()


Loop = Callable[[Frame, Iterable[Any]], Any]


def _bound(node: Comprehension) -> Callable[[Frame, Iterable[Any]], Iterator[None]]:
    """Binds the iteration variables to each item in turn, and checks the cost limit."""
    first, second = node.variable, node.second

    def bind(frame: Frame, items: Iterable[Any]) -> Iterator[None]:
        variables = frame.values
        for item in items:
            if frame.cost > frame.limit:
                raise CostLimitExceeded
            if second:
                variables[first], variables[second] = item
            else:
                variables[first] = item
            yield

    return bind


def _quantifier(node: Comprehension, compile_node: Compile) -> Loop | None:
    """`all` and `exists`: an error counts only if no other item decides."""
    condition, step = node.condition, node.step
    if not (isinstance(condition, Call) and condition.function == "@not_strictly_false"):
        return None
    assert isinstance(step, Call)
    decisive = step.function == "_||_"
    test, bind = compile_node(step.arguments[1]), _bound(node)
    cost = _EXISTS_STEP if decisive else _ALL_STEP

    def loop(frame: Frame, items: Iterable[Any]) -> Any:
        failure: EvaluationError | None = None
        frame.cost += 1
        for _ in bind(frame, items):
            frame.cost += cost
            try:
                found = test(frame)
                if found is decisive:
                    return decisive
                if found.__class__ is not bool:
                    raise no_such_overload()
            except EvaluationError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return not decisive

    return loop


def _collector(node: Comprehension, compile_node: Compile) -> Loop | None:
    """`map`, `filter` and `transformList`: appends to one list instead of joining lists."""
    step: Expression = node.step
    test: Evaluate | None = None
    if isinstance(step, Call) and step.function == "_?_:_" and _is_accumulator(step.arguments[2]):
        test, step = compile_node(step.arguments[0]), step.arguments[1]
    if not (
        isinstance(node.initial, ListLiteral)
        and isinstance(step, Call)
        and step.function == "_+_"
        and _is_accumulator(step.arguments[0])
        and isinstance(step.arguments[1], ListLiteral)
    ):
        return None
    item, bind = compile_node(step.arguments[1].elements[0]), _bound(node)

    def loop(frame: Frame, items: Iterable[Any]) -> list[Any]:
        found: list[Any] = []
        frame.cost += LIST_COST + 1
        for _ in bind(frame, items):
            if test is not None:
                chosen = test(frame)
                if chosen is False:
                    frame.cost += 1
                    continue
                if chosen is not True:
                    raise no_such_overload()
            frame.cost += _COLLECT_STEP
            found.append(item(frame))
        return found

    return loop


def _is_accumulator(node: Expression) -> bool:
    return isinstance(node, Ident) and node.name == ACCUMULATOR


def _fold(node: Comprehension, compile_node: Compile) -> Loop:
    """Any other comprehension."""
    initial, condition = compile_node(node.initial), compile_node(node.condition)
    step, result, bind = compile_node(node.step), compile_node(node.result), _bound(node)
    accumulator = node.accumulator

    def loop(frame: Frame, items: Iterable[Any]) -> Any:
        value = initial(frame)
        frame.values[accumulator] = value
        for _ in bind(frame, items):
            if condition(frame) is False:
                break
            frame.values[accumulator] = step(frame)
        return result(frame)

    return loop
