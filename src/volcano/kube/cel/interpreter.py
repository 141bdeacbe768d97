"""Evaluation of CEL: a checked expression is compiled to nested functions that count their cost."""

import math
from collections.abc import Callable
from typing import Any

from volcano.kube.cel.checker import Checked
from volcano.kube.cel.comprehensions import compile_comprehension
from volcano.kube.cel.costs import LIST_COST, MAP_COST
from volcano.kube.cel.errors import EvaluationError, no_such_overload
from volcano.kube.cel.frame import Evaluate, Frame
from volcano.kube.cel.library.operators import optional_index
from volcano.kube.cel.library.overload import STRING_FACTOR, Overload
from volcano.kube.cel.syntax import (
    Call,
    Comprehension,
    Expression,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
)
from volcano.kube.cel.types import NAMED, Type, field_of
from volcano.kube.cel.values import (
    LISTS,
    NONE,
    Comparison,
    Duration,
    MapOfMaps,
    Optional,
    Timestamp,
    TypeValue,
    Uint,
    size_of,
)

_MISSING = object()
# A value whose schema is nullable can be null although its type says otherwise.
_NULL_ERRORS = (TypeError, AttributeError)
_MAP_KEYS = (str, int, Uint, bool)
# Python classes of the values of a type; types that are not listed are not told apart by class.
_CLASSES: dict[str, tuple[type, ...]] = {
    "bool": (bool,), "int": (int,), "uint": (Uint,), "double": (float,), "string": (str,), "bytes": (bytes,),
    "null_type": (type(None),), "list": LISTS, "map": (dict,), "timestamp": (Timestamp,), "duration": (Duration,),
    "optional_type": (Optional,), "type": (TypeValue,),
}  # fmt: skip


def compile_checked(checked: Checked) -> Evaluate:
    """Compiles a checked expression."""
    return _Compiler(checked).compile(checked.expression)


