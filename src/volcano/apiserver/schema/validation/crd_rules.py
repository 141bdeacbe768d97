"""Validation of the CEL rules of a CRD: syntax, types and estimated cost, as in kube-apiserver."""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.apiserver.schema.validation_rules import (
    REASONS,
    compile_condition,
    compile_message,
    declaration_for_rules,
    rule_variables,
)
from volcano.kube.api.formats import re2_patterns
from volcano.kube.cel.declarations import Declaration
from volcano.kube.cel.library.overload import LARGEST
from volcano.kube.cel.program import InvalidExpression, Program

# Most estimated cost of one expression, and of all expressions of a schema.
EXPRESSION_LIMIT, SCHEMA_LIMIT = 10_000_000, 100_000_000
_MOST_EXPENSIVE = 4
# Most code points of all expressions of a schema; compiling takes time.
LONGEST_SOURCES = 100_000
# Most characters of all patterns of a schema.
LONGEST_PATTERNS = 50_000
_HINT = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)


@dataclass(slots=True)
class SchemaCost:
    """Estimated cost of all rules of a schema, with the most expensive ones."""

    total: int = 0
    source_length: int = 0
    pattern_length: int = 0
    expensive: list[tuple[int, str]] = dataclass_field(default_factory=list)

    def add(self, cost: int, path: str) -> None:
        self.total = min(self.total + cost, LARGEST)
        heapq.heappush(self.expensive, (cost, path))
        if len(self.expensive) > _MOST_EXPENSIVE:
            heapq.heappop(self.expensive)

    def causes(self, path: str) -> Causes:
        """Errors if the rules together are too expensive."""
        if self.total <= SCHEMA_LIMIT:
            return
        for _, where in sorted(self.expensive, reverse=True):
            text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            yield field.forbidden(where, text)
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        yield field.forbidden(path, _too_expensive(name, self.total, SCHEMA_LIMIT))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a subschema is: how many values of it an object has at most (None: any number), and the list or set
    below which old values cannot be found."""

    cardinality: int | None = 1
    uncorrelatable: str = ""
    root: bool = False

    def below(self, schema: Mapping[str, Any], path: str) -> "Place":
        """Place of the items or additional properties of a schema."""
        kind = schema.get("type")
        most = schema.get("maxItems" if kind == "array" else "maxProperties")
        count = None
        if self.cardinality is not None and isinstance(most, int):
            count = min(self.cardinality * max(most, 0), LARGEST)
        uncorrelatable = self.uncorrelatable
        if kind == "array" and schema.get("x-kubernetes-list-type") != "map":
            uncorrelatable = uncorrelatable or path
        return Place(count, uncorrelatable)

    def property(self) -> "Place":
        return Place(self.cardinality, self.uncorrelatable)


def pattern(source: str, path: str, cost: SchemaCost) -> Causes:
    """Validates a pattern by compiling it."""
    cost.pattern_length += len(source)
    if cost.pattern_length > LONGEST_PATTERNS:
        text = f"the patterns of a schema may have at most {LONGEST_PATTERNS} characters in total"
        yield field.forbidden(path, text)
        return
    try:
        re2_patterns.compiled(source)
    except re2_patterns.PatternError as error:
        yield field.invalid(path, source, f"must be a valid regular expression, but isn't: {error}")


def rules(schema: Mapping[str, Any], path: str, place: Place, cost: SchemaCost) -> Causes:
    """Validates the rules of one schema, without its subschemas."""
    given = schema.get("x-kubernetes-validations")
    if not given:
        return
    base = f"{path}.x-kubernetes-validations"
    if not isinstance(given, list) or not all(isinstance(rule, Mapping) for rule in given):
        yield field.invalid(base, given, "must be a list of objects with the field rule")
        return
    try:
        declaration = declaration_for_rules(schema, root=place.root)
    except InvalidExpression as error:
        yield field.invalid(base, given, str(error))
        return
    for index, rule in enumerate(given):
        yield from _rule(rule, f"{base}[{index}]", schema, declaration, place, cost)


def _rule(
    rule: Mapping[str, Any],
    path: str,
    schema: Mapping[str, Any],
    declaration: Declaration,
    place: Place,
    cost: SchemaCost,
) -> Causes:
    texts = {name: rule.get(name) for name in ("rule", "message", "messageExpression", "reason", "fieldPath")}
    for name, value in texts.items():
        if value is not None and not isinstance(value, str):
            yield field.invalid(f"{path}.{name}", value, "must be a string")
            return
    source, message = (texts["rule"] or "").strip(), texts["message"] or ""
    if not source:
        yield field.required(f"{path}.rule", "rule is not specified")
        return
    yield from _message(message, source, path)
    if texts["reason"] is not None and texts["reason"] not in REASONS:
        yield field.unsupported(f"{path}.reason", texts["reason"], sorted(REASONS))
    if texts["fieldPath"] and not _resolves(texts["fieldPath"], schema):
        yield field.invalid(f"{path}.fieldPath", texts["fieldPath"], "must be a valid path")
    cost.source_length += len(source) + len(texts["messageExpression"] or "")
    if cost.source_length > LONGEST_SOURCES:
        text = f"the expressions of a schema may have at most {LONGEST_SOURCES} characters in total"
        yield field.forbidden(f"{path}.rule", text)
        return
    variables = rule_variables(rule, declaration)
    try:
        program = compile_condition(source, variables)
    except InvalidExpression as error:
        yield field.invalid(f"{path}.rule", _shown(rule), str(error))
        return
    if place.uncorrelatable and "oldSelf" in program.variables:
        text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.uncorrelatable}"
        yield field.invalid(f"{path}.rule", texts["rule"], text)
    yield from _cost(program, "estimated rule cost", f"{path}.rule", declaration, place, cost)
    expression = (texts["messageExpression"] or "").strip()
    if texts["messageExpression"] and not expression:
        yield field.required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    if expression:
        where = f"{path}.messageExpression"
        try:
            program = compile_message(expression, variables)
        except InvalidExpression as error:
            yield field.invalid(where, _shown(rule), str(error))
            return
        yield from _cost(program, "estimated messageExpression cost", where, declaration, place, cost)


def _message(message: str, source: str, path: str) -> Causes:
    if message and not message.strip():
        yield field.invalid(f"{path}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip():
        yield field.invalid(f"{path}.message", message, "must not contain line breaks")
    elif "\n" in source and not message:
        yield field.required(f"{path}.message", "message must be specified if rule contains line breaks")


def _cost(
    program: Program, name: str, path: str, declaration: Declaration, place: Place, total: SchemaCost
) -> Causes:
    count = declaration.max_cardinality if place.cardinality is None else place.cardinality
    cost = min(program.cost.most * count, LARGEST)
    if cost > EXPRESSION_LIMIT:
        yield field.forbidden(path, _too_expensive(name, cost, EXPRESSION_LIMIT))
    total.add(cost, path)


def _too_expensive(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{name} exceeds budget by factor of {shown} {_HINT}"


def _shown(rule: Mapping[str, Any]) -> dict[str, Any]:
    """The rule as kube-apiserver prints it."""
    return {
        "Rule": rule.get("rule") or "",
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }


def _resolves(path: str, schema: Mapping[str, Any]) -> bool:
    """Whether a JSON path such as `.spec.size` or `['a.b']` names a property of the schema."""
    while path:
        if path.startswith(("['", '["')):
            name, closed, path = path[2:].partition(f"{path[1]}]")
            if not closed:
                return False
        elif path.startswith("."):
            end = min((at for at in (path.find(".", 1), path.find("[", 1)) if at > 0), default=len(path))
            name, path = path[1:end], path[end:]
        else:
            return False
        properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
        found = properties.get(name) or (extra if isinstance(extra, Mapping) else None)
        if not isinstance(found, Mapping):
            return False
        schema = found
    return True
