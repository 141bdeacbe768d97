"""Errors of an API server: ApiError and its subclasses, to and from Status objects."""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from volcano.kube.api.manifest import Manifest


class Cause(NamedTuple):
    """One of several causes: `FieldValueInvalid`, the message, and the path of the field."""

    reason: str
    message: str
    field: str = ""


class ApiError(Exception):
    """An error that an API server answers with, as a Status object."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"

    def __init__(
        self,
        message: str,
        *,
        causes: Sequence[Cause] = (),
        name: str = "",
        group: str = "",
        kind: str = "",
        retry_after: int = 0,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.causes = tuple(causes)
        self.name = name
        self.group = group
        self.kind = kind
        self.retry_after = retry_after

    def status(self) -> Manifest:
        """Returns this error as a `v1` Status object."""
        details: dict[str, Any] = {}
        for field, value in (("name", self.name), ("group", self.group), ("kind", self.kind)):
            if value:
                details[field] = value
        if self.causes:
            details["causes"] = [
                {
                    "reason": cause.reason,
                    "message": cause.message,
                    **({"field": cause.field} if cause.field else {}),
                }
                for cause in self.causes
            ]
        if self.retry_after:
            details["retryAfterSeconds"] = self.retry_after
        status: Manifest = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if details:
            status["details"] = details
        return status


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    code, reason = 403, "Forbidden"


class NotFound(ApiError):
    code, reason = 404, "NotFound"


class MethodNotAllowed(ApiError):
    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(ApiError):
    code, reason = 406, "NotAcceptable"


class Conflict(ApiError):
    code, reason = 409, "Conflict"


class AlreadyExists(ApiError):
    code, reason = 409, "AlreadyExists"


class Gone(ApiError):
    """The requested history has expired: list again."""

    code, reason = 410, "Expired"


class TooLarge(ApiError):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    code, reason = 422, "Invalid"


class TooManyRequests(ApiError):
    code, reason = 429, "TooManyRequests"


class InternalError(ApiError):
    code, reason = 500, "InternalError"


class SpaceExceeded(ApiError):
    """The server's disk is full; kube-apiserver gives no reason when etcd has no space."""

    code, reason = 500, ""


class Unavailable(ApiError):
    """The server cannot be reached or cannot answer now; trying again may help."""

    code, reason = 503, "ServiceUnavailable"


class Timeout(ApiError):
    code, reason = 504, "Timeout"


_CHILDREN: tuple[type[ApiError], ...] = (
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    Conflict,
    AlreadyExists,
    Gone,
    TooLarge,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
    InternalError,
    Unavailable,
    Timeout,
    Gone,
)
_BY_REASON: dict[str, type[ApiError]] = {child.reason: child for child in _CHILDREN}
_BY_REASON |= {"Gone": Gone, "ServerTimeout": Timeout}
_BY_CODE: dict[int, type[ApiError]] = {child.code: child for child in _CHILDREN if child is not AlreadyExists}


def from_status(status: Manifest, code: int = 0, retry_after: int | None = None) -> ApiError:
    """Returns the exception of a Status object, or of an HTTP status code; `retry_after` is that of the HTTP header."""
    code = status.get("code") or code
    error_class = _BY_REASON.get(status.get("reason", "")) or _BY_CODE.get(code) or ApiError
    details = status.get("details") or {}
    return error_class(
        status.get("message") or f"the server answered {code}",
        causes=[
            Cause(cause.get("reason", ""), cause.get("message", ""), cause.get("field", ""))
            for cause in details.get("causes") or ()
        ],
        name=details.get("name", ""),
        group=details.get("group", ""),
        kind=details.get("kind", ""),
        retry_after=details.get("retryAfterSeconds", 0) if retry_after is None else retry_after,
    )
