"""Labels as the store keeps them for selection: few as a dictionary, many as JSON, which needs less memory."""

import re
from collections.abc import Iterator, Mapping

import orjson

MANY = 64
_PLAIN = re.compile(r"[A-Za-z0-9._/-]+")
EMPTY: Mapping[str, str] = {}
_PER_LABEL = 130  # bytes of one label in a dictionary, measured
_DICTIONARY = 64


class EncodedLabels(Mapping[str, str]):
    """Labels as one JSON object. A label is found by its text."""

    __slots__ = ("data",)

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.data = bytes(memoryview(orjson.dumps(labels)))

    def __getitem__(self, key: str) -> str:
        if not _PLAIN.fullmatch(key):
            return self._decoded()[key]
        # The quote of a text that begins with a plain character, after a bracket or a comma, is that of a key.
        opening = f'"{key}":"'.encode()
        position = max(self.data.find(b"{" + opening), self.data.find(b"," + opening))
        if position < 0:
            raise KeyError(key)
        start = position + 1 + len(opening)
        text = self.data[start : self.data.index(b'"', start)]
        return self._decoded()[key] if b"\\" in text else text.decode()

    def __iter__(self) -> Iterator[str]:
        return iter(self._decoded())

    def __len__(self) -> int:
        return len(self._decoded())

    def _decoded(self) -> dict[str, str]:
        labels: dict[str, str] = orjson.loads(self.data)
        return labels


def stored_labels(labels: Mapping[str, str] | None, previous: Mapping[str, str] = EMPTY) -> Mapping[str, str]:
    """Labels to keep: those of the previous version where they are equal."""
    if not labels:
        return EMPTY
    if len(labels) <= MANY:
        return previous if labels == previous else dict(labels)
    encoded = EncodedLabels(labels)
    return previous if isinstance(previous, EncodedLabels) and previous.data == encoded.data else encoded


def bytes_of(labels: Mapping[str, str]) -> int:
    """About how much memory stored labels need."""
    if isinstance(labels, EncodedLabels):
        return len(labels.data)
    return _DICTIONARY + _PER_LABEL * len(labels) if labels else 0
