"""Warnings for the client of a request, collected from anywhere in its handling."""

from contextvars import ContextVar

MOST = 4096
MAX_TEXTS = 100

_collected: ContextVar[list[str] | None] = ContextVar("warnings", default=None)


class collecting:  # noqa: N801 - used like a function
    """Collects the texts passed to `warn` inside the block, in any task of this request."""

    __slots__ = ("_token",)

    def __enter__(self) -> list[str]:
        found: list[str] = []
        self._token = _collected.set(found)
        return found

    def __exit__(self, *_: object) -> None:
        _collected.reset(self._token)


def warn(text: str) -> None:
    """Adds a warning to the answer of this request; repeated texts are sent once."""
    found = _collected.get()
    if found is not None and len(found) < MAX_TEXTS and text not in found:
        found.append(text)


def header(warnings: list[str]) -> str:
    """Warnings as the value of a Warning header (RFC 7234), truncated to the length that clients accept."""
    parts, size = [], 0
    for text in warnings:
        shown = "".join(c if c.isprintable() and c.isascii() else " " for c in text)
        part = '299 - "' + shown.replace("\\", "\\\\").replace('"', '\\"') + '"'
        size += len(part)
        if size > MOST:
            break
        parts.append(part)
    return ", ".join(parts)
