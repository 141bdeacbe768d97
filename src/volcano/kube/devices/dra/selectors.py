"""Device selectors: CEL expressions over one device of a ResourceSlice."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from volcano.kube.api import quantity
from volcano.kube.cel import types
from volcano.kube.cel.declarations import Declaration, Field
from volcano.kube.cel.errors import CostLimitExceeded, EvaluationError
from volcano.kube.cel.library.kubernetes import Quantity, parse_semver
from volcano.kube.cel.program import InvalidExpression, Program
from volcano.kube.cel.types import Type
from volcano.kube.cel.values import MapOfMaps

# Limits of kube-apiserver.
MOST_COST = 1_000_000
LONGEST_EXPRESSION = 10 * 1024
LONGEST_DOMAIN = 63
LONGEST_IDENTIFIER = 32
LONGEST_VALUE = 64
MOST_ATTRIBUTES = 32

_DOMAIN = Declaration(types.STRING, LONGEST_DOMAIN)
_IDENTIFIER = Declaration(types.STRING, LONGEST_IDENTIFIER)


class SelectorError(Exception):
    """A selector has no result for a device."""


def _map(key: Declaration, element: Declaration) -> Declaration:
    return Declaration(types.map_of(key.type, element.type), MOST_ATTRIBUTES, key=key, element=element)


def _device() -> Declaration:
    declared = {
        "driver": Declaration(types.STRING, LONGEST_DOMAIN),
        "allowMultipleAllocations": Declaration(types.BOOL, 1),
        "attributes": _map(_DOMAIN, _map(_IDENTIFIER, Declaration(types.DYN, LONGEST_VALUE))),
        "capacity": _map(_DOMAIN, _map(_IDENTIFIER, Declaration(types.QUANTITY))),
    }
    fields = {name: Field(name, each) for name, each in declared.items()}
    return Declaration(Type("kubernetes.DRADevice", (), fields), fields=fields)


_VARIABLES = {"device": _device()}


@lru_cache(maxsize=4096)
def compile_selector(source: str) -> Program:
    """Compiles a device selector. Raises `InvalidExpression`."""
    program = Program(source, _VARIABLES, bindings=True)
    if program.result not in (types.BOOL, types.DYN):
        raise InvalidExpression(f"must evaluate to bool or the unknown type, not {program.result}")
    return program


def device_value(device: Mapping[str, Any], driver: str) -> dict[str, Any]:
    """A device of a ResourceSlice as selectors see it. Raises `SelectorError` for an unsupported attribute."""
    attributes, capacity = MapOfMaps(), MapOfMaps()
    for name, attribute in (device.get("attributes") or {}).items():
        domain, identifier = qualified(name, driver)
        attributes.setdefault(domain, {})[identifier] = attribute_value(name, attribute)
    for name, amount in (device.get("capacity") or {}).items():
        domain, identifier = qualified(name, driver)
        capacity.setdefault(domain, {})[identifier] = Quantity(quantity.parse(amount["value"]))
    return {
        "driver": driver,
        "allowMultipleAllocations": bool(device.get("allowMultipleAllocations")),
        "attributes": attributes,
        "capacity": capacity,
    }


def qualified(name: str, driver: str) -> tuple[str, str]:
    """Domain and identifier of an attribute or capacity; without a domain, that of the driver."""
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def attribute_value(name: str, attribute: Mapping[str, Any]) -> Any:
    """The value of an attribute. Raises `SelectorError`."""
    for kind in ("int", "bool", "string"):
        if attribute.get(kind) is not None:
            return attribute[kind]
    if attribute.get("version") is not None:
        try:
            return parse_semver(attribute["version"])
        except EvaluationError as error:
            raise SelectorError(f"attribute {name}: {error}") from None
    raise SelectorError(f"attribute {name}: unsupported attribute value")


def matches(program: Program, value: Mapping[str, Any]) -> bool:
    """Whether a device (`device_value`) is selected. Raises `SelectorError`."""
    try:
        result, _ = program.evaluate({"device": value}, MOST_COST)
    except (EvaluationError, CostLimitExceeded) as error:
        raise SelectorError(str(error)) from None
    if result.__class__ is not bool:
        raise SelectorError(f"the result is of type {result.__class__.__name__}, not bool")
    return bool(result)
