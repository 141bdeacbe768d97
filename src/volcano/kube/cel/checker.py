"""Type checker of CEL: resolves names, fields and overloads, and reports errors in the words of cel-go."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from volcano.kube.cel import types
from volcano.kube.cel.declarations import Declaration
from volcano.kube.cel.errors import CompilationError, Issue
from volcano.kube.cel.library.all_functions import FUNCTIONS
from volcano.kube.cel.library.overload import Overload
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
from volcano.kube.cel.types import BOOL, DYN, ERROR, INT, STRING, Substitution, Type
from volcano.kube.cel.values import Uint

_LITERALS: Mapping[type, Type] = {
    bool: BOOL, int: INT, Uint: types.UINT, float: types.DOUBLE, str: STRING, bytes: types.BYTES,
    type(None): types.NULL,
}  # fmt: skip


@dataclass(slots=True)
class Checked:
    """A checked expression: the types of its nodes and the overloads of its calls."""

    expression: Expression
    types: dict[int, Type] = field(default_factory=dict)
    overloads: dict[int, list[Overload]] = field(default_factory=dict)
    # Calls and selections that are really the name of a function or type, such as `sets.contains`.
    constants: dict[int, str] = field(default_factory=dict)
    variables: set[str] = field(default_factory=set)
    # Lists that are arguments of `format`, which takes values of several types.
    formatted: set[int] = field(default_factory=set)

    def type_of(self, node: Expression) -> Type:
        return self.types[id(node)]

    @property
    def result(self) -> Type:
        return self.types[id(self.expression)]


def check(source: str, expression: Expression, variables: Mapping[str, Declaration]) -> Checked:
    """Checks an expression. Raises `CompilationError` with all problems."""
    checker = _Checker(expression, {name: each.type for name, each in variables.items()})
    checker.check(expression)
    if checker.issues:
        raise CompilationError(source, sorted(checker.issues, key=lambda issue: issue.offset))
    checked = checker.checked
    checked.types = {node: checker.substitution.resolved(each) for node, each in checked.types.items()}
    return checked


class _Checker:
    def __init__(self, expression: Expression, variables: dict[str, Type]) -> None:
        self.checked = Checked(expression)
        self.issues: list[Issue] = []
        self.substitution = Substitution()
        self._globals = variables
        self._locals: list[dict[str, Type]] = []

    def check(self, node: Expression) -> Type:
        known = self.checked.types.get(id(node))
        if known is not None:  # macros use their receiver twice
            return known
        found = self._check(node)
        self.checked.types[id(node)] = found
        return found

    def _check(self, node: Expression) -> Type:
        match node:
            case Literal():
                return _LITERALS[node.value.__class__]
            case Ident():
                return self._ident(node, node.name)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case Comprehension():
                return self._comprehension(node)
        raise AssertionError(node)

    def _error(self, node: Expression, message: str) -> Type:
        issue = Issue(node.offset, message)
        if issue not in self.issues:
            self.issues.append(issue)
        return ERROR

    # -- names -------------------------------------------------------------------------------------------------------

    def _variable(self, name: str) -> Type | None:
        for scope in reversed(self._locals):
            if name in scope:
                return scope[name]
        found = self._globals.get(name)
        if found is not None:
            self.checked.variables.add(name)
        return found

    def _ident(self, node: Expression, name: str) -> Type:
        found = self._variable(name)
        if found is not None:
            return found
        if name in types.NAMED:
            self.checked.constants[id(node)] = name
            return types.type_of(types.NAMED[name])
        return self._error(node, f"undeclared reference to '{name}' (in container '')")

    def _qualified(self, node: Expression) -> str | None:
        """The dotted name that a node spells; None if it begins with a variable or is no name."""
        parts: list[str] = []
        while isinstance(node, Select) and not node.test_only:
            parts.append(node.field_name)
            node = node.operand
        if not isinstance(node, Ident) or self._variable(node.name) is not None:
            return None
        return ".".join([node.name, *reversed(parts)])

    def _select(self, node: Select) -> Type:
        name = self._qualified(node)
        if name in types.NAMED:
            self.checked.constants[id(node)] = str(name)
            return types.type_of(types.NAMED[str(name)])
        operand = self._field(node, self.check(node.operand), node.field_name)
        return BOOL if node.test_only else operand

    def _field(self, node: Expression, operand: Type, name: str) -> Type:
        operand = self.substitution.bound(operand)
        if types.is_dynamic(operand) or types.is_parameter(operand):
            return DYN
        if operand.kind == "map":
            return operand.parameters[1]
        if operand.kind == "optional_type":
            inner = self._field(node, operand.parameters[0], name)
            return inner if inner is ERROR else types.optional_of(inner)
        if operand.fields is None:
            return self._error(node, f"type '{self._shown(operand)}' does not support field selection")
        known = types.field_of(operand, name)
        if known is None:
            return self._error(node, f"undefined field '{name}'")
        declared: Type = known.declaration.type
        return declared

    def _shown(self, type_: Type) -> str:
        return str(self.substitution.resolved(type_))

    # -- calls -------------------------------------------------------------------------------------------------------

    def _call(self, node: Call) -> Type:
        if node.function == "_?._":
            return self._optional_select(node)
        function, operands, method = node.function, list(node.arguments), False
        if node.target is not None:
            prefix = self._qualified(node.target)
            qualified = f"{prefix}.{function}"
            if prefix is not None and qualified in FUNCTIONS:
                function = qualified
                self.checked.constants[id(node)] = function
            else:
                operands.insert(0, node.target)
                method = True
        given = [self.check(operand) for operand in operands]
        overloads = [each for each in FUNCTIONS.get(function, ()) if each.method is method]
        if function not in FUNCTIONS:
            return self._error(node, f"undeclared reference to '{function}' (in container '')")
        matching: list[Overload] = []
        result: Type | None = None
        for overload in overloads:
            parameters, returned = overload.parameters, overload.result
            if overload.generic:
                *instances, returned = self.substitution.instance((*parameters, returned))
                parameters = tuple(instances)
            elif not self.substitution.may_assign(given, parameters):
                continue
            if self.substitution.assign_all(given, parameters):
                matching.append(overload)
                result = returned if result is None else result if result == returned else DYN
        if result is None:
            return self._error(node, self._mismatch(function, given, method))
        self.checked.overloads[id(node)] = matching
        if function == "format":
            self.checked.formatted.add(id(node.arguments[0]))
        return result

    def _mismatch(self, function: str, given: list[Type], method: bool) -> str:
        shown = [self._shown(each) for each in given]
        if method:
            applied = f"{shown[0]}.({', '.join(shown[1:])})"
        else:
            applied = f"({', '.join(shown)})"
        return f"found no matching overload for '{function}' applied to '{applied}'"

    def _optional_select(self, node: Call) -> Type:
        """`operand.?field`."""
        operand = self.check(node.arguments[0])
        self.check(node.arguments[1])
        name = node.arguments[1]
        assert isinstance(name, Literal)
        found = self._field(node, operand, name.value)
        self.checked.overloads[id(node)] = FUNCTIONS["_?._"]
        if found is ERROR or found.kind == "optional_type":
            return found
        return types.optional_of(found)

    # -- lists, maps and comprehensions ------------------------------------------------------------------------------

    def _list(self, node: ListLiteral) -> Type:
        element: Type | None = None
        for index, each in enumerate(node.elements):
            found = self.check(each)
            if index in node.optional:
                found = self._unwrapped(each, found)
            element = self._common(element, found)
        return types.list_of(self.substitution.fresh() if element is None else element)

    def _map(self, node: MapLiteral) -> Type:
        key: Type | None = None
        value: Type | None = None
        for key_node, value_node, optional in node.entries:
            key = self._common(key, self.check(key_node))
            found = self.check(value_node)
            if optional:
                found = self._unwrapped(value_node, found)
            value = self._common(value, found)
        if key is None or value is None:
            return types.map_of(self.substitution.fresh(), self.substitution.fresh())
        return types.map_of(key, value)

    def _unwrapped(self, node: Expression, found: Type) -> Type:
        if types.is_dynamic(found):
            return DYN
        if found.kind != "optional_type":
            return self._error(node, f"expected type 'optional_type(dyn)' but found '{self._shown(found)}'")
        return found.parameters[0]

    def _common(self, known: Type | None, found: Type) -> Type:
        """The common type of the elements of a literal. `validators` rejects those of several types."""
        if known is None:
            return found
        joined = self.substitution.join(known, found)
        return DYN if joined is None else joined

    def _comprehension(self, node: Comprehension) -> Type:
        variables = self._iteration(node, self.check(node.iter_range))
        initial = self.check(node.initial)
        self._locals.append({node.accumulator: initial})
        self._locals.append(variables)
        self._expect(node.condition, BOOL)
        step = self.check(node.step)
        if not self.substitution.assign(step, initial):
            self._error(node.step, f"expected type '{self._shown(initial)}' but found '{self._shown(step)}'")
        self._locals.pop()
        result = self.check(node.result)
        self._locals.pop()
        return result

    def _expect(self, node: Expression, wanted: Type) -> None:
        found = self.check(node)
        if not self.substitution.assign(found, wanted):
            self._error(node, f"expected type '{wanted}' but found '{self._shown(found)}'")

    def _iteration(self, node: Comprehension, found: Type) -> dict[str, Type]:
        found = self.substitution.bound(found)
        if found.kind == "list":
            first, second = INT, found.parameters[0]
        elif found.kind == "map":
            first, second = found.parameters
        elif types.is_dynamic(found) or types.is_parameter(found):
            first = second = DYN
        else:
            self._error(
                node.iter_range,
                f"expression of type '{self._shown(found)}' cannot be range of a comprehension "
                "(must be list, map, or dynamic)",
            )
            first = second = ERROR
        if node.second:
            return {node.variable: first, node.second: second}
        return {node.variable: second if found.kind == "list" else first}
