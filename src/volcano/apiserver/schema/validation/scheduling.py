"""Validation of tolerations, taints, affinity and topology spread constraints."""

from collections.abc import Mapping
from typing import Any

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.apiserver.schema.validation.metadata import label_selector
from volcano.kube.api.formats.names import dns_label, dns_subdomain, label_value, qualified_name
from volcano.kube.api.manifest import Manifest

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")


def tolerations(spec: Mapping[str, Any], path: str) -> Causes:
    """Validates tolerations."""
    for where, toleration in field.items(spec, "tolerations", path):
        key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
        effect, value = toleration.get("effect") or "", toleration.get("value") or ""
        if key:
            yield from field.each(f"{where}.key", key, qualified_name(key))
        elif operator != "Exists":
            yield field.invalid(
                f"{where}.operator",
                toleration.get("operator") or "",
                'operator must be Exists when `key` is empty, which means "match all values and all keys"',
            )
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            yield field.invalid(
                f"{where}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"
            )
        if operator == "Exists":
            if value:
                yield field.invalid(
                    f"{where}.operator", value, "value must be empty when `operator` is 'Exists'"
                )
        elif operator == "Equal":
            yield from field.each(f"{where}.operator", value, label_value(value))
        else:
            yield field.unsupported(f"{where}.operator", operator, ("Equal", "Exists"))
        yield from field.one_of(f"{where}.effect", effect, EFFECTS)


def affinity(rules: Mapping[str, Any], path: str) -> Causes:
    """Validates node and pod affinity."""
    if nodes := rules.get("nodeAffinity"):
        where = f"{path}.nodeAffinity"
        if (needed := nodes.get(_REQUIRED)) is not None:
            yield from node_selector(needed, f"{where}.{_REQUIRED}")
        for place, term in field.items(nodes, _PREFERRED, where):
            yield from _weight(term, place)
            yield from _node_term(term.get("preference") or {}, f"{place}.preference")
    for name in ("podAffinity", "podAntiAffinity"):
        pods = rules.get(name) or {}
        where = f"{path}.{name}"
        for place, term in field.items(pods, _REQUIRED, where):
            yield from _pod_term(term, place)
        for place, term in field.items(pods, _PREFERRED, where):
            yield from _weight(term, place)
            yield from _pod_term(term.get("podAffinityTerm") or {}, f"{place}.podAffinityTerm")


def node_selector(selector: Mapping[str, Any], path: str) -> Causes:
    """Validates a node selector: at least one term."""
    if not selector.get("nodeSelectorTerms"):
        yield field.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for where, term in field.items(selector, "nodeSelectorTerms", path):
        yield from _node_term(term, where)


def _weight(term: Manifest, path: str) -> Causes:
    weight = term.get("weight") or 0
    if not 1 <= weight <= 100:
        yield field.invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _node_term(term: Mapping[str, Any], path: str) -> Causes:
    for where, rule in field.items(term, "matchExpressions", path):
        operator, values = rule.get("operator") or "", rule.get("values") or []
        if operator in ("In", "NotIn"):
            if not values:
                yield field.required(
                    f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'"
                )
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                yield field.forbidden(
                    f"{where}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                )
        elif operator in ("Gt", "Lt"):
            if len(values) != 1:
                yield field.required(
                    f"{where}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"
                )
        else:
            yield field.invalid(f"{where}.operator", operator, "not a valid selector operator")
        key = rule.get("key") or ""
        yield from field.each(f"{where}.key", key, qualified_name(key))
        for index, value in enumerate(values):
            yield from field.each(f"{where}.values[{index}]", value, label_value(value))
    for where, rule in field.items(term, "matchFields", path):
        yield from _node_field(rule, where)


def _node_field(rule: Manifest, path: str) -> Causes:
    operator, values, key = rule.get("operator") or "", rule.get("values") or [], rule.get("key") or ""
    if operator not in ("In", "NotIn"):
        yield field.invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        yield field.required(
            f"{path}.values",
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        )
    if key != "metadata.name":
        yield field.invalid(f"{path}.key", key, "not a valid field selector key")
    else:
        for index, value in enumerate(values):
            yield from field.each(f"{path}.values[{index}]", value, dns_subdomain(value))


def _pod_term(term: Manifest, path: str) -> Causes:
    yield from label_selector(term.get("labelSelector"), f"{path}.labelSelector")
    yield from label_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for name in term.get("namespaces") or ():
        yield from field.each(f"{path}.namespace", name, dns_label(name))
    key = term.get("topologyKey") or ""
    if not key:
        yield field.required(f"{path}.topologyKey", "can not be empty")
    yield from field.each(f"{path}.topologyKey", key, qualified_name(key))


def spread(spec: Mapping[str, Any], path: str) -> Causes:
    """Validates topology spread constraints."""
    constraints = spec.get("topologySpreadConstraints") or []
    for index, constraint in enumerate(constraints):
        where = f"{path}.topologySpreadConstraints[{index}]"
        skew, least = constraint.get("maxSkew") or 0, constraint.get("minDomains")
        key, action = constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable") or ""
        if skew <= 0:
            yield field.invalid(f"{where}.maxSkew", skew, "must be greater than zero")
        if not key:
            yield field.required(f"{where}.topologyKey", "can not be empty")
        if action not in _UNSATISFIABLE:
            yield field.unsupported(f"{where}.whenUnsatisfiable", action, _UNSATISFIABLE)
        for other in constraints[index + 1 :]:
            if (other.get("topologyKey"), other.get("whenUnsatisfiable")) == (key, action):
                yield field.duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        if least is not None:
            if least <= 0:
                yield field.invalid(f"{where}.minDomains", least, "must be greater than zero")
            if action != "DoNotSchedule":
                text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                yield field.invalid(f"{where}.minDomains", least, text)
        yield from label_selector(constraint.get("labelSelector"), f"{where}.labelSelector")


def taints(values: list[Manifest], path: str) -> Causes:
    """Validates the taints of a node."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(values):
        where, key, effect = f"{path}[{index}]", taint.get("key") or "", taint.get("effect") or ""
        yield from field.each(f"{where}.key", key, qualified_name(key))
        value = taint.get("value") or ""
        yield from field.each(f"{where}.value", value, label_value(value))
        yield from field.one_of(f"{where}.effect", effect, EFFECTS, needed=True)
        if (key, effect) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            cause = field.duplicate(where, shown)
            yield cause._replace(message=f"{cause.message}: taints must be unique by key and effect pair")
        seen.add((key, effect))
