"""Estimated cost of an expression, from the sizes that the schema allows. The rules are those of cel-go's estimator."""

from collections.abc import Mapping
from typing import NamedTuple

from volcano.kube.cel import types
from volcano.kube.cel.checker import Checked
from volcano.kube.cel.declarations import Declaration
from volcano.kube.cel.library.overload import LARGEST, ONE, UNKNOWN, Estimate, Overload, Range
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
from volcano.kube.cel.types import Type

_ZERO = Range(0, 0)
LIST_COST, MAP_COST = 10, 30
_SCALARS = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})
_OPAQUE = frozenset({types.QUANTITY, types.SEMVER, types.IP, types.CIDR})
Path = tuple[str, ...]


def estimate(checked: Checked, variables: Mapping[str, Declaration]) -> Range:
    """Least and most cost of evaluating an expression."""
    return _Estimator(checked, variables).cost(checked.expression)


class _Entries(NamedTuple):
    """Sizes of the keys and values of a list or map that an expression makes."""

    kind: str
    key: Range
    value: Range

    def union(self, other: "_Entries | None") -> "_Entries | None":
        if other is None:
            return None
        return _Entries(self.kind, self.key.union(other.key), self.value.union(other.value))


class _Local(NamedTuple):
    """A variable of a comprehension."""

    path: Path
    size: Range | None
    entries: _Entries | None = None


