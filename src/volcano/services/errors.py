"""Errors of the services. Those of the API server are the classes of `volcano.kube.api.errors`."""

from collections.abc import Iterable
from difflib import get_close_matches


class ServiceError(Exception):
    """The request failed; the message says why, and the hint, where there is one, what would help."""

    def __init__(self, message: str = "", hint: str = "") -> None:
        super().__init__("; ".join(part for part in (message, hint) if part))
        self.message, self.hint = message, hint


class InvalidInput(ServiceError):
    """A value that was given is invalid."""


class NotFoundError(ServiceError):
    """The object does not exist."""


class Rejected(ServiceError):
    """The state of the object does not allow the request."""


class Unreachable(ServiceError):
    """The server does not answer, or access is denied."""


class TimedOut(ServiceError):
    """The state that was waited for was not reached in time."""


def near(name: str, known: Iterable[str]) -> str:
    """`; did you mean "x"?` if a known name is similar, otherwise empty."""
    found = get_close_matches(name, list(dict.fromkeys(known)), n=1, cutoff=0.6)
    return f"; did you mean {found[0]!r}?" if found else ""
