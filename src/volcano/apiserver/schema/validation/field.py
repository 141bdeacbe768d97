"""Field errors as in k8s.io/apimachinery/pkg/util/validation/field."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from volcano.kube.api.errors import Cause

Causes = Iterator[Cause]
IMMUTABLE = "field is immutable"


def invalid(field: str, value: Any, detail: str) -> Cause:
    """Error for a malformed value."""
    return Cause("FieldValueInvalid", f"Invalid value: {shown(value)}: {detail}", field)


def required(field: str, detail: str = "") -> Cause:
    """Error for a missing value."""
    return Cause("FieldValueRequired", f"Required value: {detail}" if detail else "Required value", field)


def forbidden(field: str, detail: str) -> Cause:
    """Error for a value that is not allowed in this context."""
    return Cause("FieldValueForbidden", f"Forbidden: {detail}", field)


def duplicate(field: str, value: Any) -> Cause:
    """Error for a value that is not unique."""
    return Cause("FieldValueDuplicate", f"Duplicate value: {shown(value)}", field)


def unsupported(field: str, value: Any, allowed: Iterable[str]) -> Cause:
    """Error for an unknown value of an enumeration; lists the supported ones in the order given."""
    choices = ", ".join(json.dumps(choice, ensure_ascii=False) for choice in allowed)
    detail = f": supported values: {choices}" if choices else ""
    return Cause("FieldValueNotSupported", f"Unsupported value: {shown(value)}{detail}", field)


def not_found(field: str, value: Any) -> Cause:
    """Error for a reference to something that does not exist."""
    return Cause("FieldValueNotFound", f"Not found: {shown(value)}", field)


def too_long(field: str, limit: int, unit: str = "bytes") -> Cause:
    """Error for a value longer than `limit`."""
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} {unit}", field)


def too_many(field: str, actual: int, limit: int) -> Cause:
    """Error for a list of more than `limit` items."""
    items = "item" if limit == 1 else "items"
    return Cause("FieldValueTooMany", f"Too many: {actual}: must have at most {limit} {items}", field)


def each(field: str, value: Any, messages: Iterable[str]) -> Causes:
    """One invalid-value error per message."""
    for message in messages:
        yield invalid(field, value, message)


def unique(field: str, value: Any, seen: set[Any]) -> Causes:
    """An error for a value that was seen before; it is seen now."""
    if value in seen:
        yield duplicate(field, value)
    seen.add(value)


def unique_name(
    field: str, name: str | None, seen: set[str], check: Callable[[str], Iterable[str]]
) -> Causes:
    """Errors for a name that is missing, invalid or was seen before."""
    if not name:
        yield required(field)
        return
    yield from each(field, name, check(name))
    yield from unique(field, name, seen)


def one_of(field: str, value: Any, allowed: Iterable[str], *, needed: bool = False) -> Causes:
    """Validates that a value is one of `allowed`; it may be missing unless `needed`."""
    if not value:
        if needed:
            yield required(field)
    elif value not in allowed:
        yield unsupported(field, value, allowed)


def immutable(field: str, new: Any, old: Any) -> Causes:
    """Validates that a field has not changed; absent and empty are the same."""
    if new != old and (new or old):
        yield invalid(field, new, IMMUTABLE)


def not_negative(field: str, value: Any) -> Causes:
    """Validates that a number is not negative."""
    if value is not None and value < 0:
        yield invalid(field, value, "must be greater than or equal to 0")


def items(holder: Mapping[str, Any], name: str, path: str) -> Iterator[tuple[str, Any]]:
    """Entries of a list field, each with its path."""
    for index, item in enumerate(holder.get(name) or ()):
        yield f"{path}.{name}[{index}]", item


def shown(value: Any) -> str:
    """Formats a value for an error message: strings quoted, numbers plain, the rest as JSON."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return re.sub(r"\\u00([01][0-9a-f])", r"\\x\1", text) if isinstance(value, str) else text
