"""Warnings that reach the client beside an answer, from wherever in the handling of a request they arise."""

from contextvars import ContextVar

MOST = 4096

_collected: ContextVar[list[str] | None] = ContextVar("warnings", default=None)


class collecting:  # noqa: N801 - used like a function
    """Collects what `warn` is told inside the block, by whatever task handles this request."""

    __slots__ = ("_token",)

    def __enter__(self) -> list[str]:
        found: list[str] = []
        self._token = _collected.set(found)
        return found

    def __exit__(self, *_: object) -> None:
        _collected.reset(self._token)


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
