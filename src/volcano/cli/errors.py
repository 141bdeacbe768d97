"""What a command may end with: an exit code that a script can use, and one line that says why."""

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

FAILED, USAGE, MISSING, NO_SERVER = 1, 2, 3, 4
INTERRUPTED, BROKEN_PIPE = 130, 141


class CommandError(Exception):
    """The command could not be carried out; the message says why and, where it can, what would help."""

    code = FAILED


class UsageError(CommandError):
    """The command line makes no sense."""

    code = USAGE


class Missing(CommandError):
    """What was asked for is not there."""

    code = MISSING


class NoServer(CommandError):
    """Nobody answers, or we may not ask."""

    code = NO_SERVER


def near(name: str, known: "Iterable[str]") -> str:
    """`; did you mean "x"?` when one of the known names is close to this one, else nothing."""
    found = get_close_matches(name, list(dict.fromkeys(known)), n=1, cutoff=0.6)
    return f"; did you mean {found[0]!r}?" if found else ""


def explain(error: Exception) -> CommandError:
    """Any failure as one with an exit code."""
    from volcano.kube import errors as api

    if isinstance(error, ExceptionGroup):  # several things at once: the first that failed says why
        return explain(error.exceptions[0])
    if isinstance(error, CommandError):
        return error
    if isinstance(error, api.ApiError):
        if isinstance(error, (api.Unauthorized, api.Forbidden, api.Unavailable, api.Timeout)):
            return NoServer(error.message)
        if isinstance(error, api.NotFound):
            if not error.name:  # not an object is missing, but its kind
                said = error.message.strip()
                return NoServer(f"{said}; are Volcano's custom resource definitions installed?")
            return Missing(error.message)
        return CommandError(error.message)
    if isinstance(error, OSError):
        return CommandError(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    return CommandError(f"unexpected {type(error).__name__}: {error}; please report this")
