"""API errors with the messages of kube-apiserver, on which clients match."""

from collections.abc import Sequence

from volcano.kube.api.errors import (
    AlreadyExists,
    BadRequest,
    Cause,
    Conflict,
    Forbidden,
    Invalid,
    MethodNotAllowed,
    NotFound,
)
from volcano.kube.api.kinds import Kind

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
UNSERVED = "the server could not find the requested resource"


def not_found(kind: Kind, name: str) -> NotFound:
    return NotFound(f'{kind.resource} "{name}" not found', name=name, group=kind.group, kind=kind.plural)


def already_exists(kind: Kind, name: str) -> AlreadyExists:
    return AlreadyExists(
        f'{kind.resource} "{name}" already exists', name=name, group=kind.group, kind=kind.plural
    )


def conflict(kind: Kind, name: str, why: str = MODIFIED, *, subresource: str = "") -> Conflict:
    resource = f"{kind.resource}/{subresource}" if subresource else kind.resource
    return Conflict(
        f'Operation cannot be fulfilled on {resource} "{name}": {why}',
        name=name,
        group=kind.group,
        kind=kind.plural,
    )


def forbidden(kind: Kind, name: str, why: str, causes: Sequence[Cause] = ()) -> Forbidden:
    return Forbidden(
        f'{kind.resource} "{name}" is forbidden: {why}',
        name=name,
        group=kind.group,
        kind=kind.plural,
        causes=causes,
    )


def invalid(kind: Kind, name: str, causes: Sequence[Cause]) -> Invalid:
    """Invalid with one cause per field error."""
    messages = list(
        dict.fromkeys(f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in causes)
    )
    qualified = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    reasons = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    return Invalid(
        f'{qualified} "{name}" is invalid: {reasons}',
        causes=causes,
        name=name,
        group=kind.group,
        kind=kind.kind,
    )


def terminating(kind: Kind, name: str, namespace: str) -> Forbidden:
    """Forbidden: the namespace is being terminated."""
    return forbidden(
        kind,
        name,
        f"unable to create new content in namespace {namespace} because it is being terminated",
        [Cause("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace")],
    )


def unserved() -> NotFound:
    return NotFound(UNSERVED)


def not_allowed(kind: Kind, verb: str, subresource: str = "") -> MethodNotAllowed:
    resource = f"{kind.resource}/{subresource}" if subresource else kind.resource
    return MethodNotAllowed(f"{verb} is not supported on resources of kind {resource!r}".replace("'", '"'))


def wrong_namespace() -> BadRequest:
    return BadRequest("the namespace of the provided object does not match the namespace sent on the request")