class _Compiler:
    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._compiled: dict[int, Evaluate] = {}

    def compile(self, node: Expression) -> Evaluate:
        known = self._compiled.get(id(node))
        if known is None:  # macros use their receiver twice
            known = self._compiled[id(node)] = self._compile(node)
        return known

    def _compile(self, node: Expression) -> Evaluate:
        match node:
            case Literal():
                value = node.value
                return lambda frame: value
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case Comprehension():
                return compile_comprehension(node, self.compile)
        raise AssertionError(node)

    # -- names and fields --------------------------------------------------------------------------------------------

    def _ident(self, node: Ident) -> Evaluate:
        if id(node) in self._checked.constants:
            return self._type_name(node)
        name = node.name

        def evaluate(frame: Frame) -> Any:
            frame.cost += 1
            return frame.values[name]

        return evaluate

    def _type_name(self, node: Expression) -> Evaluate:
        constant = TypeValue(self._checked.constants[id(node)])

        def evaluate(frame: Frame) -> Any:
            frame.cost += 1
            return constant

        return evaluate

    def _select(self, node: Select) -> Evaluate:
        if id(node) in self._checked.constants:
            return self._type_name(node)
        operand, shown = self.compile(node.operand), node.field_name
        holder_type = self._checked.type_of(node.operand)
        key, convert = self._field(holder_type, shown)
        declared = holder_type.is_object  # a property that is null counts as missing
        if node.test_only:
            return lambda frame: _has(operand(frame), key, declared)

        def evaluate(frame: Frame) -> Any:
            holder = operand(frame)
            frame.cost += 1
            if holder.__class__ is not dict:
                if holder.__class__ is Optional:
                    return _converted(optional_index(holder, key), convert)
                if holder.__class__ is MapOfMaps:
                    return holder[key]
                raise no_such_overload()
            item = holder.get(key, _MISSING)
            if item is _MISSING or (item is None and declared):
                raise EvaluationError(f"no such key: {shown}")
            return item if convert is None or item is None else convert(item)

        return evaluate

    def _field(self, holder: Type, name: str) -> tuple[str, Callable[[Any], Any] | None]:
        """Name of a field in JSON and the conversion of its value."""
        if holder.kind == "optional_type":
            holder = holder.parameters[0]
        known = field_of(holder, name)
        return (name, None) if known is None else (known.name, known.declaration.convert)

    # -- calls -------------------------------------------------------------------------------------------------------

    def _call(self, node: Call) -> Evaluate:
        match node.function:
            case "_&&_":
                return _logical(*map(self.compile, node.arguments), decisive=False)
            case "_||_":
                return _logical(*map(self.compile, node.arguments), decisive=True)
            case "_?_:_":
                return _conditional(*map(self.compile, node.arguments))
            case "_==_" | "_!=_":
                return _equality(*map(self.compile, node.arguments), wanted=node.function == "_==_")
            case "_?._":
                return self._optional_select(node)
        overloads = self._checked.overloads[id(node)]
        if node.function == "@in" and len(overloads) == 1 and overloads[0].parameters[1].kind == "list":
            return _membership(*map(self.compile, node.arguments))
        operands = list(node.arguments)
        if node.target is not None and id(node) not in self._checked.constants:
            operands.insert(0, node.target)
        compiled = [self.compile(each) for each in operands]
        if node.function == "@in" and len(overloads) > 1:
            return _dynamic_membership(*compiled)
        if len(overloads) == 1 and not any(
            _is_dynamic(self._checked.type_of(operand), parameter)
            for operand, parameter in zip(operands, overloads[0].parameters, strict=True)
        ):
            return _direct(overloads[0], compiled)
        return _dispatched(overloads, compiled)

    def _optional_select(self, node: Call) -> Evaluate:
        operand, name = self.compile(node.arguments[0]), node.arguments[1]
        assert isinstance(name, Literal)
        holder_type = self._checked.type_of(node.arguments[0])
        key, convert = self._field(holder_type, name.value)
        declared = holder_type.is_object

        def evaluate(frame: Frame) -> Any:
            holder = operand(frame)
            frame.cost += 1
            found = optional_index(holder, key)
            return NONE if declared and found.value is None else _converted(found, convert)

        return evaluate

    # -- literals ----------------------------------------------------------------------------------------------------

    def _list(self, node: ListLiteral) -> Evaluate:
        elements = [self.compile(each) for each in node.elements]
        optional = node.optional

        def evaluate(frame: Frame) -> Any:
            values = [element(frame) for element in elements]
            frame.cost += LIST_COST
            if optional:
                return [
                    value.value if index in optional else value
                    for index, value in enumerate(values)
                    if index not in optional or value.present
                ]
            return values

        return evaluate

    def _map(self, node: MapLiteral) -> Evaluate:
        entries = [
            (self.compile(key), self.compile(value), optional) for key, value, optional in node.entries
        ]

        def evaluate(frame: Frame) -> Any:
            values: dict[Any, Any] = {}
            for key, value, optional in entries:
                name, item = key(frame), value(frame)
                if name.__class__ not in _MAP_KEYS:
                    raise EvaluationError("unsupported key type")
                if optional and not item.present:
                    continue
                if name in values:
                    raise EvaluationError(f"Failed with repeated key: {name}")
                values[name] = item.value if optional else item
            frame.cost += MAP_COST
            return values

        return evaluate


def _has(holder: Any, key: str, declared: bool) -> bool:
    if holder.__class__ is Optional:
        return bool(holder.present) and _has(holder.value, key, declared)
    if holder.__class__ is MapOfMaps:
        return True
    if holder.__class__ is not dict:
        raise no_such_overload()
    return holder.get(key) is not None if declared else key in holder


def _converted(found: Optional, convert: Callable[[Any], Any] | None) -> Optional:
    if convert is None or not found.present or found.value is None:
        return found
    return Optional(convert(found.value))


def _is_dynamic(operand: Type, parameter: Type) -> bool:
    """Whether the class of an operand has to be checked when it is evaluated."""
    return (operand.kind in ("dyn", "null_type") and parameter.kind in _CLASSES) or (
        parameter.kind in NAMED and (operand.kind == "dyn")
    )


# -- operators that decide what is evaluated -------------------------------------------------------------------------


def _logical(left: Evaluate, right: Evaluate, *, decisive: bool) -> Evaluate:
    """`&&` and `||`: a decisive operand on either side hides an error of the other."""

    def evaluate(frame: Frame) -> Any:
        try:
            first = left(frame)
            if first is decisive:
                return decisive
            if first.__class__ is not bool:
                raise no_such_overload()
        except EvaluationError:
            if right(frame) is decisive:
                return decisive
            raise
        second = right(frame)
        if second.__class__ is not bool:
            raise no_such_overload()
        return bool(second)

    return evaluate


def _conditional(condition: Evaluate, when_true: Evaluate, when_false: Evaluate) -> Evaluate:
    def evaluate(frame: Frame) -> Any:
        chosen = condition(frame)
        if chosen is True:
            return when_true(frame)
        if chosen is False:
            return when_false(frame)
        raise no_such_overload()

    return evaluate


