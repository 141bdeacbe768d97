"""Warnings that reach the client beside an answer, from wherever in the handling of a request they arise."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MOST = 4096

_collected: ContextVar[list[str] | None] = ContextVar("warnings", default=None)


@contextmanager
def collecting() -> Iterator[list[str]]:
    """Collects what `warn` is told inside the block, by whatever task handles this request."""
    found: list[str] = []
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)


def warn(text: str) -> None:
    """Tells the client of this request something that is no error. Said twice, it is told once."""
    found = _collected.get()
    if found is not None and text not in found:
        found.append(text)


def header(warnings: list[str]) -> str:
    """Warnings as the value of a Warning header (RFC 7234), shortened to what clients take."""
    parts, size = [], 0
    for text in warnings:
        shown = "".join(c if c.isprintable() and c.isascii() else " " for c in text)
        part = '299 - "' + shown.replace("\\", "\\\\").replace('"', '\\"') + '"'
        size += len(part)
        if size > MOST:
            break
        parts.append(part)
    return ", ".join(parts)
