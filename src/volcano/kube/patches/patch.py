"""JSON patch, merge patch and diffs; arguments are never modified."""

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

Json = Any  # any JSON value

# As in kube-apiserver: a copy of a copy of a copy could be of any size.
MAX_COPIED_BYTES = 3 << 20
MAX_INDEX_DIGITS = 18


class PatchError(ValueError):
    """A patch that cannot be applied; the message names the operation and the error."""


def json_patch(document: Json, operations: Sequence[Any]) -> Json:
    """Applies an RFC 6902 patch. Raises PatchError; then nothing has been applied."""
    if not isinstance(operations, (list, tuple)):
        raise PatchError(f"a JSON patch is a list of operations, not {_type(operations)}")
    patcher = _Patcher()
    for index, operation in enumerate(operations):
        try:
            document = patcher.apply(document, operation)
        except PatchError as error:
            name = operation.get("op", "?") if isinstance(operation, dict) else "?"
            raise PatchError(f"operation {index} ({name}): {error}") from None
    return document


def merge_patch(document: Json, patch: Json) -> Json:
    """Applies an RFC 7386 merge patch: objects merge, null removes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def diff(before: Json, after: Json) -> list[dict[str, Any]]:
    """Returns a JSON patch that turns `before` into `after`; empty when they are equal."""
    return list(_differences(before, after, ""))


def merge_diff(before: Json, after: Json) -> Json | None:
    """Returns a merge patch that turns `before` into `after`, or None when they are equal.

    A merge patch cannot express a null inside `after`, which is left out.
    """
    if same(before, after):
        return None
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    patch: dict[str, Any] = {key: None for key in before if after.get(key) is None}
    for key, value in after.items():
        if value is None:
            continue
        if key not in before:
            patch[key] = value
        elif (change := merge_diff(before[key], value)) is not None:
            patch[key] = change
    return patch


def same(left: Json, right: Json) -> bool:
    """Whether two JSON values are equal; unlike in Python, true is not 1."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def parse_pointer(pointer: Any) -> list[str]:
    """Splits an RFC 6901 pointer into its reference tokens."""
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise PatchError(f"{pointer!r} is not a JSON pointer; it must be empty or start with '/'")
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def escape(token: str) -> str:
    """Escapes one reference token."""
    return token.replace("~", "~0").replace("/", "~1")


class _Patcher:
    """Applies operations. A list or map is copied when it is first changed, and then changed in place."""

    def __init__(self) -> None:
        self._own: dict[int, Json] = {}  # copies, by id; kept alive so that ids stay theirs
        self._copied_bytes = 0

    def apply(self, document: Json, operation: Any) -> Json:
        if not isinstance(operation, dict):
            raise PatchError(f"an operation is an object with op and path, not {_type(operation)}")
        name = operation.get("op")
        path = parse_pointer(operation.get("path"))
        match name:
            case "add":
                return self._changed(document, path, _add, _value(operation))
            case "replace":
                return self._changed(document, path, _replace, _value(operation))
            case "remove":
                return self._changed(document, path, _remove, None)
            case "test":
                if not same(_resolve(document, path), _value(operation)):
                    raise PatchError(f"the value at {_print(path)} is not the one tested for")
                return document
            case "copy":
                source = _resolve(document, parse_pointer(operation.get("from")))
                return self._changed(document, path, _add, self._copy(source))
            case "move":
                origin = parse_pointer(operation.get("from"))
                if path[: len(origin)] == origin and path != origin:
                    raise PatchError(f"{_print(origin)} cannot be moved into itself at {_print(path)}")
                moved = _resolve(document, origin)
                return self._changed(self._changed(document, origin, _remove, None), path, _add, moved)
        raise PatchError(f"unknown operation {name!r}; choose from add, copy, move, remove, replace, test")

    def _copy(self, value: Json) -> Json:
        try:
            data = orjson.dumps(value)
        except TypeError:
            raise PatchError("the copied value is nested too deeply") from None
        self._copied_bytes += len(data)
        if self._copied_bytes > MAX_COPIED_BYTES:
            raise PatchError(f"copy operations may copy {MAX_COPIED_BYTES} bytes at most")
        return orjson.loads(data)

    def _changed(self, document: Json, path: list[str], change: Any, value: Json) -> Json:
        """Returns `document` with `change` made at `path`; values along the path are copied, the rest is shared."""
        if not path:
            if change is _remove:
                raise PatchError("the whole document cannot be removed")
            return value
        own = self._owned(document, path)
        if len(path) == 1:
            change(own, path[0], value)
            return own
        token: Any = path[0]
        child = _child(own, token, path[:1])
        own[int(token) if isinstance(own, list) else token] = self._changed(child, path[1:], change, value)
        return own

    def _owned(self, document: Json, path: list[str]) -> Any:
        if id(document) in self._own:
            return document
        if not isinstance(document, list | dict):
            raise PatchError(f"/{'/'.join(map(escape, path))} leads into {_type(document)}")
        own: Any = list(document) if isinstance(document, list) else dict(document)
        self._own[id(own)] = own
        return own


