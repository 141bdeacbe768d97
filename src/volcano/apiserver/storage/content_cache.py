"""Objects come in flocks: what was found out about one part of one holds for the next with the very same part.

`Alike` knows a part again by its bytes, `Shared` by being the same object: one that several have in common.
"""

from collections import OrderedDict
from typing import Any, Generic, TypeVar

import orjson

REMEMBERED = 512
LARGEST = 16 << 10  # bytes; what is larger is looked at each time

Found = TypeVar("Found")


class ContentCache(Generic[Found]):
    """Remembers something about the parts seen last, by their bytes."""

    __slots__ = ("_known", "_remembered")

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._known: OrderedDict[bytes, Found] = OrderedDict()
        self._remembered = remembered

    @staticmethod
    def key(part: Any) -> bytes:
        """What a part is remembered by; nothing for one that cannot be written as JSON and so is never remembered."""
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
        self._known[key] = found
        if len(self._known) > self._remembered:
            self._known.popitem(last=False)


class IdentityCache(Generic[Found]):
    """Remembers something about the very parts seen last. They may be in use elsewhere: nobody may change them."""

    __slots__ = ("_known", "_remembered")

    def __init__(self, remembered: int = REMEMBERED) -> None:
        # The part itself is kept, too: as long as it is, no other object has its identity.
        self._known: OrderedDict[int, tuple[object, Found]] = OrderedDict()
        self._remembered = remembered

    def get(self, part: object) -> Found | None:
        known = self._known.get(id(part))
        return None if known is None else known[1]

    def put(self, part: object, found: Found) -> None:
        self._known[id(part)] = part, found
        if len(self._known) > self._remembered:
            self._known.popitem(last=False)
