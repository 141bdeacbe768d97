"""Types of CEL, their assignability, and the unification of type parameters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Type:
    """`list` and `map` have parameters; an object has the name and the fields of its schema."""

    kind: str
    parameters: tuple["Type", ...] = ()
    # Fields of an object (`declarations.Field`), by the names that expressions use. Objects are equal by name.
    fields: Mapping[str, Any] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Type) and self.kind == other.kind and self.parameters == other.parameters

    def __hash__(self) -> int:
        return hash((self.kind, self.parameters))

    def __str__(self) -> str:
        if not self.parameters:
            return _SHOWN.get(self.kind, self.kind)
        return f"{self.kind}({', '.join(str(each) for each in self.parameters)})"

    @property
    def is_object(self) -> bool:
        return self.fields is not None


_SHOWN = {
    "null_type": "null",
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
}
DYN, ERROR, NULL = Type("dyn"), Type("!error!"), Type("null_type")
BOOL, INT, UINT, DOUBLE, STRING, BYTES = (
    Type(name) for name in ("bool", "int", "uint", "double", "string", "bytes")
)
TIMESTAMP, DURATION, TYPE = Type("timestamp"), Type("duration"), Type("type")
QUANTITY, URL, SEMVER, FORMAT = (
    Type(f"kubernetes.{name}") for name in ("Quantity", "URL", "Semver", "NamedFormat")
)
IP, CIDR = Type("net.IP"), Type("net.CIDR")
_FLEXIBLE = frozenset({"dyn", "!error!", "null_type"})
_NULLABLE = frozenset({"timestamp", "duration", "optional_type"})
# Types that can be named in an expression.
NAMED: Mapping[str, Type] = {
    "bool": BOOL, "int": INT, "uint": UINT, "double": DOUBLE, "string": STRING, "bytes": BYTES, "null_type": NULL,
    "list": Type("list", (DYN,)), "map": Type("map", (DYN, DYN)), "type": TYPE, "dyn": DYN,
    "google.protobuf.Timestamp": TIMESTAMP, "google.protobuf.Duration": DURATION,
    "optional_type": Type("optional_type", (DYN,)),
    "kubernetes.Quantity": QUANTITY, "kubernetes.URL": URL, "kubernetes.Semver": SEMVER, "net.IP": IP, "net.CIDR": CIDR,
    "kubernetes.NamedFormat": FORMAT,
}  # fmt: skip


def field_of(holder: Type, name: str) -> Any:
    """A field of an object (`declarations.Field`) or None. Reserved words may be written plain or escaped."""
    if holder.fields is None:
        return None
    return holder.fields.get(name) or holder.fields.get(f"__{name}__")


def list_of(element: Type) -> Type:
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("optional_type", (value,))


def type_of(value: Type) -> Type:
    return Type("type", (value,))


def parameter(name: str) -> Type:
    """A type parameter of a function."""
    return Type(f"${name}")


def is_parameter(type_: Type) -> bool:
    return type_.kind[0] == "$"


def has_parameters(type_: Type) -> bool:
    return is_parameter(type_) or any(map(has_parameters, type_.parameters))


def is_dynamic(type_: Type) -> bool:
    return type_.kind in ("dyn", "!error!")


class Substitution:
    """Bindings of type parameters. A failed unification leaves the bindings unchanged."""

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._fresh = 0

    def fresh(self) -> Type:
        """A type that is not known yet, as of the elements of `[]`."""
        self._fresh += 1
        return Type(f"$_{self._fresh}")

    def instance(self, types: tuple[Type, ...]) -> tuple[Type, ...]:
        """Types with parameters of their own, for one call of a function."""
        self._fresh += 1
        return tuple(self._renamed(each, self._fresh) for each in types)

    def _renamed(self, type_: Type, number: int) -> Type:
        if is_parameter(type_):
            return Type(f"{type_.kind}.{number}")
        if not type_.parameters:
            return type_
        return Type(type_.kind, tuple(self._renamed(each, number) for each in type_.parameters))

    def resolved(self, type_: Type) -> Type:
        """The type with all bound parameters replaced; a parameter that is not bound is dyn."""
        type_ = self.bound(type_)
        if is_parameter(type_):
            return DYN
        if not type_.parameters:
            return type_
        return Type(type_.kind, tuple(self.resolved(each) for each in type_.parameters), type_.fields)

    def bound(self, type_: Type) -> Type:
        while is_parameter(type_) and type_.kind in self._bound:
            type_ = self._bound[type_.kind]
        return type_

    def assign_all(self, given: list[Type], wanted: tuple[Type, ...]) -> bool:
        """Whether every type can be assigned to the wanted one; binds parameters if so."""
        before = dict(self._bound)
        if len(given) == len(wanted) and all(map(self._assign, given, wanted)):
            return True
        self._bound = before
        return False

    def may_assign(self, given: list[Type], wanted: tuple[Type, ...]) -> bool:
        """A quick test that excludes most overloads."""
        return len(given) == len(wanted) and all(
            first.kind == second.kind
            or first.kind in _FLEXIBLE
            or first.kind[0] == "$"
            or second.kind in _FLEXIBLE
            for first, second in zip(given, wanted, strict=True)
        )

    def assign(self, given: Type, wanted: Type) -> bool:
        return self.assign_all([given], (wanted,))

    def _assign(self, given: Type, wanted: Type) -> bool:
        given, wanted = self.bound(given), self.bound(wanted)
        if is_parameter(wanted):
            if (given != wanted and not is_parameter(given)) or given.kind != wanted.kind:
                self._bound[wanted.kind] = given
            return True
        if is_parameter(given):
            self._bound[given.kind] = wanted
            return True
        if is_dynamic(given) or is_dynamic(wanted):
            return True
        if given.kind == "null_type" and (wanted.is_object or wanted.kind in _NULLABLE):
            return True
        if given.kind != wanted.kind:
            return False
        if wanted.kind == "type" or given.kind == "type":
            return True
        return len(given.parameters) == len(wanted.parameters) and all(
            map(self._assign, given.parameters, wanted.parameters)
        )

    def _bind(self, unknown: Type, known: Type) -> bool:
        if unknown.kind == known.kind:
            return True
        if self._occurs(unknown, known):
            return False
        self._bound[unknown.kind] = known
        return True

    def _occurs(self, unknown: Type, inside: Type) -> bool:
        return any(
            self.bound(each).kind == unknown.kind or self._occurs(unknown, self.bound(each))
            for each in inside.parameters
        )

    def join(self, first: Type, second: Type) -> Type | None:
        """The common type of two values; None if they have none."""
        if self.assign(second, first):
            return self._general(first, second)
        if self.assign(first, second):
            return self._general(second, first)
        return None

    def _general(self, wider: Type, other: Type) -> Type:
        return DYN if is_dynamic(self.bound(other)) else wider