def _value(operation: dict[str, Any]) -> Json:
    if "value" not in operation:
        raise PatchError("it has no value")
    return operation["value"]


def _resolve(document: Json, path: list[str]) -> Json:
    for depth, token in enumerate(path):
        document = _child(document, token, path[: depth + 1])
    return document


def _child(parent: Json, token: str, path: list[str]) -> Json:
    if isinstance(parent, dict):
        if token in parent:
            return parent[token]
        raise PatchError(f"there is nothing at {_print(path)}")
    if isinstance(parent, list):
        return parent[_index(token, len(parent) - 1, path)]
    raise PatchError(f"{_print(path)} leads into {_type(parent)}")


def _index(token: str, last: int, path: list[str]) -> int:
    if not token.isascii() or not token.isdigit() or (len(token) > 1 and token[0] == "0"):
        raise PatchError(f"{token!r} in {_print(path)} is not an index of a list")
    if len(token) > MAX_INDEX_DIGITS or int(token) > last:
        raise PatchError(
            f"index {token[:MAX_INDEX_DIGITS]} in {_print(path)} is beyond the end of the list of {last + 1}"
        )
    return int(token)


def _add(parent: Any, token: str, value: Json) -> None:
    if isinstance(parent, list):
        parent.insert(len(parent) if token == "-" else _index(token, len(parent), [token]), value)
    else:
        parent[token] = value


def _replace(parent: Any, token: str, value: Json) -> None:
    _child(parent, token, [token])
    parent[_index(token, len(parent) - 1, [token]) if isinstance(parent, list) else token] = value


def _remove(parent: Any, token: str, value: Json) -> None:
    _child(parent, token, [token])
    del parent[int(token) if isinstance(parent, list) else token]


def _differences(before: Json, after: Json, path: str) -> Iterator[dict[str, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before:
            if key not in after:
                yield {"op": "remove", "path": f"{path}/{escape(key)}"}
        for key, value in after.items():
            if key not in before:
                yield {"op": "add", "path": f"{path}/{escape(key)}", "value": value}
            else:
                yield from _differences(before[key], value, f"{path}/{escape(key)}")
    elif isinstance(before, list) and isinstance(after, list):
        for index, (old, new) in enumerate(zip(before, after, strict=False)):
            yield from _differences(old, new, f"{path}/{index}")
        for index in range(len(before) - 1, len(after) - 1, -1):
            yield {"op": "remove", "path": f"{path}/{index}"}
        for value in after[len(before) :]:
            yield {"op": "add", "path": f"{path}/-", "value": value}
    elif not same(before, after):
        yield {"op": "replace", "path": path, "value": after}


def _print(path: list[str]) -> str:
    return repr("/" + "/".join(map(escape, path)))


def _type(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
