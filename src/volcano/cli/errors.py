"""Errors of commands: each has an exit code and a one-line message."""

from collections.abc import Iterator
from contextlib import contextmanager

from volcano.services.errors import InvalidInput, NotFoundError, ServiceError, Unreachable, near

__all__ = ["CommandError", "UsageError", "exit_code", "explain", "near", "value_of"]

FAILED, USAGE, MISSING, NO_SERVER = 1, 2, 3, 4
INTERRUPTED, BROKEN_PIPE = 130, 141


class CommandError(ServiceError):
    """The command failed; the message says why and, where possible, what would help."""


class UsageError(CommandError):
    """The command line is invalid."""


# Any other error of a service or of the API server: FAILED.
EXIT_CODES: dict[type[ServiceError], int] = {
    UsageError: USAGE,
    InvalidInput: USAGE,
    NotFoundError: MISSING,
    Unreachable: NO_SERVER,
}


@contextmanager
def value_of(flag: str, cause: type[Exception] = ValueError) -> Iterator[None]:
    """Raises UsageError, with the flag before the message, for an error of a value."""
    try:
        yield
    except cause as error:
        raise UsageError(f"{flag}: {error}") from None


def exit_code(error: ServiceError) -> int:
    """Exit code of a command that ended with an error."""
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), FAILED)


def explain(error: Exception) -> ServiceError:
    """Converts any exception to an error of the tree."""
    from volcano.kube.api import errors as api

    if isinstance(error, ExceptionGroup):  # several errors at once: the first one is reported
        return explain(error.exceptions[0])
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, api.ApiError):
        if isinstance(error, (api.Unauthorized, api.Forbidden, api.Unavailable, api.Timeout)):
            return Unreachable(error.message)
        if isinstance(error, api.NotFound):
            if not error.name:  # the kind is unknown, not the object
                said = error.message.strip()
                return Unreachable(f"{said}; are Volcano's custom resource definitions installed?")
            return NotFoundError(error.message)
        return CommandError(error.message)
    if isinstance(error, OSError):
        from volcano.base.os_errors import explain_os_error

        return CommandError(explain_os_error(error))
    return CommandError(f"unexpected {type(error).__name__}: {error}; please report this")
