"""Objects come in flocks: what was found out about one part of one holds for the next with the very same part."""

from collections import OrderedDict
from typing import Any, Generic, TypeVar

import orjson

REMEMBERED = 512
LARGEST = 16 << 10  # bytes; what is larger is looked at each time

Found = TypeVar("Found")


class Alike(Generic[Found]):
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