_SIMPLE = frozenset({int, bool, float, type(None)})


def _equality(left: Evaluate, right: Evaluate, *, wanted: bool) -> Evaluate:
    def evaluate(frame: Frame) -> bool:
        first, second = left(frame), right(frame)
        kind = first.__class__
        if kind is second.__class__:
            if kind in _SIMPLE:
                frame.cost += 1
                return (first == second) is wanted
            if kind is str:
                frame.spend(math.ceil(min(len(first), len(second)) * STRING_FACTOR))
                return (first == second) is wanted
        comparison = Comparison()
        result = comparison.equal(first, second)
        least = math.ceil(min(size_of(first), size_of(second)) * STRING_FACTOR)
        frame.spend(least + 2 * comparison.visited)
        return result is wanted

    return evaluate


def _membership(item: Evaluate, holder: Evaluate) -> Evaluate:
    """`item in list`."""

    def evaluate(frame: Frame) -> bool:
        wanted, values = item(frame), holder(frame)
        if not isinstance(values, list):
            raise no_such_overload()
        frame.spend(len(values))
        if wanted.__class__ is str:
            return wanted in values
        comparison = Comparison()
        found = comparison.contains(values, wanted)
        frame.spend(int(max(comparison.visited - len(values), 0) * STRING_FACTOR))
        return found

    return evaluate


def _dynamic_membership(item: Evaluate, holder: Evaluate) -> Evaluate:
    """`item in holder` where only the evaluation shows whether that is a list or a map."""

    def evaluate(frame: Frame) -> bool:
        wanted, values = item(frame), holder(frame)
        if isinstance(values, dict):
            frame.cost += 1
            return wanted.__class__ in _MAP_KEYS and wanted in values
        if not isinstance(values, list):
            raise no_such_overload()
        frame.spend(len(values))
        return Comparison().contains(values, wanted)

    return evaluate


# -- calls of functions ----------------------------------------------------------------------------------------------


def _direct(overload: Overload, operands: list[Evaluate]) -> Evaluate:
    """A call whose overload is known from the types."""
    call, is_cheap = overload.call, overload.price is None and not overload.overhead
    if is_cheap and len(operands) == 1:
        (only,) = operands

        def evaluate(frame: Frame) -> Any:
            value = only(frame)
            frame.cost += 1
            try:
                return call(value)
            except _NULL_ERRORS:
                raise no_such_overload() from None

    elif is_cheap and len(operands) == 2:
        first, second = operands

        def evaluate(frame: Frame) -> Any:
            left, right = first(frame), second(frame)
            frame.cost += 1
            try:
                return call(left, right)
            except _NULL_ERRORS:
                raise no_such_overload() from None

    else:

        def evaluate(frame: Frame) -> Any:
            return _priced(overload, tuple(operand(frame) for operand in operands), frame)

    return evaluate


def _priced(overload: Overload, arguments: tuple[Any, ...], frame: Frame) -> Any:
    """Calls a function, and pays before the call as far as the price does not depend on the result."""
    price = overload.price
    try:
        paid = 1 if price is None else price(arguments, None)
        frame.spend(paid + overload.overhead)
        result = overload.call(*arguments)
    except _NULL_ERRORS:
        raise no_such_overload() from None
    due = paid if price is None else price(arguments, result)
    if due > paid:
        frame.spend(due - paid)
    return result


def _dispatched(overloads: list[Overload], operands: list[Evaluate]) -> Evaluate:
    """A call whose overload depends on the classes of the operands."""
    candidates = [(overload, tuple(_guard(each) for each in overload.parameters)) for overload in overloads]

    def evaluate(frame: Frame) -> Any:
        arguments = tuple(operand(frame) for operand in operands)
        for overload, guards in candidates:
            if all(guard(value) for guard, value in zip(guards, arguments, strict=True)):
                return _priced(overload, arguments, frame)
        raise no_such_overload()

    return evaluate


def _guard(parameter: Type) -> Callable[[Any], bool]:
    classes = _CLASSES.get(parameter.kind)
    if parameter.kind == "list" and parameter.parameters[0].kind in _CLASSES:
        element = _CLASSES[parameter.parameters[0].kind]
        return lambda value: isinstance(value, list) and (not value or value[0].__class__ in element)
    if classes is not None:
        return lambda value: value.__class__ in classes
    if parameter.kind in NAMED and parameter.kind != "dyn":
        name = parameter.kind
        return lambda value: getattr(value, "type_name", "") == name
    return lambda value: True
