"""Sets of fields in the format of FieldsV1, with set operations.

A set is a tree of dicts whose keys are path elements: `f:name` is a field, `k:{"name":"c"}` an element of
an associative list, `v:"x"` of a set. A node that is empty, or has the key `.`, is itself a member; other
nodes only have members below them. The root is never a member: an empty root is the empty set. Trees are
never modified, so that they can share branches.
"""

from collections.abc import Iterator
from typing import Any

import orjson

FieldSet = dict[str, Any]
ITSELF = "."


def field_element(name: str) -> str:
    """The path element of a field or map key."""
    return f"f:{name}"


def key_element(keys: dict[str, Any]) -> str:
    """The path element of an element of an associative list."""
    return "k:" + orjson.dumps(keys, option=orjson.OPT_SORT_KEYS).decode()


def value_element(value: Any) -> str:
    """The path element of an element of a list that is a set."""
    return "v:" + orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def is_member(node: FieldSet) -> bool:
    """Whether the node itself is a member of the set."""
    return not node or ITSELF in node


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    if not right or left is right:
        return left
    if not left:
        return right
    result = dict(left)
    for path_element, node in right.items():
        present = result.get(path_element)
        result[path_element] = node if present is None else _node_union(present, node)
    return result


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Returns the left set itself when it shares nothing with the right."""
    if not right or left.keys().isdisjoint(right):
        return left
    result = {}
    for path_element, node in left.items():
        taken = right.get(path_element)
        rest = node if taken is None else _node_difference(node, taken)
        if rest is not None:
            result[path_element] = rest
    return result


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    result = {}
    for path_element in left.keys() & right.keys():
        node, other = left[path_element], right[path_element]
        shared = _node(intersection(_inner(node), _inner(other)), member=is_member(node) and is_member(other))
        if shared is not None:
            result[path_element] = shared
    return result


def paths(fields: FieldSet, prefix: str = "") -> Iterator[str]:
    """Yields the fields as in error messages: `.spec.containers[name="c"].image`; parents before children,
    sorted."""
    ordered = sorted((path_element, node) for path_element, node in fields.items() if path_element != ITSELF)
    for path_element, node in ordered:
        if is_member(node):
            yield prefix + format_path_element(path_element)
    for path_element, node in ordered:
        yield from paths(node, prefix + format_path_element(path_element))


def format_path_element(path_element: str) -> str:
    """Formats one path element as in error messages."""
    kind, _, rest = path_element.partition(":")
    match kind:
        case "f":
            return f".{rest}"
        case "k":
            pairs = sorted(orjson.loads(rest).items())
            return "[" + ",".join(f"{name}={orjson.dumps(value).decode()}" for name, value in pairs) + "]"
        case "v":
            return f"[={rest}]"
    return f"[{rest}]"


def check(fields: Any) -> None:
    """Raises ValueError unless this is a valid FieldsV1 set."""
    if not isinstance(fields, dict):
        raise ValueError(f"a set of fields must be an object, not {type(fields).__name__}")
    for path_element, node in fields.items():
        kind, colon, rest = path_element.partition(":")
        if path_element != ITSELF and (kind not in "fkvi" or not colon):
            raise ValueError(
                f"{path_element!r} is not the label of a field; it must start with f:, k:, v: or i:"
            )
        if kind == "k" and not isinstance(orjson.loads(rest), dict):
            raise ValueError(f"{path_element!r} does not hold the keys of a list element")
        check(node)


def _inner(node: FieldSet) -> FieldSet:
    """The set of the members below a node."""
    if ITSELF not in node:
        return node
    return {path_element: child for path_element, child in node.items() if path_element != ITSELF}


def _node(inner: FieldSet, *, member: bool) -> FieldSet | None:
    if not inner:
        return {} if member else None
    return {ITSELF: {}, **inner} if member else inner


def _node_union(left: FieldSet, right: FieldSet) -> FieldSet:
    if left and right:
        return union(left, right)
    full = left or right
    return full if is_member(full) else {ITSELF: {}, **full}


def _node_difference(left: FieldSet, right: FieldSet) -> FieldSet | None:
    member = is_member(left) and not is_member(right)
    return _node(difference(_inner(left), _inner(right)), member=member)
