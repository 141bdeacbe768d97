"""Fast path of decoding: whether every field of a built-in type is known, of the right type and not null.

It holds for nearly all manifests; `kube.type_info` finds the fields of the others.
"""

import re
from collections.abc import Callable
from datetime import datetime
from functools import cache, lru_cache
from typing import Any

from volcano.kube.api import quantity, type_info

Predicate = Callable[[Any], bool]

_PYTHON: dict[str, type] = {"string": str, "bool": bool, "FieldsV1": dict}
_SIZES = {"int32": 2**31, "int64": 2**63}
_is_time_format = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z").fullmatch
_is_base64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?").fullmatch


@cache
def well_formed(type_name: str) -> Predicate:
    """Predicate for well-formed objects of a type. False means that the object needs a full inspection."""
    table: dict[str, tuple[type | None, Predicate | None]] = {}

    def is_well_formed(value: Any) -> bool:
        if not table:  # filled at the first call, because types refer to each other
            table.update((name, _field(about)) for name, about in type_info.named(type_name).fields.items())
        for key, item in value.items():
            known = table.get(key)
            if known is None:
                return False
            expected, predicate = known
            if item.__class__ is not expected and expected is not None:
                return False
            if predicate is not None and not predicate(item):
                return False
        return True

    return is_well_formed


def _field(about: type_info.Field) -> tuple[type | None, Predicate | None]:
    """Class of the values of a field, if there is just one, and a predicate for them."""
    expected, predicate = _single(about)
    if about.container == "list":
        return list, _each_of(expected, predicate)
    if about.container == "map":
        listed = _each_of(expected, predicate)
        return dict, lambda value: listed(value.values())
    return expected, predicate


def _single(about: type_info.Field) -> tuple[type | None, Predicate | None]:
    kind = about.type
    if kind in _SIZES:
        size = _SIZES[kind]
        return int, lambda value: -size <= value < size
    if kind in ("Time", "MicroTime"):
        return str, _is_time
    if kind == "Quantity":
        return str, _is_quantity
    if kind == "bytes":
        return str, lambda value: _is_base64(value) is not None
    if kind in _PYTHON:
        return _PYTHON[kind], None
    if about.is_object:
        return dict, well_formed(kind)
    if kind == "IntOrString":
        return None, _is_int_or_string
    return None, _needs_inspection


def _each_of(expected: type | None, predicate: Predicate | None) -> Callable[[Any], bool]:
    def all_well_formed(values: Any) -> bool:
        for value in values:
            if value.__class__ is not expected and expected is not None:
                return False
            if predicate is not None and not predicate(value):
                return False
        return True

    return all_well_formed


@lru_cache(maxsize=1024)  # the conditions of many pods have the same timestamps
def _is_time(value: str) -> bool:
    if _is_time_format(value) is None:
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _is_quantity(value: str) -> bool:
    try:
        quantity.read(value)
    except ValueError:
        return False
    return True


def _is_int_or_string(value: Any) -> bool:
    return value.__class__ is str or (value.__class__ is int and -(2**31) <= value < 2**31)


def _needs_inspection(value: Any) -> bool:
    """Rare types are always inspected in full."""
    return False