class _Estimator:
    def __init__(self, checked: Checked, variables: Mapping[str, Declaration]) -> None:
        self._checked = checked
        self._variables = variables
        self._costs: dict[int, Range] = {}
        self._paths: dict[int, Path] = {}
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, _Entries] = {}
        self._locals: dict[str, list[_Local]] = {}

    def cost(self, node: Expression) -> Range:
        known = self._costs.get(id(node))
        if known is None:  # macros use their receiver twice
            known = self._costs[id(node)] = self._cost(node)
        return known

    def _cost(self, node: Expression) -> Range:
        match node:
            case Ident():
                local = self._local(node.name)
                self._paths[id(node)] = local.path if local is not None else (node.name,)
                return ONE
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case Comprehension():
                return self._bind(node) if _is_bind(node) else self._comprehension(node)
        return _ZERO

    # -- sizes -------------------------------------------------------------------------------------------------------

    def of(self, node: Expression) -> Range:
        """Size of a value; any size if nothing bounds it."""
        found = self._size(node)
        return UNKNOWN if found is None else found

    def of_items(self, node: Expression) -> tuple[Type | None, Range]:
        """Type and size of the items of a list."""
        type_ = self._checked.type_of(node)
        if not type_.parameters:
            return None, UNKNOWN
        path = self._path(node)
        declared = self._declared((*path, "@items")) if path else None
        return type_.parameters[0], UNKNOWN if declared is None else declared

    def _size(self, node: Expression) -> Range | None:
        if id(node) in self._sizes:
            return self._sizes[id(node)]
        match node:
            case Literal():
                length = len(node.value) if isinstance(node.value, str | bytes) else 1
                return Range(length, length)
            case ListLiteral():
                return Range(len(node.elements), len(node.elements))
            case MapLiteral():
                return Range(len(node.entries), len(node.entries))
        path = self._path(node)
        declared = self._declared(path)
        if declared is not None:
            return declared
        if _is_scalar(self._checked.type_of(node)):
            return ONE
        if isinstance(node, Ident) and (local := self._local(node.name)) is not None:
            return local.size
        return None

    def _declared(self, path: Path) -> Range | None:
        """Size that the schema declares for a path. As in kube-apiserver, its first step is always `self`."""
        root = self._variables.get("self")
        if root is None or not path:
            return None
        found = root.at(path[1:])
        return None if found is None else Range(0, found.max_elements)

    def _entries_of(self, node: Expression) -> _Entries | None:
        found = self._entries.get(id(node))
        if found is None and isinstance(node, Ident) and (local := self._local(node.name)) is not None:
            return local.entries
        return found

    def _path(self, node: Expression) -> Path:
        if isinstance(node, Ident) and (local := self._local(node.name)) is not None:
            return local.path
        return self._paths.get(id(node), ())

    def _local(self, name: str) -> _Local | None:
        stack = self._locals.get(name)
        return stack[-1] if stack else None

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    # -- nodes -------------------------------------------------------------------------------------------------------

    def _select(self, node: Select) -> Range:
        if id(node) in self._checked.constants:
            self._paths[id(node)] = (node.field_name,)
            return ONE
        total = self.cost(node.operand)
        if node.test_only:
            return total
        type_ = self._checked.type_of(node.operand)
        if type_.kind in ("map", "dyn") or type_.is_object:
            total = total.plus(ONE)
        self._paths[id(node)] = (*self._path(node.operand), node.field_name)
        return total

    def _list(self, node: ListLiteral) -> Range:
        total = Range(LIST_COST, LIST_COST)
        item = Range(LARGEST if node.elements else 0, 0)
        for each in node.elements:
            total = total.plus(self.cost(each))
            item = item.union(self.of(each))
        self._entries[id(node)] = _Entries("list", ONE, item)
        return total

    def _map(self, node: MapLiteral) -> Range:
        total = Range(MAP_COST, MAP_COST)
        keys = values = Range(LARGEST if node.entries else 0, 0)
        for key, value, _ in node.entries:
            total = total.plus(self.cost(key)).plus(self.cost(value))
            keys, values = keys.union(self.of(key)), values.union(self.of(value))
        self._entries[id(node)] = _Entries("map", keys, values)
        return total

    def _call(self, node: Call) -> Range:
        if node.function == "dyn":
            total = self.cost(node.arguments[0]).plus(ONE)
            self._copy(node, node.arguments[0])
            return total
        costs = [self.cost(each) for each in node.arguments]
        target = _ZERO
        operands = list(node.arguments)
        if node.target is not None and id(node) not in self._checked.constants:
            target = self.cost(node.target)
            operands.insert(0, node.target)
        total = Range(LARGEST, 0)
        size: Range | None = None
        for overload in self._checked.overloads[id(node)]:
            estimated = self._overload(node, overload, operands, costs)
            total = total.union(estimated.cost)
            if estimated.size is not None:
                size = estimated.size if size is None else size.union(estimated.size)
            if node.function == "_[_]":
                size = self._index(node, overload) or size
        if size is None:
            size = self._size(node)
        if size is not None:
            self._sizes[id(node)] = size
        return target.plus(total)

    def _index(self, node: Call, overload: Overload) -> Range | None:
        holder = node.arguments[0]
        kind = overload.parameters[0].kind
        if kind not in ("list", "map"):
            return None
        self._paths[id(node)] = (*self._path(holder), "@items" if kind == "list" else "@values")
        entries = self._entries_of(holder)
        return None if entries is None else entries.value

    def _overload(
        self, node: Call, overload: Overload, operands: list[Expression], costs: list[Range]
    ) -> Estimate:
        arguments = _ZERO
        for each in costs:
            arguments = arguments.plus(each)
        match node.function:
            case "_&&_" | "_||_":
                return Estimate(Range(costs[0].least, arguments.most))
            case "_?_:_":
                entries = self._entries_of(node.arguments[1])
                both = entries.union(self._entries_of(node.arguments[2])) if entries is not None else None
                if both is not None:
                    self._entries[id(node)] = both
                size = self.of(node.arguments[1]).union(self.of(node.arguments[2]))
                return Estimate(costs[0].plus(costs[1].union(costs[2])), size)
            case "_==_" if self._checked.type_of(node.arguments[0]) in _OPAQUE:
                return Estimate(arguments.plus(ONE))
            case "_+_":
                first, second = (self._entries_of(each) for each in node.arguments)
                joined = first.union(second) if first is not None else None
                if joined is not None:
                    self._entries[id(node)] = joined
        if overload.estimate is None:
            return Estimate(arguments.plus(ONE))
        estimated = overload.estimate(self, operands)
        return Estimate(estimated.cost.plus(arguments), estimated.size)

    def _copy(self, node: Expression, source: Expression) -> None:
        size, entries = self._size(source), self._entries_of(source)
        if size is not None:
            self._sizes[id(node)] = size
        if entries is not None:
            self._entries[id(node)] = entries

    def _comprehension(self, node: Comprehension) -> Range:
        total = self.cost(node.iter_range).plus(self.cost(node.initial))
        self._push_bound(node)
        names = self._push_iteration(node)
        each = self.cost(node.condition).plus(self.cost(node.step))
        for name in names:
            self._locals[name].pop()
        total = total.plus(self.cost(node.result))
        self._locals[node.accumulator].pop()
        count = self.of(node.iter_range)
        total = total.plus(count.times(each))
        if isinstance(node.initial, Literal):
            size = self._size(node.initial)
            if size is not None:
                self._sizes[id(node)] = size
        elif isinstance(node.initial, ListLiteral | MapLiteral):
            self._sizes[id(node)] = count
            entries = self._entries_of(node.step)
            if entries is not None:
                self._entries[id(node)] = entries
        return total

    def _push_bound(self, node: Comprehension) -> None:
        local = _Local(self._path(node.initial), self._size(node.initial), self._entries_of(node.initial))
        self._push(node.accumulator, local)

    def _push_iteration(self, node: Comprehension) -> list[str]:
        entries, path = self._entries_of(node.iter_range), self._path(node.iter_range)
        kind = entries.kind if entries is not None else self._checked.type_of(node.iter_range).kind
        key = _Local((*path, "@indices" if kind == "list" else "@keys"), entries.key if entries else None)
        value = _Local((*path, "@items" if kind == "list" else "@values"), entries.value if entries else None)
        if node.second:
            self._push(node.variable, key)
            self._push(node.second, value)
            return [node.variable, node.second]
        self._push(node.variable, value if kind == "list" else key)
        return [node.variable]

    def _bind(self, node: Comprehension) -> Range:
        """A name for a value, as in `optMap`."""
        total = self.cost(node.iter_range).plus(self.cost(node.initial))
        self._push_bound(node)
        total = total.plus(self.cost(node.result))
        self._locals[node.accumulator].pop()
        self._copy(node, node.result)
        return total


def _is_bind(node: Comprehension) -> bool:
    return node.accumulator != ACCUMULATOR


def _is_scalar(type_: Type) -> bool:
    if type_.kind == "optional_type":
        return _is_scalar(type_.parameters[0])
    return type_.kind in _SCALARS
