"""Annotations of the audit event of a request, collected from anywhere in its handling."""

from contextvars import ContextVar

_collected: ContextVar[dict[str, str] | None] = ContextVar("audit_annotations", default=None)


class collecting_annotations:  # noqa: N801 - used like a function
    """Collects what is passed to `annotate` inside the block, in any task of this request."""

    __slots__ = ("_token",)

    def __enter__(self) -> dict[str, str]:
        found: dict[str, str] = {}
        self._token = _collected.set(found)
        return found

    def __exit__(self, *_: object) -> None:
        _collected.reset(self._token)


def annotate(key: str, value: str) -> None:
    """Adds an annotation to the audit event of this request, if it is audited."""
    found = _collected.get()
    if found is not None:
        found[key] = value
