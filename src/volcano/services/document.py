"""Documents of results, for JSON and YAML: fields in their order, with names in Kubernetes' spelling."""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

import msgspec


def document(value: object) -> Any:
    """A result as plain data.

    Fields that have their default are omitted. Of a class, `KIND` names the document, and the fields in `FIRST` begin
    it; an `inline` field is part of the document around it.
    """
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    if is_dataclass(value):
        return _fields(value)
    if isinstance(value, Mapping):
        return {name: document(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [document(each) for each in value]
    return value


def _fields(value: Any) -> dict[str, Any]:
    kind = getattr(value, "KIND", "")
    found: dict[str, Any] = {"kind": kind} if kind else {}
    known = {each.name: each for each in fields(value)}
    for name in dict.fromkeys((*getattr(value, "FIRST", ()), *known)):
        content = getattr(value, name)
        if content == _default(known[name]):
            continue
        if known[name].metadata.get("inline"):
            found |= document(content)
        else:
            found[_camel_case(name)] = document(content)
    return found


def _default(each: "Field[Any]") -> object:
    return each.default if each.default_factory is MISSING else each.default_factory()


def _camel_case(name: str) -> str:
    """`podGroup` for `pod_group`, `class` for `class_`."""
    first, *others = name.rstrip("_").split("_")
    return first + "".join(map(str.capitalize, others))
