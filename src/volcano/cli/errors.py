"""Errors of commands, each with an exit code and a one-line message."""

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

FAILED, USAGE, MISSING, NO_SERVER = 1, 2, 3, 4
INTERRUPTED, BROKEN_PIPE = 130, 141


class CommandError(Exception):
    """The command failed; the message says why and, where possible, what would help."""

    code = FAILED


class UsageError(CommandError):
    """The command line is invalid."""

    code = USAGE


class Missing(CommandError):
    """The object does not exist."""

    code = MISSING


class NoServer(CommandError):
    """The server does not answer, or access is denied."""

    code = NO_SERVER


def near(name: str, known: "Iterable[str]") -> str:
    """`; did you mean "x"?` if a known name is similar, otherwise empty."""
    found = get_close_matches(name, list(dict.fromkeys(known)), n=1, cutoff=0.6)
    return f"; did you mean {found[0]!r}?" if found else ""


def explain(error: Exception) -> CommandError:
    """Converts any exception to a CommandError."""
    from volcano.kube.api import errors as api

    if isinstance(error, ExceptionGroup):  # several errors at once: the first one is reported
        return explain(error.exceptions[0])
    if isinstance(error, CommandError):
        return error
    if isinstance(error, api.ApiError):
        if isinstance(error, (api.Unauthorized, api.Forbidden, api.Unavailable, api.Timeout)):
            return NoServer(error.message)
        if isinstance(error, api.NotFound):
            if not error.name:  # the kind is unknown, not the object
                said = error.message.strip()
                return NoServer(f"{said}; are Volcano's custom resource definitions installed?")
            return Missing(error.message)
        return CommandError(error.message)
    if isinstance(error, OSError):
        from volcano.base.os_errors import explain_os_error

        return CommandError(explain_os_error(error))
    return CommandError(f"unexpected {type(error).__name__}: {error}; please report this")
