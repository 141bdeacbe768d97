"""Selects the registered webhooks for a request: rules, scopes, selectors and match conditions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from volcano.apiserver.authn.identity import user_info
from volcano.apiserver.interfaces import Attributes, Lookup
from volcano.apiserver.schema.match_conditions import CONDITIONS_LIMIT, compile_match_condition
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import MUTATING_WEBHOOK, NAMESPACE, VALIDATING_WEBHOOK
from volcano.kube.api.manifest import Key, Manifest, labels_of
from volcano.kube.api.selectors import from_object
from volcano.kube.cel.errors import CostLimitExceeded, EvaluationError
from volcano.kube.cel.program import CALL_LIMIT, InvalidExpression

# Exempt, so that a broken webhook can always be repaired.
EXEMPT = (MUTATING_WEBHOOK, VALIDATING_WEBHOOK)
TIMEOUT = 10


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook of one configuration."""

    configuration: str
    source: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.source.get("name", ""))

    @property
    def ignores_failures(self) -> bool:
        return bool(self.source.get("failurePolicy", "Fail") == "Ignore")

    @property
    def seconds(self) -> int:
        return int(self.source.get("timeoutSeconds") or TIMEOUT)

    @property
    def reinvoked(self) -> bool:
        return self.source.get("reinvocationPolicy") == "IfNeeded"

    @property
    def allows_dry_run(self) -> bool:
        return self.source.get("sideEffects") in ("None", "NoneOnDryRun")


def hooks_of(configurations: Iterable[Manifest]) -> list[Hook]:
    """All webhooks, in the order they are called: by the name of their configuration, then as listed there."""
    ordered = sorted(configurations, key=lambda configuration: str(configuration["metadata"]["name"]))
    return [
        Hook(configuration["metadata"]["name"], hook)
        for configuration in ordered
        for hook in configuration.get("webhooks") or ()
    ]


def matches(
    hook: Hook, request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
) -> bool:
    """Whether a webhook's rules and selectors match a request. Match conditions are evaluated separately."""
    return (
        request.kind not in EXEMPT
        and any(_rule_matches(rule, request) for rule in hook.source.get("rules") or ())
        and _namespace_matches(hook.source.get("namespaceSelector"), request, new, old, lookup)
        and _object_matches(hook.source.get("objectSelector"), new, old)
    )


def _rule_matches(rule: Mapping[str, Any], request: Attributes) -> bool:
    kind = request.kind
    return (
        _among(rule.get("operations"), request.operation)
        and _among(rule.get("apiGroups"), kind.group)
        and _among(rule.get("apiVersions"), kind.version)
        and any(
            _resource_matches(str(item), kind.plural, request.subresource)
            for item in rule.get("resources") or ()
        )
        and _scope_matches(rule.get("scope") or "*", request)
    )


def _among(allowed: Any, value: str) -> bool:
    return "*" in (allowed or ()) or value in (allowed or ())


def _resource_matches(pattern: str, plural: str, subresource: str) -> bool:
    wanted, slash, wanted_sub = pattern.partition("/")
    if wanted not in ("*", plural):
        return False
    if not slash:
        return not subresource
    return wanted_sub in ("*", subresource)


def _scope_matches(scope: str, request: Attributes) -> bool:
    if scope == "*":
        return True
    # A Namespace is cluster-scoped, although requests for it name a namespace.
    return (scope == "Namespaced") == request.kind.namespaced


def _namespace_matches(
    selector: Any, request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
) -> bool:
    if not selector:
        return True
    if request.kind == NAMESPACE:
        subject = new or old
    elif request.kind.namespaced:
        subject = lookup.find(NAMESPACE, Key("", request.key.namespace))
    else:
        return True
    return subject is not None and from_object(selector).matches(labels_of(subject))


def _object_matches(selector: Any, new: Manifest | None, old: Manifest | None) -> bool:
    if not selector:
        return True
    wanted = from_object(selector)
    return any(
        wanted.matches(labels_of(manifest))
        for manifest in (new, old)
        if manifest and manifest.get("metadata")
    )


class ConditionFailed(Exception):
    """A match condition cannot be evaluated for this request."""


def conditions_hold(
    hook: Hook, review: Mapping[str, Any], new: Manifest | None, old: Manifest | None
) -> bool:
    """Whether every match condition is true. A false one takes precedence over one that fails
    (`ConditionFailed`)."""
    failures = []
    left = CONDITIONS_LIMIT
    variables = {"object": new, "oldObject": old, "request": review}
    for condition in hook.source.get("matchConditions") or ():
        try:
            program = compile_match_condition(str(condition.get("expression", "")))
            value, cost = program.evaluate(dict(variables), min(CALL_LIMIT, left))
        except (InvalidExpression, EvaluationError, CostLimitExceeded) as error:
            failures.append(f"{condition.get('name')}: {error}")
            continue
        left -= cost
        if value is False:
            return False
        if value is not True:
            failures.append(f"{condition.get('name')}: the expression must evaluate to a bool")
    if failures:
        raise ConditionFailed("; ".join(failures))
    return True


def review_of(request: Attributes, new: Manifest | None, old: Manifest | None, uid: str) -> Manifest:
    """The `request` of an AdmissionReview."""
    kind = request.kind
    subject = new or old or {}
    api_version, name = subject.get("apiVersion", kind.api_version), subject.get("kind", kind.kind)
    group, _, version = str(api_version).rpartition("/")
    gvk = {"group": group, "version": version, "kind": name}
    resource = {"group": kind.group, "version": kind.version, "resource": kind.plural}
    review: Manifest = {
        "uid": uid,
        "kind": gvk,
        "resource": resource,
        "requestKind": gvk,
        "requestResource": resource,
        "name": request.key.name,
        "namespace": request.key.namespace or (request.key.name if kind == NAMESPACE else ""),
        "operation": request.operation,
        "userInfo": user_info(request.user),
        "object": new,
        "oldObject": old,
        "dryRun": request.options.dry_run,
        "options": _options(request),
    }
    if request.subresource:
        review |= {"subResource": request.subresource, "requestSubResource": request.subresource}
    return {field: value for field, value in review.items() if value != ""}


def _options(request: Attributes) -> Manifest:
    kinds = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}
    options: Manifest = {
        "kind": kinds.get(request.verb, "DeleteOptions"),
        "apiVersion": "meta.k8s.io/v1",
    }
    given = request.options
    if given.dry_run:
        options["dryRun"] = ["All"]
    if given.field_manager:
        options["fieldManager"] = given.field_manager
    if options["kind"] == "DeleteOptions":
        if given.grace_seconds is not None:
            options["gracePeriodSeconds"] = given.grace_seconds
        if given.propagation:
            options["propagationPolicy"] = given.propagation
    return options


class Denied(ApiError):
    """The denial of a webhook, returned with the webhook's own code and reason."""

    def __init__(self, hook: Hook, status: Mapping[str, Any]) -> None:
        why = status.get("message") or status.get("reason")
        denied = f'admission webhook "{hook.name}" denied the request'
        super().__init__(f"{denied}: {why}" if why else f"{denied} without explanation")
        self._given = status

    def status(self) -> Manifest:
        code = self._given.get("code")
        status = {**super().status(), "reason": str(self._given.get("reason") or "")}
        status["code"] = code if isinstance(code, int) and 400 <= code < 600 else 400
        if isinstance(self._given.get("details"), dict):
            status["details"] = self._given["details"]
        return status
