"""Copies of mutable caches: containers are copied, the immutable values in them are shared."""

from typing import Any, TypeVar

import numpy as np

Cache = TypeVar("Cache")
CONTAINERS = (dict, list, set, np.ndarray)


def copy_of(cache: Cache, copies: dict[int, Any]) -> Cache:
    """A copy of an object with its attributes; `copies` has, by the id of an object, what replaces it in the copy,
    and receives this copy."""
    made: Any = object.__new__(type(cache))
    copies[id(cache)] = made
    for name, value in _attributes(cache):
        setattr(made, name, copies.get(id(value)) or _copied(value))
    found: Cache = made
    return found


def _attributes(cache: object) -> list[tuple[str, Any]]:
    names = getattr(type(cache), "__slots__", None) or vars(cache)
    return [(name, getattr(cache, name)) for name in names]


def _copied(value: Any) -> Any:
    """A copy of a container, with copies of the containers in it; the values of one container are of one type."""
    if isinstance(value, dict):
        nested = isinstance(next(iter(value.values()), None), CONTAINERS)
        return {key: _copied(inner) for key, inner in value.items()} if nested else dict(value)
    if isinstance(value, list):
        return (
            [_copied(inner) for inner in value] if value and isinstance(value[0], CONTAINERS) else list(value)
        )
    if isinstance(value, set | np.ndarray):
        return value.copy()
    return value
