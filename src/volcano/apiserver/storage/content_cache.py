"""Caches of results per part of an object, such as the spec that many pods have in common.

`ContentCache` finds a part by its bytes, `IdentityCache` by object identity.
"""

from collections import OrderedDict
from typing import Any, Generic, TypeVar

import orjson

REMEMBERED = 512
LARGEST = 16 << 10  # bytes; larger parts are not cached

Found = TypeVar("Found")


class ContentCache(Generic[Found]):
    """Caches results by the JSON bytes of a part."""

    __slots__ = ("_known", "_remembered")

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._known: OrderedDict[bytes, Found] = OrderedDict()
        self._remembered = remembered

    @staticmethod
    def key(part: Any) -> bytes:
        """The key of a part; empty for one that cannot be encoded as JSON and so is never cached."""
        try:
            return orjson.dumps(part)
        except TypeError:
            return b""

    def __contains__(self, key: bytes) -> bool:
        return key in self._known

    def get(self, key: bytes) -> Found | None:
        return self._known.get(key)

    def put(self, key: bytes, found: Found) -> None:
        if not key or len(key) > LARGEST:
            return
        self._known[bytes(memoryview(key))] = (
            found  # a copy: orjson's result occupies 8 KiB however short it is
        )
        if len(self._known) > self._remembered:
            self._known.popitem(last=False)


class IdentityCache(Generic[Found]):
    """Caches results by the identity of a part. Parts may be in use elsewhere and are read-only."""

    __slots__ = ("_known", "_remembered")

    def __init__(self, remembered: int = REMEMBERED) -> None:
        # The part itself is kept as well, so that no other object gets its identity.
        self._known: OrderedDict[int, tuple[object, Found]] = OrderedDict()
        self._remembered = remembered

    def get(self, part: object) -> Found | None:
        known = self._known.get(id(part))
        return None if known is None else known[1]

    def put(self, part: object, found: Found) -> None:
        self._known[id(part)] = part, found
        if len(self._known) > self._remembered:
            self._known.popitem(last=False)
