"""A quick look at a manifest of a built-in type: is every field known, of the right type, and not null?

Nearly all are. Only for those that are not does anybody need to know which field it is, and `facts` finds out.
"""

import re
from collections.abc import Callable
from datetime import datetime
from functools import cache, lru_cache
from typing import Any

from volcano.kube import quantity, type_info

Question = Callable[[Any], bool]

_PYTHON: dict[str, type] = {"string": str, "bool": bool, "FieldsV1": dict}
_SIZES = {"int32": 2**31, "int64": 2**63}
_looks_like_time = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z").fullmatch
_is_base64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?").fullmatch


@cache
def well_formed(type_name: str) -> Question:
    """The question whether a value is an object of that type without any oddity. A no is only a maybe."""
    table: dict[str, tuple[type | None, Question | None]] = {}

    def holds(value: Any) -> bool:
        if not table:  # filled at the first question, as types refer to each other
            table.update((name, _field(about)) for name, about in type_info.named(type_name).fields.items())
        for key, item in value.items():
            known = table.get(key)
            if known is None:
                return False
            expected, question = known
            if item.__class__ is not expected and expected is not None:
                return False
            if question is not None and not question(item):
                return False
        return True

    return holds


def _field(about: type_info.Field) -> tuple[type | None, Question | None]:
    """The class a field's value has, if there is just one, and what else must hold for it."""
    expected, question = _single(about)
    if about.container == "list":
        return list, _each_of(expected, question)
    if about.container == "map":
        listed = _each_of(expected, question)
        return dict, lambda value: listed(value.values())
    return expected, question


def _single(about: type_info.Field) -> tuple[type | None, Question | None]:
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
    return None, _is_odd


def _each_of(expected: type | None, question: Question | None) -> Callable[[Any], bool]:
    def holds(values: Any) -> bool:
        for value in values:
            if value.__class__ is not expected and expected is not None:
                return False
            if question is not None and not question(value):
                return False
        return True

    return holds


@lru_cache(maxsize=1024)  # the conditions of a thousand pods name the same few seconds
def _is_time(value: str) -> bool:
    if _looks_like_time(value) is None:
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


def _is_odd(value: Any) -> bool:
    """Whoever has a field of a rare type is looked at closely."""
    return False
