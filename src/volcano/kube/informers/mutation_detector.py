"""Detects modifications of objects in shared caches, as client-go's cache mutation detector.

Objects from informers, indexers and the decode cache are shared and read-only. The tests set the environment variable
VOLCANO_CACHE_MUTATION_DETECTOR=true; without it there is no detector.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

import orjson

from volcano.kube.api.manifest import Manifest, key_of

VARIABLE = "VOLCANO_CACHE_MUTATION_DETECTOR"
# Objects that are watched for modifications: the last ones added.
WINDOW = 2048


class CacheMutationError(BaseException):
    """A cached object was modified: a bug that corrupts what other readers see.

    Not an Exception, so that the guards that keep one bad item from stopping a loop do not hide it.
    """


class _Entry(NamedTuple):
    manifest: Manifest  # kept, so that its id is not reused
    encoded: bytes


class MutationDetector:
    """Compares cached objects with their state when they were added.

    An object is checked when it leaves the window of the last ones added, when its informer stops, and by `check`.
    """

    def __init__(self, window: int = WINDOW) -> None:
        self._window = window
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        self._error: CacheMutationError | None = None
        self._lock = threading.Lock()  # a test may check while a cluster in another thread adds

    def add(self, manifest: Any) -> None:
        """Watches an object from now on. Ignores decoded objects that are no manifests."""
        if not isinstance(manifest, dict) or id(manifest) in self._entries:
            return
        try:
            entry = _Entry(manifest, orjson.dumps(manifest))
        except TypeError:  # holds values that are not JSON
            return
        with self._lock:
            self._entries[id(manifest)] = entry
            oldest = self._entries.popitem(last=False)[1] if len(self._entries) > self._window else None
        if oldest is not None:
            self._compare(oldest)

    def check(self, manifests: Iterable[Any] | None = None) -> None:
        """Raises CacheMutationError when an object (one of `manifests`, if given) was modified, or an earlier check
        found one."""
        with self._lock:
            watched = list(self._entries.values()) if manifests is None else self._watched(manifests)
        for entry in watched:
            self._compare(entry)
        if self._error is not None:
            raise self._error

    def clear(self) -> None:
        """Stops watching the present objects."""
        with self._lock:
            self._entries.clear()
        self._error = None

    def _watched(self, manifests: Iterable[Any]) -> list[_Entry]:
        entries = (self._entries.get(id(manifest)) for manifest in manifests)
        return [entry for entry in entries if entry is not None]

    def _compare(self, entry: _Entry) -> None:
        try:
            if orjson.dumps(entry.manifest) == entry.encoded:
                return
        except TypeError:
            pass  # modified to hold a value that is not JSON
        original = orjson.loads(entry.encoded)
        where = first_difference(original, entry.manifest)
        self._error = self._error or CacheMutationError(
            f"cached {original.get('kind', 'object')} {key_of({'metadata': {}, **original})} was modified at "
            f"{where or 'the order of its fields'}; objects from caches are shared: copy before changing them"
        )
        raise self._error


def first_difference(before: Any, after: Any, path: str = "") -> str:
    """Returns the first difference between two JSON values, such as `.spec.replicas (1 became 2)`; empty for none."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in (*before, *(key for key in after if key not in before)):
            here = f"{path}.{key}"
            if key not in after:
                return f"{here} (removed)"
            if key not in before:
                return f"{here} (added)"
            if found := first_difference(before[key], after[key], here):
                return found
        return ""
    if isinstance(before, list) and isinstance(after, list | tuple):
        for index, (old, new) in enumerate(zip(before, after, strict=False)):
            if found := first_difference(old, new, f"{path}[{index}]"):
                return found
        return "" if len(before) == len(after) else f"{path} ({len(before)} elements became {len(after)})"
    if before == after and isinstance(before, bool) == isinstance(after, bool):
        return ""
    return f"{path} ({before!r} became {after!r})"


@cache
def process_detector() -> MutationDetector | None:
    """Returns the detector that all caches of the process share; None unless the environment enables it."""
    return MutationDetector() if os.environ.get(VARIABLE) == "true" else None
