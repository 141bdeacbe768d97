"""Review kinds, which are evaluated and never stored: access reviews, SelfSubjectReview and TokenReview."""

from collections.abc import Callable, Mapping
from typing import Any

from volcano.apiserver.authn.identity import Authenticator, user_info
from volcano.apiserver.authn.token_requests import review_token
from volcano.apiserver.authn.tokens import BadToken
from volcano.apiserver.authz.actions import Action, Rule
from volcano.apiserver.authz.rbac import Authorizer
from volcano.apiserver.interfaces import User
from volcano.base.clock import timestamp
from volcano.kube.api import kinds
from volcano.kube.api.errors import BadRequest, Cause, Invalid
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.selectors import parse_fields

# Evaluates a review that a user posted in a namespace (empty for cluster-scoped kinds).
ReviewHandler = Callable[["Reviews", Kind, Manifest, User, str], Manifest]


class Reviews:
    """Evaluates reviews of all kinds."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer

    def review(self, kind: Kind, review: Manifest, user: User, namespace: str) -> Manifest:
        """Returns the review with its status."""
        spec = review.get("spec")
        if spec is not None and not isinstance(spec, dict):
            raise BadRequest(f"{kind.kind}.spec must be an object")
        reviewed = REVIEW_HANDLERS[kind](self, kind, review, user, namespace)
        return {"kind": kind.kind, "apiVersion": kind.api_version, **reviewed}

    def self_subject_access(self, kind: Kind, review: Manifest, user: User, namespace: str) -> Manifest:
        return self._evaluate_access(kind, review, user)

    def subject_access(self, kind: Kind, review: Manifest, user: User, namespace: str) -> Manifest:
        return self._evaluate_access(kind, review, _subject(kind, review))

    def local_subject_access(self, kind: Kind, review: Manifest, user: User, namespace: str) -> Manifest:
        attributes = _spec(review).get("resourceAttributes")
        if not isinstance(attributes, dict):
            raise _invalid(kind, "spec.resourceAttributes", "FieldValueRequired", "Required value")
        if attributes.get("namespace", "") != namespace:
            message = f'Invalid value: "{attributes.get("namespace", "")}": must match metadata.namespace'
            raise _invalid(kind, "spec.resourceAttributes.namespace", "FieldValueInvalid", message)
        return self._evaluate_access(kind, review, _subject(kind, review))

    def _evaluate_access(self, kind: Kind, review: Manifest, user: User) -> Manifest:
        action = _action(kind, _spec(review))
        reason = self._authorizer.reason(user, action)
        status: Manifest = {"allowed": reason is not None}
        if reason is None:
            reason = self._authorizer.denial(user, action)
        if reason:
            status["reason"] = reason
        return {"metadata": _metadata(review), "spec": _spec(review), "status": status}

    def self_subject_rules(self, kind: Kind, review: Manifest, user: User, namespace: str) -> Manifest:
        target = str(_spec(review).get("namespace", ""))
        if not target:
            raise BadRequest("no namespace on request")
        rules = list(self._authorizer.rules(user, target))
        status = {
            "resourceRules": [_resource_rule(rule) for rule in rules if not rule.paths],
            "nonResourceRules": [_path_rule(rule) for rule in rules if rule.paths],
            "incomplete": False,
        }
        return {"metadata": {}, "spec": {}, "status": status}

    def self_subject(self, kind: Kind, review: Manifest, user: User, namespace: str) -> Manifest:
        created = timestamp(self._authenticator.clock.now().wall)
        return {"metadata": {"creationTimestamp": created}, "status": {"userInfo": user_info(user)}}

    def token(self, kind: Kind, review: Manifest, user: User, namespace: str) -> Manifest:
        spec = _spec(review)
        token, audiences = spec.get("token"), spec.get("audiences") or ()
        if not isinstance(token, str) or not token:
            raise BadRequest("token is required for TokenReview in authentication")
        try:
            identified = self._authenticator.identify(token, tuple(map(str, audiences)))
        except BadToken as error:
            return review_token(None, f"[invalid bearer token, {error}]", review)
        return review_token(identified, "", review)


REVIEW_HANDLERS: dict[Kind, ReviewHandler] = {
    kinds.SELF_SUBJECT_ACCESS_REVIEW: Reviews.self_subject_access,
    kinds.SUBJECT_ACCESS_REVIEW: Reviews.subject_access,
    kinds.LOCAL_SUBJECT_ACCESS_REVIEW: Reviews.local_subject_access,
    kinds.SELF_SUBJECT_RULES_REVIEW: Reviews.self_subject_rules,
    kinds.SELF_SUBJECT_REVIEW: Reviews.self_subject,
    kinds.TOKEN_REVIEW: Reviews.token,
}


def _spec(review: Manifest) -> Mapping[str, Any]:
    return review.get("spec") or {}


def _metadata(review: Manifest) -> Manifest:
    metadata = review.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _subject(kind: Kind, review: Manifest) -> User:
    spec = _spec(review)
    name, groups = spec.get("user") or "", spec.get("groups") or ()
    if not name and not groups:
        raise _invalid(
            kind,
            "spec.user",
            "FieldValueRequired",
            "Required value: at least one of user or group must be specified",
        )
    extra = {str(key): tuple(map(str, values)) for key, values in (spec.get("extra") or {}).items()}
    return User(str(name), tuple(map(str, groups)), str(spec.get("uid") or ""), extra)


def _action(kind: Kind, spec: Mapping[str, Any]) -> Action:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if isinstance(resource, dict) and isinstance(path, dict):
        message = "Invalid value: cannot be specified in combination with resourceAttributes"
        raise _invalid(kind, "spec.nonResourceAttributes", "FieldValueInvalid", message)
    if isinstance(path, dict):
        return Action(_text(path, "verb"), path=_text(path, "path") or "/")
    if not isinstance(resource, dict):
        message = "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise _invalid(kind, "spec.resourceAttributes", "FieldValueInvalid", message)
    return Action(
        _text(resource, "verb"),
        _text(resource, "group"),
        _text(resource, "resource"),
        _text(resource, "subresource"),
        _text(resource, "name"),
        _text(resource, "namespace"),
        selected_node=_selected_node(resource.get("fieldSelector")),
    )


def _selected_node(selector: Any) -> str:
    """spec.nodeName in the field selector of a review, given as text or as requirements."""
    if not isinstance(selector, dict):
        return ""
    try:
        if raw := selector.get("rawSelector"):
            return parse_fields(str(raw)).exact("spec.nodeName") or ""
    except ValueError:
        return ""
    for requirement in selector.get("requirements") or ():
        values = [*(requirement.get("values") or ())]
        if (requirement.get("key"), requirement.get("operator"), len(values)) == ("spec.nodeName", "In", 1):
            return str(values[0])
    return ""


def _text(values: Mapping[str, Any], field: str) -> str:
    return str(values.get(field) or "")


def _invalid(kind: Kind, field: str, reason: str, message: str) -> Invalid:
    return Invalid(
        f'.{kind.group} "" is invalid: {field}: {message}',
        causes=[Cause(reason, message, field)],
        group=kind.group,
    )


def _resource_rule(rule: Rule) -> Manifest:
    shown = {
        "verbs": sorted(rule.verbs),
        "apiGroups": sorted(rule.groups),
        "resources": sorted(rule.resources),
    }
    return {**shown, "resourceNames": sorted(rule.names)} if rule.names else shown


def _path_rule(rule: Rule) -> Manifest:
    return {"verbs": sorted(rule.verbs), "nonResourceURLs": list(rule.paths)}
