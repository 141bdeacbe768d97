"""Field errors: the nine ways a field can be wrong, printed as a real API server prints them."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from volcano.kube.errors import Cause

Causes = Iterator[Cause]
IMMUTABLE = "field is immutable"


def invalid(field: str, value: Any, detail: str) -> Cause:
    """A malformed value."""
    return Cause("FieldValueInvalid", f"Invalid value: {shown(value)}: {detail}", field)


def type_invalid(field: str, value: Any, detail: str) -> Cause:
    """A value of the wrong type."""
    return Cause("FieldValueTypeInvalid", f"Invalid value: {shown(value)}: {detail}", field)


def required(field: str, detail: str = "") -> Cause:
    """A value that is not there."""
    return Cause("FieldValueRequired", f"Required value: {detail}" if detail else "Required value", field)


def forbidden(field: str, detail: str) -> Cause:
    """A value that may not be there, given the rest."""
    return Cause("FieldValueForbidden", f"Forbidden: {detail}", field)


def duplicate(field: str, value: Any) -> Cause:
    """A value that must be unique and is not."""
    return Cause("FieldValueDuplicate", f"Duplicate value: {shown(value)}", field)


def unsupported(field: str, value: Any, allowed: Iterable[str]) -> Cause:
    """A value outside the allowed ones, which are listed in the order given."""
    choices = ", ".join(json.dumps(choice, ensure_ascii=False) for choice in allowed)
    detail = f": supported values: {choices}" if choices else ""
    return Cause("FieldValueNotSupported", f"Unsupported value: {shown(value)}{detail}", field)


def not_found(field: str, value: Any) -> Cause:
    """A value that names something that does not exist."""
    return Cause("FieldValueNotFound", f"Not found: {shown(value)}", field)


def too_long(field: str, limit: int, unit: str = "bytes") -> Cause:
    """A value longer than `limit`."""
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} {unit}", field)


def too_many(field: str, actual: int, limit: int) -> Cause:
    """A list of more than `limit` items."""
    items = "item" if limit == 1 else "items"
    return Cause("FieldValueTooMany", f"Too many: {actual}: must have at most {limit} {items}", field)


def too_few(field: str, actual: int, least: int) -> Cause:
    """A list of fewer than `least` items."""
    items = "item" if least == 1 else "items"
    return Cause("FieldValueTooFew", f"Too few: {actual}: must have at least {least} {items}", field)


def each(field: str, value: Any, complaints: Iterable[str]) -> Causes:
    """One invalid-value error for every complaint about `value`."""
    for complaint in complaints:
        yield invalid(field, value, complaint)


def one_of(field: str, value: Any, allowed: Iterable[str], *, needed: bool = False) -> Causes:
    """A complaint unless `value` is allowed; a missing one counts only when it is needed."""
    if not value:
        if needed:
            yield required(field)
    elif value not in allowed:
        yield unsupported(field, value, allowed)


def immutable(field: str, new: Any, old: Any) -> Causes:
    """A complaint when a field that may never change has changed; absent and empty are the same."""
    if new != old and (new or old):
        yield invalid(field, new, IMMUTABLE)


def not_negative(field: str, value: Any) -> Causes:
    """A complaint about a number below zero."""
    if value is not None and value < 0:
        yield invalid(field, value, "must be greater than or equal to 0")


def items(holder: Mapping[str, Any], name: str, path: str) -> Iterator[tuple[str, Any]]:
    """The entries of a list field, each with its path; nothing when there is no list."""
    for index, item in enumerate(holder.get(name) or ()):
        yield f"{path}.{name}[{index}]", item


def shown(value: Any) -> str:
    """A value as field errors print it: strings quoted, numbers plain, the rest as JSON."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return re.sub(r"\\u00([01][0-9a-f])", r"\\x\1", text) if isinstance(value, str) else text
