"""ListOptions, CreateOptions, UpdateOptions, PatchOptions and DeleteOptions from query parameters and bodies."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from volcano.apiserver.schema.decoding import check_types
from volcano.base.http.messages import Request
from volcano.kube.api.errors import BadRequest, Cause, Invalid
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Options, PatchType, Query

FIELD_VALIDATION = ("Ignore", "Strict", "Warn")
PROPAGATION = ("Foreground", "Background", "Orphan")
MAX_FIELD_MANAGER_LENGTH = 128
DELETE_OPTIONS = Kind("", "v1", "DeleteOptions", "deleteoptions")


def flag(request: Request, name: str) -> bool:
    """Value of a boolean parameter: present means true unless it is false or 0."""
    values = request.query.get(name)
    return values is not None and values[0].lower() not in ("false", "0")


def integer(request: Request, name: str) -> int | None:
    """Value of an integer parameter; None when absent or empty."""
    text = request.parameter(name)
    if not text:
        return None
    try:
        number = int(text)
    except ValueError:
        raise BadRequest(f'strconv.ParseInt: parsing "{text[:100]}": invalid syntax') from None
    if not -(2**63) <= number < 2**63:
        raise BadRequest(f'strconv.ParseInt: parsing "{text[:100]}": value out of range')
    return number


def query_of(request: Request, namespace: str, *, watch: bool) -> Query:
    """ListOptions of a list, watch or deletecollection."""
    limit = integer(request, "limit") or 0
    timeout = integer(request, "timeoutSeconds") or 0
    return Query(
        namespace=namespace,
        labels=request.parameter("labelSelector"),
        fields=request.parameter("fieldSelector"),
        limit=max(limit, 0),
        continue_token=request.parameter("continue"),
        resource_version=request.parameter("resourceVersion"),
        resource_version_match=request.parameter("resourceVersionMatch"),
        send_initial_events=watch and flag(request, "sendInitialEvents"),
        bookmarks=watch and flag(request, "allowWatchBookmarks"),
        timeout_seconds=max(timeout, 0),
    )


def options_of(request: Request, kind: str, user_agent: str = "") -> Options:
    """Options of a create, update or patch; `kind` names them in error messages."""
    if not request.query:
        return _default_options(default_manager(user_agent))
    validation = request.parameter("fieldValidation")
    if validation and validation not in FIELD_VALIDATION:
        raise _unsupported(kind, "fieldValidation", f'"{validation}"', ("", *FIELD_VALIDATION))
    manager = request.parameter("fieldManager")
    if len(manager) > MAX_FIELD_MANAGER_LENGTH:
        message = f"Too long: may not be more than {MAX_FIELD_MANAGER_LENGTH} bytes"
        raise _invalid(kind, "fieldManager", "FieldValueTooLong", message)
    return Options(
        field_manager=manager or default_manager(user_agent),
        force=flag(request, "force"),
        dry_run=_dry_run(request.query.get("dryRun", []), kind),
        field_validation=validation or "Warn",
    )


@lru_cache(maxsize=128)
def _default_options(manager: str) -> Options:
    """Options of a request without query parameters."""
    return Options(field_manager=manager, field_validation="Warn")


def default_manager(user_agent: str) -> str:
    """Default field manager: the program name in the user agent."""
    return user_agent.partition("/")[0][:MAX_FIELD_MANAGER_LENGTH]


def patch_options(request: Request, media_type: str, user_agent: str) -> Options:
    """Options of a patch; `media_type` is one of the four patch types."""
    kind = "PatchOptions"
    options = replace(options_of(request, kind, user_agent), patch_type=PatchType(media_type))
    if options.patch_type is not PatchType.APPLY:
        if request.query.get("force"):
            message = "Forbidden: may not be specified for non-apply patch"
            raise _invalid(kind, "force", "FieldValueForbidden", message)
        return options
    if not request.parameter("fieldManager"):
        message = "Required value: is required for apply patch"
        raise _invalid(kind, "fieldManager", "FieldValueRequired", message)
    return options


def delete_options(request: Request, body: Any) -> Options:
    """DeleteOptions from the body, or from the query if there is no body."""
    given = _delete_body(body) if body else _delete_query(request)
    preconditions = given.get("preconditions") or {}
    return Options(
        dry_run=_dry_run(given.get("dryRun") or [], "DeleteOptions"),
        grace_seconds=given.get("gracePeriodSeconds"),
        propagation=_propagation(given),
        uid=str(preconditions.get("uid") or ""),
        resource_version=str(preconditions.get("resourceVersion") or ""),
    )


def _delete_body(body: Any) -> Manifest:
    if isinstance(body, dict) and body.get("kind") not in (None, "", "DeleteOptions"):
        raise BadRequest(f"decoded object cannot be converted to DeleteOptions: it is a {body['kind']}")
    return check_types(DELETE_OPTIONS, body)


def _delete_query(request: Request) -> Manifest:
    given: Manifest = {"dryRun": request.query.get("dryRun", [])}
    grace = integer(request, "gracePeriodSeconds")
    if grace is not None:
        given["gracePeriodSeconds"] = grace
    if "orphanDependents" in request.query:
        given["orphanDependents"] = flag(request, "orphanDependents")
    if policy := request.parameter("propagationPolicy"):
        given["propagationPolicy"] = policy
    return given


def _propagation(given: Mapping[str, Any]) -> str:
    policy, orphan = given.get("propagationPolicy") or "", given.get("orphanDependents")
    if policy and orphan is not None:
        message = "Invalid value: orphanDependents and deletionPropagation cannot be both set"
        raise _invalid("DeleteOptions", "propagationPolicy", "FieldValueInvalid", message)
    if policy and policy not in PROPAGATION:
        raise _unsupported("DeleteOptions", "propagationPolicy", f'"{policy}"', (*PROPAGATION, "nil"))
    if orphan is not None:
        return "Orphan" if orphan else "Background"
    return str(policy)


def _dry_run(values: list[Any], kind: str) -> bool:
    for value in values:
        if value != "All":
            raise _unsupported(kind, "dryRun", json.dumps(values), ("All",))
    return bool(values)


def _unsupported(kind: str, field: str, value: str, allowed: tuple[str, ...]) -> Invalid:
    choices = ", ".join(f'"{choice}"' for choice in allowed)
    message = f"Unsupported value: {value}: supported values: {choices}"
    return _invalid(kind, field, "FieldValueNotSupported", message)


def _invalid(kind: str, field: str, reason: str, message: str) -> Invalid:
    return Invalid(
        f'{kind}.meta.k8s.io "" is invalid: {field}: {message}',
        causes=[Cause(reason, message, field)],
        group="meta.k8s.io",
        kind=kind,
    )
